"""Atomic operations and reductions on memory.

PTX ISA, Parallel Synchronization and Communication Instructions: atom, red.
"""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import WIDTHS, Builder, Ref, Unsupported
from sidestream.harness.exec.lower.checks import only
from sidestream.harness.exec.lower.memory import elements, place
from sidestream.harness.ptx import ir

# Both orders are those of the enums in core/atomic.c.
OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")
_TYPES = (
    *("b16", "b32", "b64", "b128", "s32", "s64", "f32", "f64"),
    *("f16", "bf16", "f16x2", "bf16x2"),
)
_SAME = {"u32": "b32", "u64": "b64"}
_FLOAT = ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2")
_IGNORED = ("sem", "scope", "cache_hint", "noftz")


def type_number(kind: str) -> int:
    """Number of an element type in core/atomic.c.

    Raises:
        Unsupported: if it has none.
    """
    kind = _SAME.get(kind, kind)
    if kind not in _TYPES:
        raise Unsupported(f"atomic operation on .{kind}")
    return _TYPES.index(kind)


def _atom(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "space", "op", "type", "vec", *_IGNORED)
    op, kind = ins.mods["op"], ins.mods["type"]
    number = type_number(kind)
    minmax = ("min", "max") if kind not in ("f32", "f64") else ()
    if kind in _FLOAT and op not in ("add", *minmax):
        raise Unsupported(f"atomic {op} of .{kind}")
    base, offset, where = place(low, ins.args["addr"], ins.mods.get("space"))
    row = WIDTHS[kind]
    sources = [low.source(e, row, kind) for e in elements(ins.args["b"])]
    results: list[Ref | None] = [None] * len(sources)
    if "d" in ins.args:
        results = [low.optional_dest(e, row) for e in elements(ins.args["d"])]
    count = len(sources)
    if op == "cas":
        sources.append(low.source(ins.args["c"], row, kind))
    low.emit(
        "atom",
        a=base,
        imm=offset,
        x=(where, OPERATIONS.index(op), number, count),
        ext=[*results, *sources],
    )


FAMILY = {"atom": _atom, "red": _atom}
