"""Integer arithmetic (PTX ISA, Integer Arithmetic Instructions)."""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Unsupported
from sidestream.harness.exec.lower.checks import arithmetic, bits, only, width
from sidestream.harness.ptx import ir

SCALARS = frozenset({"u16", "s16", "u32", "s32", "u64", "s64"})
PACKED = frozenset({"u16x2", "s16x2", "u8x4", "s8x4"})


def _scalar(kind: str) -> str:
    if kind not in SCALARS:
        raise Unsupported(f"type .{kind}")
    return kind


def modular(low: Builder, ins: ir.Instruction) -> None:
    """Add, sub and neg, whose bits do not depend on the sign."""
    only(ins, "type", "sat")
    kind = _scalar(ins.mods["type"])
    form = f"sat.{kind}" if "sat" in ins.mods else f"b{bits(kind)}"
    arithmetic(low, ins, f"{ins.op}.{form}", kind)


def signed(low: Builder, ins: ir.Instruction) -> None:
    """min, max, div, rem, abs and sad, which differ by sign."""
    only(ins, "type", "relu")
    kind = _scalar(ins.mods["type"])
    relu = "relu." if "relu" in ins.mods else ""
    arithmetic(low, ins, f"{ins.op}.{relu}{kind}", kind)


def multiply(low: Builder, ins: ir.Instruction) -> None:
    """`mul` and `mad`: low, high and wide forms."""
    only(ins, "type", "mode", "sat")
    kind, mode = _scalar(ins.mods["type"]), ins.mods["mode"]
    if mode == "lo":
        arithmetic(low, ins, f"{ins.op}.b{bits(kind)}", kind)
        return
    if mode == "hi":
        sat = "sat." if "sat" in ins.mods else ""
        arithmetic(low, ins, f"{ins.op}.hi.{sat}{kind}", kind)
        return
    w, out = width(kind), 64 if bits(kind) == 32 else 32
    args = ins.args
    low.emit(
        f"{ins.op}.wide.{kind}",
        d=low.dest(args["d"], out),
        a=low.source(args["a"], w, kind),
        b=low.source(args["b"], w, kind),
        c=low.source(args["c"], out) if "c" in args else None,
    )


def _multiply24(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type", "mode", "sat")
    sat = "sat." if "sat" in ins.mods else ""
    kind = ins.mods["type"]
    arithmetic(low, ins, f"{ins.op}.{ins.mods['mode']}.{sat}{kind}", kind)


_READS, _WRITES = 1, 2


def _carry(low: Builder, ins: ir.Instruction) -> None:
    """Extended precision: sums and products that read or write the carry flag."""
    only(ins, "type", "mode", "cc")
    kind = ins.mods["type"]
    family = ins.op.removesuffix(".cc")
    takes = _READS if family in ("addc", "subc", "madc") else 0
    gives = _WRITES if "cc" in ins.mods or ins.op.endswith(".cc") else 0
    args = ins.args
    w = width(kind)
    a, b = low.source(args["a"], w, kind), low.source(args["b"], w, kind)
    if family.startswith("mad"):
        c = low.source(args["c"], w, kind)
        form = f"hi.{kind}" if ins.mods["mode"] == "hi" else f"lo.b{w}"
        op = f"carry.{form}"
    else:
        op, c, b = f"carry.b{w}", b, a
    down = int(family.startswith("sub"))
    low.emit(op, d=low.dest(args["d"], w), a=a, b=b, c=c, x=(takes | gives, down))


_CLAMP, _RELU = 1, 2


def packed(low: Builder, ins: ir.Instruction) -> None:
    """add, sub, neg, min and max of two or four parts of a word."""
    only(ins, "type", "sat", "relu")
    kind = ins.mods["type"]
    how = (_CLAMP if "sat" in ins.mods else 0) | (_RELU if "relu" in ins.mods else 0)
    x = (16 if kind.endswith("x2") else 8, int(kind[0] == "s"), how)
    d = low.dest(ins.args["d"], 32)
    a = low.source(ins.args["a"], 32)
    if ins.op == "neg":
        low.emit("sub.parts", d=d, a=low.const(0, 32), b=a, x=x)
        return
    low.emit(f"{ins.op}.parts", d=d, a=a, b=low.source(ins.args["b"], 32), x=x)


def _dot(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "atype", "btype", "mode")
    x = tuple(int(ins.mods[slot] == "s32") for slot in ("atype", "btype"))
    if ins.op == "dp2a":
        x = (*x, 16 if ins.mods["mode"] == "hi" else 0)
    arithmetic(low, ins, ins.op, "b32", x)


BY_TYPE = {
    **dict.fromkeys(("add", "sub", "neg"), modular),
    **dict.fromkeys(("min", "max", "abs", "div"), signed),
    **dict.fromkeys(("mul", "mad"), multiply),
}
"""Families that share their name with a floating-point one."""

BY_PACKED_TYPE = dict.fromkeys(("add", "sub", "neg", "min", "max"), packed)

FAMILY = {
    **dict.fromkeys(("rem", "sad"), signed),
    **dict.fromkeys(("mul24", "mad24"), _multiply24),
    **dict.fromkeys(("add.cc", "addc", "sub.cc", "subc", "mad.cc", "madc"), _carry),
    **dict.fromkeys(("dp4a", "dp2a"), _dot),
}
