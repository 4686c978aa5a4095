"""Branches, exit and traps (PTX ISA, Control Flow Instructions)."""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Unsupported
from sidestream.harness.ptx import ir


def _bra(low: Builder, ins: ir.Instruction) -> None:
    target = ins.args["target"]
    if not isinstance(target, ir.Label):
        raise Unsupported("branch to something that is not a label")
    low.emit("bra", target=target.target)


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
    "ret": _exit,
    "exit": _exit,
    "trap": _trap,
    "nanosleep": _yield,
    "pmevent": _nothing,
}
