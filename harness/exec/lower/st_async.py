"""Asynchronous stores and reductions, into a cluster's shared memory or global memory.

PTX ISA: st.async, red.async.
"""

from __future__ import annotations

from sidestream.harness.exec.lower.atomic import OPERATIONS, type_number
from sidestream.harness.exec.lower.builder import Builder, Unsupported
from sidestream.harness.exec.lower.checks import bits, only, small, width
from sidestream.harness.exec.lower.memory import elements, place
from sidestream.harness.ptx import ir


def _global(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "mmio", "sem", "scope", "space", "type", "op")
    kind = ins.mods["type"]
    base, offset, where = place(low, ins.args["addr"], ins.mods.get("space"))
    how = 0
    if "op" in ins.mods:
        how = 1 + OPERATIONS.index(ins.mods["op"]) | type_number(kind) << 8
    low.emit(
        "async.global",
        a=base,
        imm=offset,
        x=(where, bits(kind) // 8, 0, how),
        ext=[low.source(e, width(kind), kind) for e in elements(ins.args["b"])],
    )


def _st_async(low: Builder, ins: ir.Instruction) -> None:
    if "mbar" not in ins.args:
        _global(low, ins)
        return
    only(ins, "sem", "scope", "space", "completion", "vec", "type", "op")
    kind = ins.mods["type"]
    space = ins.mods.get("space")
    base, offset, where = place(low, ins.args["addr"], space)
    barrier, barrier_offset, barrier_where = place(low, ins.args["mbar"], space)
    if where != barrier_where:
        raise Unsupported("address registers of different widths")
    how = 0
    if "op" in ins.mods:
        how = 1 + OPERATIONS.index(ins.mods["op"]) | type_number(kind) << 8
    low.emit(
        "st.async",
        a=base,
        imm=offset,
        b=barrier,
        x=(where, bits(kind) // 8, small(barrier_offset), how),
        ext=[low.source(e, width(kind), kind) for e in elements(ins.args["b"])],
    )


FAMILY = {"st.async": _st_async, "red.async": _st_async}
