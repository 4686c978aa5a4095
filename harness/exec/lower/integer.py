"""Integer arithmetic (PTX ISA, Integer Arithmetic Instructions)."""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Unsupported
from sidestream.harness.exec.lower.checks import bits, only, width
from sidestream.harness.ptx import ir


def operands(low: Builder, ins: ir.Instruction, op: str, kind: str) -> None:
    """Emit `op` with one to three sources and a destination, all of type `kind`."""
    w = width(kind)
    args = ins.args
    low.emit(
        op,
        d=low.dest(args["d"], w),
        a=low.source(args["a"], w),
        b=low.source(args["b"], w) if "b" in args else None,
        c=low.source(args["c"], w) if "c" in args else None,
    )


def plain(low: Builder, ins: ir.Instruction) -> None:
    """Operations whose bits do not depend on the sign: add, sub, neg."""
    only(ins, "type", "sat")
    kind = ins.mods["type"]
    if "sat" in ins.mods:
        if kind != "s32":
            raise Unsupported(f"saturation of .{kind}")
        operands(low, ins, f"{ins.op}.sat.s32", kind)
        return
    if kind not in ("u16", "s16", "u32", "s32", "u64", "s64"):
        raise Unsupported(f"{ins.op}.{kind}")
    operands(low, ins, f"{ins.op}.b{bits(kind)}", kind)


def signed(low: Builder, ins: ir.Instruction) -> None:
    """Operations that differ by sign: min, max, div, rem, abs."""
    only(ins, "type")
    operands(low, ins, f"{ins.op}.{ins.mods['type']}", ins.mods["type"])


def multiply(low: Builder, ins: ir.Instruction) -> None:
    """`mul` and `mad`: low, high and wide forms."""
    only(ins, "type", "mode")
    kind, mode = ins.mods["type"], ins.mods["mode"]
    if mode == "lo":
        operands(low, ins, f"{ins.op}.b{bits(kind)}", kind)
        return
    if mode == "hi":
        operands(low, ins, f"{ins.op}.hi.{kind}", kind)
        return
    w, out = width(kind), 64 if bits(kind) == 32 else 32
    args = ins.args
    low.emit(
        f"{ins.op}.wide.{kind}",
        d=low.dest(args["d"], out),
        a=low.source(args["a"], w),
        b=low.source(args["b"], w),
        c=low.source(args["c"], out) if "c" in args else None,
    )


INTEGER = {
    "add": plain,
    "sub": plain,
    "neg": plain,
    "min": signed,
    "max": signed,
    "abs": signed,
    "div": signed,
    "mul": multiply,
}
"""Families that share their name with a floating-point one."""

FAMILY = {"rem": signed, "mad": multiply}
