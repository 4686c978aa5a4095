"""Declared variables and parameters: space, alignment, size and initial bytes.

Sources: PTX ISA sections "State Spaces", "Variable Declarations", "Initializers",
"Alignment" and "Kernel Function Parameters".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sidestream.harness.errors import PtxError
from sidestream.harness.ptx import ir, syntax
from sidestream.harness.ptx.literals import BYTES, element_bytes, integer

MAX_BYTES = 1 << 40
"""Largest variable read; no device has more memory."""
MAX_INITIALISED = 1 << 26
"""Largest variable with initial values that is read, in bytes."""

_SPACES = {".param", ".shared", ".local", ".global", ".const"}
_VECTORS = {".v2": 2, ".v4": 4}
_OPAQUE = {".texref": 8, ".samplerref": 8, ".surfref": 8}


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What the qualifiers of a declaration say.

    Attributes:
        space: State space without the dot; `reg` for registers.
        type: Element type without the dot.
        vec: Elements of a vector type, 1 without one.
        align: Alignment in bytes.
        unit: Bytes of one element, vectors included; 0 for registers.
        linkage: `.extern`, `.visible`, `.weak`, `.common`, or empty.
    """

    space: str
    type: str
    vec: int
    align: int
    unit: int
    linkage: str


def layout(declaration: syntax.Declaration) -> Layout:
    """Read the qualifiers of a declaration.

    Raises:
        PtxError: no state space, no type, or an alignment that is no power of two.
    """
    line = declaration.line
    space = type_ = linkage = ""
    vec, align = 1, 0
    words = iter(declaration.qualifiers)
    pointer = False
    for word in words:
        if word == ".ptr":
            pointer = True
        elif word == ".align":
            value = integer(next(words, ""), line)
            if value <= 0 or value & (value - 1) or value > 1 << 20:
                raise PtxError(f"alignment {value} is no power of two", line)
            # After `.ptr` it speaks of what the pointer points to.
            align = align if pointer else value
        elif pointer and word in _SPACES:
            continue
        elif word in _SPACES or word == ".reg":
            space = space or word[1:]
        elif word in _VECTORS:
            vec = _VECTORS[word]
        elif word in (".extern", ".visible", ".weak", ".common"):
            linkage = word
        elif word[1:] in BYTES or word == ".pred" or word in _OPAQUE:
            type_ = word[1:]
        elif word.startswith(".") and word != ".attribute":
            type_ = type_ or word[1:]
    if not space:
        raise PtxError("a declaration needs a state space", line)
    if not type_:
        raise PtxError("a declaration needs a type", line)
    unit = 0
    if space != "reg":
        size = BYTES.get(type_) or _OPAQUE.get("." + type_)
        if size is None:
            raise PtxError(f"variables have no type .{type_}", line)
        unit = size * vec
    return Layout(
        space=space,
        type=type_,
        vec=vec,
        align=align or unit or 1,
        unit=unit,
        linkage=linkage,
    )


def variable(
    of: Layout, declarator: syntax.Declarator, name: str, line: int
) -> ir.Variable:
    """The variable that a declarator makes; `name` may differ from its spelling.

    Raises:
        PtxError: a size or initial value that cannot be.
    """
    size, unsized = _size(of, declarator, line)
    init = None
    if declarator.init:
        init = _initial(of, declarator, None if unsized else size, line)
        size = len(init)
    elif unsized and of.linkage != ".extern":
        raise PtxError(f"{declarator.name} needs a size", line)
    elif unsized:
        size = 0
    return ir.Variable(name, of.space, of.align, size, init)


def _size(of: Layout, declarator: syntax.Declarator, line: int) -> tuple[int, bool]:
    """Bytes of the variable, and whether its first dimension is left open."""
    count = 1
    unsized = False
    for position, dim in enumerate(declarator.dims):
        if dim == "" and position == 0:
            unsized = True
            continue
        if dim == "":
            raise PtxError("only the first dimension may be open", line)
        count *= integer(dim, line)
        if count * of.unit > MAX_BYTES:
            raise PtxError(f"{declarator.name} is too large", line)
    return count * of.unit, unsized


def _initial(
    of: Layout, declarator: syntax.Declarator, size: int | None, line: int
) -> bytes:
    """Initial bytes; braces only group, what is missing at the end is zero."""
    if of.type not in BYTES:
        raise PtxError(f".{of.type} takes no initial value", line)
    found = bytearray()
    sign = ""
    for token in declarator.init:
        if token in ("{", "}", ","):
            continue
        if token in ("-", "+", "~"):
            sign = token
            continue
        if not token[0].isdigit():
            raise PtxError(f"initial value {token!r} is not a literal", line)
        found += element_bytes(sign + token, of.type, line)
        sign = ""
        if len(found) > MAX_INITIALISED:
            raise PtxError(f"{declarator.name} is too large", line)
    if size is None:
        return bytes(found)
    if len(found) > size or size > MAX_INITIALISED:
        raise PtxError(f"{declarator.name} does not fit its initial value", line)
    return bytes(found) + bytes(size - len(found))


def parameters(
    declarations: Iterable[syntax.Declaration],
) -> tuple[ir.Parameter, ...]:
    """Kernel parameters at their byte offsets.

    Raises:
        PtxError: a parameter without a size, or not in the `.param` space.
    """
    found: list[ir.Parameter] = []
    offset = 0
    for declaration in declarations:
        of = layout(declaration)
        declarator = declaration.declarators[0]
        if of.space != "param" or declarator.count is not None:
            raise PtxError("kernel parameters are .param variables", declaration.line)
        size, unsized = _size(of, declarator, declaration.line)
        if unsized or size == 0:
            raise PtxError(f"{declarator.name} needs a size", declaration.line)
        offset = -(-offset // of.align) * of.align
        found.append(ir.Parameter(declarator.name, offset, size, of.align))
        offset += size
    return tuple(found)
