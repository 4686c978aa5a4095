"""Names and what they mean: registers, variables and labels of nested `{ }` scopes.

Inline assembly makes scopes of its own, with registers that shadow outer ones and
labels that repeat in each copy. Source: PTX ISA sections "Identifiers",
"Parameterized Variable Names" and "Vectors".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sidestream.harness.errors import PtxError
from sidestream.harness.ptx import ir
from sidestream.harness.ptx.literals import WIDTHS

MAX_REGISTERS = 1 << 20
"""Most registers of one range; far above what any compiler numbers."""

_ELEMENTS = {"v2": "xy", "v4": "xyzw"}

Meaning = ir.Register | ir.Symbol | ir.Label | ir.Vector


@dataclass
class Registers:
    """The registers of a function, numbered in the order they are first used."""

    all: list[ir.Register] = field(default_factory=list)

    def new(self, name: str, type_: str) -> ir.Register:
        """A register with the next free id."""
        register = ir.Register(len(self.all), name, type_)
        self.all.append(register)
        return register


class Scope:
    """The names of one `{ }` and, through its parent, of those around it."""

    def __init__(self, registers: Registers, parent: Scope | None = None) -> None:
        self._registers = registers
        self._parent = parent
        self._names: dict[str, Meaning] = {}
        self._types: dict[str, str] = {}
        self._ranges: dict[str, tuple[str, int]] = {}
        self.tables: dict[str, tuple[str, ...]] = {}

    def child(self) -> Scope:
        """A scope inside this one."""
        return Scope(self._registers, self)

    def add(self, name: str, meaning: Meaning, line: int) -> None:
        """Declare a variable or a label.

        Raises:
            PtxError: the name is already declared in this scope.
        """
        if self._declared(name):
            raise PtxError(f"{name} is declared twice in one scope", line)
        self._names[name] = meaning

    def add_register(self, name: str, type_: str, line: int) -> None:
        """Declare a register; it is numbered when first used.

        Raises:
            PtxError: unknown type, or the name is already declared in this scope.
        """
        self._check_type(type_, line)
        if self._declared(name):
            raise PtxError(f"{name} is declared twice in one scope", line)
        self._types[name] = type_

    def add_range(self, prefix: str, count: int, type_: str, line: int) -> None:
        """Declare `prefix<count>`: registers `prefix0` to `prefix(count-1)`.

        Raises:
            PtxError: unknown type, too many registers, or a range declared twice.
        """
        self._check_type(type_, line)
        if not 0 < count <= MAX_REGISTERS:
            raise PtxError(f"{prefix}<{count}> has no usable number of registers", line)
        if prefix in self._ranges:
            raise PtxError(f"{prefix}<> is declared twice in one scope", line)
        self._ranges[prefix] = (type_, count)

    def add_vector(self, name: str, vec: str, type_: str, line: int) -> None:
        """Declare a vector register: `name` and its elements `name.x` and so on.

        Raises:
            PtxError: as `add_register`.
        """
        elements = []
        for letter in _ELEMENTS[vec]:
            element = f"{name}.{letter}"
            self.add_register(element, type_, line)
            found = self.find(element)
            if isinstance(found, ir.Register):
                elements.append(found)
        self.add(name, ir.Vector(tuple(elements)), line)

    def find(self, name: str) -> Meaning | None:
        """What the name means here; the innermost declaration wins."""
        scope: Scope | None = self
        while scope is not None:
            found = scope._own(name)
            if found is not None:
                return found
            scope = scope._parent
        return None

    def find_table(self, label: str) -> tuple[Scope, tuple[str, ...]] | None:
        """The `.branchtargets` after that label, and the scope it stands in."""
        scope: Scope | None = self
        while scope is not None:
            if label in scope.tables:
                return scope, scope.tables[label]
            scope = scope._parent
        return None

    def _declared(self, name: str) -> bool:
        return name in self._names or name in self._types

    @staticmethod
    def _check_type(type_: str, line: int) -> None:
        if type_ not in WIDTHS:
            raise PtxError(f"registers have no type {type_!r}", line)

    def _own(self, name: str) -> Meaning | None:
        found = self._names.get(name)
        if found is not None:
            return found
        type_ = self._types.get(name) or self._in_range(name)
        if type_ is None:
            return None
        register = self._registers.new(name, type_)
        self._names[name] = register
        return register

    def _in_range(self, name: str) -> str | None:
        """Type of a name such as `%r17`; its prefix may itself end with digits."""
        if not self._ranges or not name[-1].isdigit():
            return None
        for size in range(1, min(len(name), 8)):
            digits = name[-size:]
            if not digits.isdigit():
                return None
            found = self._ranges.get(name[:-size])
            canonical = size == 1 or digits[0] != "0"
            if found is not None and canonical and int(digits) < found[1]:
                return found[0]
        return None
