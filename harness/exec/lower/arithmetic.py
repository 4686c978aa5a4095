"""Families whose name serves integers, floats and packed values: choose by type."""

from __future__ import annotations

from sidestream.harness.exec.lower import floating, integer
from sidestream.harness.exec.lower.builder import Builder, Unsupported
from sidestream.harness.ptx import ir

_INTEGERS = frozenset({"u16", "s16", "u32", "s32", "u64", "s64"})


def choose(low: Builder, ins: ir.Instruction) -> None:
    """Hand an instruction to the family of its type."""
    kind = ins.mods["type"]
    table = integer.INTEGER if kind in _INTEGERS else floating.BY_TYPE.get(kind, {})
    family = table.get(ins.op)
    if family is None:
        raise Unsupported(f"{ins.op}.{kind}")
    family(low, ins)


_OPS = (
    *("add", "sub", "mul", "div", "min", "max", "neg", "abs", "fma"),
    *("min3", "max3", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"),
    *("copysign", "testp"),
)
FAMILY = dict.fromkeys(_OPS, choose)
