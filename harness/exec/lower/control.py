"""Branches, exit and traps (PTX ISA, Control Flow Instructions)."""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Unsupported
from sidestream.harness.exec.lower.checks import only
from sidestream.harness.ptx import ir


def _bra(low: Builder, ins: ir.Instruction) -> None:
    target = ins.args["target"]
    if not isinstance(target, ir.Label):
        raise Unsupported("branch to something that is not a label")
    low.emit("bra", target=target.target)


def _indexed(low: Builder, ins: ir.Instruction) -> None:
    """`brx.idx`: an index past the table stops the launch with a fault."""
    only(ins, "uni")
    table = ins.args["targets"]
    labels = table.elements if isinstance(table, ir.Vector) else ()
    targets = [label.target for label in labels if isinstance(label, ir.Label)]
    if not targets or len(targets) != len(labels):
        raise Unsupported("branch through something that is not a table of labels")
    low.emit("brx", a=low.source(ins.args["a"], 32), targets=targets)


def _exit(low: Builder, ins: ir.Instruction) -> None:
    low.emit("exit")


def _trap(low: Builder, ins: ir.Instruction) -> None:
    low.emit("trap")


def _nothing(low: Builder, ins: ir.Instruction) -> None:
    low.emit("nop")


def _yield(low: Builder, ins: ir.Instruction) -> None:
    low.emit("yield")


FAMILY = {
    "bra": _bra,
    "brx.idx": _indexed,
    "ret": _exit,
    "exit": _exit,
    "trap": _trap,
    "nanosleep": _yield,
    "pmevent": _nothing,
}
