"""Floating-point arithmetic on f32, f32x2 and f64, and on mixed precisions.

PTX ISA, Floating-Point Instructions; Mixed Precision Floating-Point Instructions.
"""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Ref, Unsupported
from sidestream.harness.exec.lower.checks import (
    FTZ,
    THREE,
    arithmetic,
    flags,
    only,
    width,
)
from sidestream.harness.ptx import ir

_MODES = {"rn": "", "rz": ".rz", "rm": ".rm", "rp": ".rp"}


def _mode(ins: ir.Instruction) -> str:
    """Suffix of an operation for its rounding; without one PTX rounds to nearest."""
    return _MODES[ins.mods.get("round", "rn")]


def rounded(low: Builder, ins: ir.Instruction) -> None:
    """add, sub, mul, fma, div, rcp and sqrt, with their rounding mode."""
    only(ins, "type", "round", "ftz", "sat", "approx", "full")
    kind = ins.mods["type"]
    if kind == "f64" and "approx" in ins.mods:
        _gross(low, ins)
        return
    allowed = {"f32": ("ftz", "sat"), "f32x2": ("ftz",), "f64": ()}[kind]
    x = flags(ins, *allowed)
    if ins.op == "div" and "approx" in ins.mods:
        arithmetic(low, ins, "div.approx.f32", kind, (x,))
        return
    # The other approximations round correctly, which is within every bound.
    arithmetic(low, ins, f"{ins.op}.{kind}{_mode(ins)}", kind, (x,))


def _gross(low: Builder, ins: ir.Instruction) -> None:
    """Rcp and rsqrt of f64: with .ftz they look at the upper word alone."""
    ftz = ".ftz" if "ftz" in ins.mods else ""
    if not ftz and ins.op != "rsqrt":
        raise Unsupported(f"{ins.op}.approx.f64")
    arithmetic(low, ins, f"{ins.op}.approx{ftz}.f64", "f64")


def extreme(low: Builder, ins: ir.Instruction) -> None:
    """Min and max, of two or three operands."""
    only(ins, "type", "ftz", "nan", "xorsign", "abs")
    kind = ins.mods["type"]
    if kind == "f64":
        flags(ins)
        arithmetic(low, ins, f"{ins.op}.f64", kind)
        return
    x = flags(ins, "ftz", "nan", "xorsign", "abs")
    if "c" in ins.args:
        x |= THREE
    arithmetic(low, ins, f"{ins.op.removesuffix('3')}.{kind}", kind, (x,))


def sign(low: Builder, ins: ir.Instruction) -> None:
    """neg, abs and copysign."""
    only(ins, "type", "ftz")
    kind = ins.mods["type"]
    x = flags(ins, "ftz") if kind == "f32" else flags(ins)
    arithmetic(low, ins, f"{ins.op}.{kind}", kind, (x,))


def approximate(low: Builder, ins: ir.Instruction) -> None:
    """ex2, lg2, sin, cos, tanh and rsqrt."""
    only(ins, "type", "approx", "ftz")
    kind = ins.mods["type"]
    if kind == "f64":
        _gross(low, ins)
        return
    arithmetic(low, ins, f"{ins.op}.{kind}", kind, (flags(ins, "ftz") & FTZ,))


_TESTS = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")


def _test_property(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type", "op")
    kind = ins.mods["type"]
    low.emit(
        f"testp.{kind}",
        d=low.dest(ins.args["p"], 1),
        a=low.source(ins.args["a"], width(kind), kind),
        x=(_TESTS.index(ins.mods["op"]),),
    )


def _mixed(low: Builder, ins: ir.Instruction) -> None:
    """f32 arithmetic on operands of 16 bits, which are widened first."""
    only(ins, "type", "atype", "round", "sat")
    kind = ins.mods["atype"]
    op = ins.op.removesuffix(".mixed")

    def wide(name: str) -> Ref:
        row = low.temp(32)
        source = low.source(ins.args[name], 32, kind)
        low.emit(f"cvt.f32.{kind}", d=row, a=source, guarded=False)
        return row

    product = op == "fma"
    low.emit(
        f"{op}.f32{_mode(ins)}",
        d=low.dest(ins.args["d"], 32),
        a=wide("a"),
        b=wide("b") if product else low.source(ins.args["b"], 32, "f32"),
        c=low.source(ins.args["c"], 32, "f32") if product else None,
        x=(flags(ins, "sat"),),
    )


_ARITHMETIC = dict.fromkeys(("add", "sub", "mul", "fma"), rounded)
_SCALAR = {
    **_ARITHMETIC,
    **dict.fromkeys(("div", "rcp", "sqrt"), rounded),
    **dict.fromkeys(("min", "max", "min3", "max3"), extreme),
    **dict.fromkeys(("neg", "abs", "copysign"), sign),
    **dict.fromkeys(("ex2", "lg2", "sin", "cos", "tanh", "rsqrt"), approximate),
    "testp": _test_property,
}
BY_TYPE = {"f32": _SCALAR, "f64": _SCALAR, "f32x2": _ARITHMETIC}
"""Families by operand type."""

MIXED = dict.fromkeys(("add.mixed", "sub.mixed", "fma.mixed"), _mixed)
