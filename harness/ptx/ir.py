"""Decoded PTX: instructions with named modifiers and named operands.

The decoder is the only place that knows spellings. Everything after it reads
`Instruction.mods["type"]` or `Instruction.args["d"]` and never splits a string.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register, unique within its function.

    `name` is the spelling in the text, `id` tells shadowed ones of different
    `{ }` scopes apart, `type` is its declared type without the dot (`b32`, `pred`).
    """

    id: int
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Special:
    """A special register such as `%tid.x`, `%laneid` (with the `%`).

    `WARP_SZ` is decoded as the literal 32.
    """

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal.

    `kind` is `int` (value is a Python int, any sign), `f32` or `f64` (value is the
    raw IEEE bit pattern of `0f...`/`0d...` or of a decimal literal as f64).
    """

    kind: str
    value: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """A named variable: kernel parameter, shared, global or const variable."""

    name: str
    space: str
    """`param`, `shared`, `global`, `const` or `local`; `func` for a function."""
    offset: int = 0
    """Bytes added by `symbol+4` outside brackets."""


@dataclass(frozen=True, slots=True)
class Sink:
    """The `_` operand: a result nobody wants."""


@dataclass(frozen=True, slots=True)
class Negated:
    """`!p` as a source operand."""

    register: Register


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, ...}`."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`d|p`: a value and a predicate destination."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset]`; `base` is a register, a symbol or an absolute immediate."""

    base: Register | Symbol | Immediate
    offset: int


@dataclass(frozen=True, slots=True)
class TensorAddress:
    """`[tensorMap, {c0, c1, ...}]` of the bulk tensor copies."""

    map: Address
    coords: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Label:
    """A branch target, resolved to an index into `Function.instructions`.

    A label at the end of the body has the index one past the last instruction.
    """

    name: str
    target: int


Operand = (
    Register
    | Special
    | Immediate
    | Symbol
    | Sink
    | Negated
    | Vector
    | Pair
    | Address
    | TensorAddress
    | Label
)


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Where an instruction came from, by the nearest preceding `.loc`."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """One decoded instruction.

    Attributes:
        index: Position in `Function.instructions`.
        op: Family name: the opcode with the dotted words that select the operation
            itself, e.g. `add`, `ld`, `mbarrier.try_wait`, `cp.async.bulk.tensor`.
        mods: Modifier slots by name, e.g. `{"space": "global", "vec": "v4"}`;
            a slot that was absent in the text is absent here.
        args: Operands by name, e.g. `{"d": Register(...), "a": Address(...)}`.
        guard: Predicate of `@p`, or None.
        guard_negated: True for `@!p`.
        line: 1-based line in the PTX text.
        spelling: The full opcode as written, e.g. `ld.global.v4.b32`.
        source: Python source line, where the text carries `.loc`.
        known: False if no form in the tables matches the spelling; then `mods` is
            empty, `args` is numbered `0, 1, ...`, and executing it is `incomplete`.
        writes: Names of the arguments that are destinations, as far as present.
        refused: Why an instruction whose words are known is not, or empty.
    """

    index: int
    op: str
    mods: Mapping[str, str]
    args: Mapping[str, Operand]
    guard: Register | None
    guard_negated: bool
    line: int
    spelling: str
    source: SourceLine | None
    known: bool = True
    writes: tuple[str, ...] = ()
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel parameter: byte offset in the parameter space, size and alignment."""

    name: str
    offset: int
    size: int
    align: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A module or function variable.

    `size` is in bytes, 0 for an unsized `extern .shared` array (dynamic shared
    memory). `init` holds initial bytes for `.global`/`.const`, else None.
    """

    name: str
    space: str
    align: int
    size: int
    init: bytes | None = None


@dataclass(frozen=True, slots=True)
class Function:
    """A decoded `.entry`."""

    name: str
    target: str
    """The `.target` word, e.g. `sm_120a`."""
    params: tuple[Parameter, ...]
    variables: tuple[Variable, ...]
    registers: tuple[Register, ...]
    instructions: tuple[Instruction, ...]
    branch_targets: Mapping[str, tuple[int, ...]]
    """`.branchtargets` tables by label, as instruction indices."""
    directives: Mapping[str, tuple[int, ...]]
    """`maxntid`, `reqntid`, `minnctapersm`, `reqnctapercluster`, ... of the entry."""
