"""The syntax tree of PTX text: what is written, before anything is resolved.

Every token of the text survives here, spellings included; `line` fields are 1-based
and take no part in comparison, so a printed and re-read module equals the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier operand: register, special register, symbol, label or `_`.

    `offset` holds the tokens of a bare `symbol+4`; empty in nearly all text.
    """

    text: str
    offset: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Number:
    """A literal as written, sign included: `-1`, `0x80U`, `0f3F800000`."""

    text: str


@dataclass(frozen=True, slots=True)
class Not:
    """`!p`."""

    operand: Name | Number


@dataclass(frozen=True, slots=True)
class PairOf:
    """`d|p`."""

    first: Name
    second: Name


@dataclass(frozen=True, slots=True)
class Braces:
    """`{a, b}`."""

    elements: tuple[OperandSyntax, ...]


@dataclass(frozen=True, slots=True)
class Parens:
    """`(a, b)`: results or arguments of a call."""

    elements: tuple[OperandSyntax, ...]


@dataclass(frozen=True, slots=True)
class Brackets:
    """`[base+offset]` or `[base, coords]`."""

    base: Name | Number
    offset: tuple[str, ...] = ()
    coords: OperandSyntax | None = None


OperandSyntax = Name | Number | Not | PairOf | Braces | Parens | Brackets


@dataclass(frozen=True, slots=True)
class Guard:
    """`@p` or `@!p`."""

    name: str
    negated: bool


@dataclass(frozen=True, slots=True)
class InstructionSyntax:
    """One instruction statement; `opcode` has all of its dotted words."""

    opcode: str
    operands: tuple[OperandSyntax, ...]
    guard: Guard | None = None
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class LabelSyntax:
    """`name:`."""

    name: str
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Declarator:
    """One declared name: `%r<8>` has count 8; `x[2][3]` has dims ("2", "3").

    `init` holds the tokens after `=`.
    """

    name: str
    count: str | None = None
    dims: tuple[str, ...] = ()
    init: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Declaration:
    """Registers, variables or parameters.

    `qualifiers` are the tokens before the first name, such as
    `(".extern", ".shared", ".align", "16", ".b8")`.
    """

    qualifiers: tuple[str, ...]
    declarators: tuple[Declarator, ...]
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Directive:
    """`.loc`, `.file`, `.pragma`, `.version`, `.maxntid`, ... and their tokens.

    `ended` tells that a semicolon closed it.
    """

    name: str
    tokens: tuple[str, ...]
    ended: bool = False
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Section:
    """`.section name { ... }`: debug data, kept as tokens."""

    name: str
    tokens: tuple[str, ...]
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Empty:
    """A lone semicolon."""

    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Block:
    """`{ ... }`: a scope of registers, variables and labels."""

    body: tuple[Statement, ...]
    line: int = field(default=0, compare=False)


Statement = InstructionSyntax | LabelSyntax | Declaration | Directive | Empty | Block


@dataclass(frozen=True, slots=True)
class FunctionSyntax:
    """An `.entry` or `.func`; `body` is None for a declaration only.

    `results` and `params` are None where the text has no parentheses for them.
    """

    linkage: tuple[str, ...]
    kind: str
    name: str
    results: tuple[Declaration, ...] | None
    params: tuple[Declaration, ...] | None
    directives: tuple[Directive, ...]
    body: Block | None
    line: int = field(default=0, compare=False)


Item = Directive | Declaration | Section | FunctionSyntax | Empty


@dataclass(frozen=True, slots=True)
class Module:
    """One PTX text."""

    items: tuple[Item, ...]

    @property
    def functions(self) -> Iterator[FunctionSyntax]:
        """Every `.entry` and `.func`, in order."""
        return (item for item in self.items if isinstance(item, FunctionSyntax))

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the kernels that have a body, in order."""
        return tuple(
            f.name for f in self.functions if f.kind == ".entry" and f.body is not None
        )

    def directive(self, name: str) -> Directive | None:
        """The first module directive of that name, such as `.target`."""
        for item in self.items:
            if isinstance(item, Directive) and item.name == name:
                return item
        return None
