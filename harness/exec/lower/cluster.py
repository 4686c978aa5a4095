"""The CTAs of a cluster: their barrier and each other's shared memory.

PTX ISA: barrier.cluster, mapa, getctarank.
"""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder
from sidestream.harness.exec.lower.checks import only, width
from sidestream.harness.ptx import ir


def _barrier(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "sem", "aligned")
    low.emit(ins.op, x=(int("aligned" in ins.mods),))


def _mapa(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "space", "type")
    row = width(ins.mods["type"])
    low.emit(
        f"mapa.b{row}",
        d=low.dest(ins.args["d"], row),
        a=low.source(ins.args["a"], row),
        b=low.source(ins.args["b"], 32),
        x=(int("space" not in ins.mods),),
    )


def _getctarank(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "space", "type")
    row = width(ins.mods["type"])
    low.emit(
        "getctarank",
        d=low.dest(ins.args["d"], 32),
        a=low.source(ins.args["a"], row),
        x=(int("space" not in ins.mods), int(row == 64)),
    )


FAMILY = {
    "barrier.cluster.arrive": _barrier,
    "barrier.cluster.wait": _barrier,
    "mapa": _mapa,
    "getctarank": _getctarank,
}
