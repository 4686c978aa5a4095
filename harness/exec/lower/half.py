"""Arithmetic on f16 and bf16, single and in pairs.

PTX ISA, Half Precision Floating-Point Instructions.
"""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Unsupported
from sidestream.harness.exec.lower.checks import FTZ, arithmetic, flags, only
from sidestream.harness.ptx import ir

TYPES = frozenset({"f16", "f16x2", "bf16", "bf16x2"})


def _shape(ins: ir.Instruction) -> tuple[str, int]:
    """The number's format, and 1 if there are two of them in a word."""
    kind = ins.mods["type"]
    return kind.removesuffix("x2"), int(kind.endswith("x2"))


def _computed(low: Builder, ins: ir.Instruction) -> None:
    """add, sub, mul, fma, ex2 and tanh."""
    only(ins, "type", "round", "ftz", "sat", "relu", "approx")
    form, pair = _shape(ins)
    x = flags(ins, "ftz", "sat", "relu")
    if form == "bf16" and x & FTZ and ins.op != "ex2":
        raise Unsupported("modifier .ftz")
    arithmetic(low, ins, f"{ins.op}.{form}", ins.mods["type"], (x, pair))


def _extreme(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type", "ftz", "nan", "xorsign", "abs")
    form, pair = _shape(ins)
    x = flags(ins, "ftz", "nan", "xorsign", "abs")
    arithmetic(low, ins, f"{ins.op}.{form}", ins.mods["type"], (x, pair))


def _sign(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type", "ftz")
    _, pair = _shape(ins)
    op = f"{ins.op}.{'pair' if pair else 'half'}"
    infinity = 0x7F80 if ins.mods["type"].startswith("bf16") else 0x7C00
    arithmetic(low, ins, op, ins.mods["type"], (flags(ins, "ftz"), infinity))


BY_TYPE = {
    **dict.fromkeys(("add", "sub", "mul", "fma", "ex2", "tanh"), _computed),
    **dict.fromkeys(("min", "max"), _extreme),
    **dict.fromkeys(("neg", "abs"), _sign),
}
