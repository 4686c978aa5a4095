"""Floating-point arithmetic (PTX ISA, Floating Point Instructions)."""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Unsupported
from sidestream.harness.exec.lower.checks import FTZ, THREE, flags, only, width
from sidestream.harness.ptx import ir


def _sources(low: Builder, ins: ir.Instruction, op: str, x: int) -> None:
    kind = ins.mods["type"]
    w = width(kind)
    args = ins.args
    low.emit(
        op,
        d=low.dest(args["d"], w),
        a=low.source(args["a"], w, kind),
        b=low.source(args["b"], w, kind) if "b" in args else None,
        c=low.source(args["c"], w, kind) if "c" in args else None,
        x=(x,),
    )


def rounded(low: Builder, ins: ir.Instruction) -> None:
    """add, sub, mul, fma, div, rcp, sqrt, with their rounding mode."""
    only(ins, "type", "round", "ftz", "sat", "relu", "approx", "full")
    kind = ins.mods["type"]
    mode = ins.mods.get("round", "rn")
    if kind == "f64" and flags(ins):
        raise Unsupported("modifier of f64 arithmetic")
    suffix = "" if mode == "rn" else f".{mode}"
    _sources(low, ins, f"{ins.op}.{kind}{suffix}", flags(ins))


def extreme(low: Builder, ins: ir.Instruction) -> None:
    """Min and max, of two or three operands."""
    only(ins, "type", "ftz", "nan", "xorsign", "abs")
    kind = ins.mods["type"]
    x = flags(ins) | (THREE if "c" in ins.args else 0)
    if "abs" in ins.mods and "xorsign" not in ins.mods:
        raise Unsupported("modifier .abs without .xorsign")
    if kind == "f64" and x:
        raise Unsupported("modifier of f64 min or max")
    _sources(low, ins, f"{ins.op.removesuffix('3')}.{kind}", x)


def sign(low: Builder, ins: ir.Instruction) -> None:
    """neg, abs, copysign."""
    only(ins, "type", "ftz")
    _sources(low, ins, f"{ins.op}.{ins.mods['type']}", flags(ins) & FTZ)


def approximate(low: Builder, ins: ir.Instruction) -> None:
    """ex2, lg2, sin, cos, tanh, rsqrt."""
    only(ins, "type", "approx", "ftz")
    _sources(low, ins, f"{ins.op}.{ins.mods['type']}", flags(ins) & FTZ)


_TESTS = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")


def test_property(low: Builder, ins: ir.Instruction) -> None:
    """Testp."""
    kind = ins.mods["type"]
    which = next((s for s in ins.mods.values() if s in _TESTS), None)
    if which is None:
        raise Unsupported("property of testp")
    destination = ins.args["p"] if "p" in ins.args else ins.args["d"]
    low.emit(
        f"testp.{kind}",
        d=low.dest(destination, 1),
        a=low.source(ins.args["a"], width(kind), kind),
        x=(_TESTS.index(which),),
    )


_FLOAT = {
    **dict.fromkeys(("add", "sub", "mul", "fma", "div", "rcp", "sqrt"), rounded),
    **dict.fromkeys(("min", "max", "min3", "max3"), extreme),
    **dict.fromkeys(("neg", "abs", "copysign"), sign),
    **dict.fromkeys(("ex2", "lg2", "sin", "cos", "tanh", "rsqrt"), approximate),
    "testp": test_property,
}

BY_TYPE = dict.fromkeys(("f32", "f64"), _FLOAT)
"""Families by operand type; packed and half types add theirs."""
