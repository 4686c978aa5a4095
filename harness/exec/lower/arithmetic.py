"""Families whose name serves integers, floats and packed values: choose by type."""

from __future__ import annotations

from sidestream.harness.exec.lower import floating, half, integer
from sidestream.harness.exec.lower.builder import Builder, Unsupported
from sidestream.harness.ptx import ir


def choose(low: Builder, ins: ir.Instruction) -> None:
    """Hand an instruction to the family of its type."""
    kind = ins.mods["type"]
    if kind in integer.SCALARS:
        table = integer.BY_TYPE
    elif kind in integer.PACKED:
        table = integer.BY_PACKED_TYPE
    elif kind in half.TYPES:
        table = half.BY_TYPE
    else:
        table = floating.BY_TYPE.get(kind, {})
    family = table.get(ins.op)
    if family is None:
        raise Unsupported(f"{ins.op}.{kind}")
    family(low, ins)


_OPS = (
    *("add", "sub", "mul", "mad", "div", "min", "max", "neg", "abs", "fma"),
    *("min3", "max3", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"),
    *("copysign", "testp"),
)
FAMILY = {**dict.fromkeys(_OPS, choose), **floating.MIXED}
