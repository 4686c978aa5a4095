"""Conversions (PTX ISA, Data Movement and Conversion Instructions: cvt)."""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Ref, Unsupported
from sidestream.harness.exec.lower.checks import bits, only, width
from sidestream.harness.ptx import ir

_INTEGRAL = {"rni": 0, "rzi": 1, "rmi": 2, "rpi": 3}
_INTS = frozenset(f"{s}{b}" for s in "us" for b in (8, 16, 32, 64))


def _integers(low: Builder, ins: ir.Instruction) -> None:
    """Integer to integer: truncate, extend or saturate."""
    dtype, stype = ins.mods["dtype"], ins.mods["stype"]
    to, of = bits(dtype), bits(stype)
    d = low.dest(ins.args["d"], _row(ins.args["d"], dtype))
    a = low.source(ins.args["a"], width(stype))
    # A source register may be wider than its type: take the low bits first.
    if of < 32:
        low.emit(f"low.{of}", d=(t := low.temp(32)), a=a, guarded=False)
        a = t
    if "sat" in ins.mods:
        wide = a
        if of < 64:
            wide = low.temp(64)
            sign = f"sext.{of}.64" if stype[0] == "s" else "zext.b64"
            low.emit(sign, d=wide, a=a, guarded=False)
        x = (to, int(dtype[0] == "s"), int(stype[0] == "s"))
        low.emit(f"cvt.sat.{64 if to == 64 else 32}", d=d, a=wide, x=x)
        return
    _extend(low, d, a, to, of, signed=stype[0] == "s")


def _extend(low: Builder, d: Ref, a: Ref, to: int, of: int, *, signed: bool) -> None:
    """Emit the truncation or extension of `a` from `of` to `to` bits."""
    if to == 64:
        if of == 64:
            low.emit("mov.b64", d=d, a=a)
        else:
            low.emit(f"sext.{of}.64" if signed else "zext.b64", d=d, a=a)
        return
    if of == 64:
        low.emit("mov.lo", d=(t := low.temp(32)), a=a, guarded=False)
        a, of = t, 32
    if to < of:
        low.emit(f"low.{to}", d=d, a=a)
    elif to == of or not signed:
        low.emit("mov.b32", d=d, a=a)
    else:
        low.emit(f"sext.{of}.{to}", d=d, a=a)


def _row(operand: ir.Operand, dtype: str) -> int:
    """Row width of a destination; a wider register gets the value extended."""
    needed = width(dtype)
    if isinstance(operand, ir.Register) and width(operand.type) > needed:
        raise Unsupported("destination register wider than its type")
    return needed


def _float_to_int(low: Builder, ins: ir.Instruction) -> None:
    dtype, stype = ins.mods["dtype"], ins.mods["stype"]
    mode = ins.mods.get("round", "")
    if mode not in _INTEGRAL:
        raise Unsupported(f"rounding .{mode} to an integer")
    out = width(dtype)
    flush = int("ftz" in ins.mods)
    d = low.dest(ins.args["d"], out)
    a = low.source(ins.args["a"], width(stype), stype)
    if stype in ("f16", "bf16"):
        low.emit(f"cvt.f32.{stype}", d=(t := low.temp(32)), a=a, guarded=False)
        a, stype = t, "f32"
    if (dtype, stype, mode) == ("s32", "f32", "rzi"):
        low.emit("cvt.s32.f32.rz", d=d, a=a)
        return
    name = f"cvt.int{64 if out == 64 else ''}.{stype}"
    x = (bits(dtype), int(dtype[0] == "s"), _INTEGRAL[mode], flush)
    low.emit(name, d=d, a=a, x=x)


def _int_to_float(low: Builder, ins: ir.Instruction) -> None:
    dtype, stype = ins.mods["dtype"], ins.mods["stype"]
    if ins.mods.get("round", "rn") != "rn" or "sat" in ins.mods:
        raise Unsupported("directed rounding of an integer")
    a = low.source(ins.args["a"], width(stype))
    if bits(stype) < 32:
        low.emit(f"low.{bits(stype)}", d=(t := low.temp(32)), a=a, guarded=False)
        a = t
        if stype[0] == "s":
            name = f"sext.{bits(stype)}.32"
            low.emit(name, d=(t := low.temp(32)), a=a, guarded=False)
            a = t
        stype = f"{stype[0]}32"
    out = width(dtype)
    d = low.dest(ins.args["d"], out)
    if dtype in ("f16", "bf16"):
        if bits(stype) == 64 or dtype == "bf16":
            raise Unsupported(f"cvt.{dtype}.{stype}")  # would round twice
        # 32-bit integers beyond 2^24 round to f32 first, but are past f16's range
        # or keep their order at its ties: f16 has 11 bits, f32 24.
        raise Unsupported(f"cvt.{dtype}.{stype}")
    low.emit(f"cvt.{dtype}.{stype}", d=d, a=a)


def _floats(low: Builder, ins: ir.Instruction) -> None:
    dtype, stype = ins.mods["dtype"], ins.mods["stype"]
    mode = ins.mods.get("round", "")
    ftz, sat = int("ftz" in ins.mods), int("sat" in ins.mods)
    relu = int("relu" in ins.mods)
    if "satfinite" in ins.mods:
        raise Unsupported("modifier .satfinite")
    args = ins.args
    if dtype in ("f16x2", "bf16x2") and stype == "f32" and mode == "rn":
        if sat or ftz:
            raise Unsupported(f"modifier of cvt.{dtype}")
        low.emit(
            f"cvt.{dtype}.f32",
            d=low.dest(args["d"], 32),
            a=low.source(args["a"], 32, "f32"),
            b=low.source(args["b"], 32, "f32"),
            x=(relu,),
        )
        return
    d = low.dest(args["d"], width(dtype))
    a = low.source(args["a"], width(stype), stype)
    pair = (dtype, stype)
    if pair in (("f16", "f32"), ("bf16", "f32")) and mode == "rn" and not sat + ftz:
        low.emit(f"cvt.{dtype}.f32", d=d, a=a, x=(relu,))
    elif pair in (("f32", "f16"), ("f32", "bf16")) and not sat + ftz + relu:
        low.emit(f"cvt.f32.{stype}", d=d, a=a)
    elif pair == ("f64", "f32") and not sat + relu:
        low.emit("cvt.f64.f32", d=d, a=a, x=(0, 0, 0, ftz))
    elif pair == ("f32", "f64") and mode == "rn" and not relu:
        low.emit("cvt.f32.f64", d=d, a=a, x=(sat, 0, 0, ftz))
    elif dtype == stype and mode in _INTEGRAL and not sat + relu:
        low.emit(f"cvt.integral.{dtype}", d=d, a=a, x=(0, 0, _INTEGRAL[mode], ftz))
    elif pair == ("f32", "f32") and not mode and not relu:
        low.emit("cvt.f32.f32", d=d, a=a, x=(sat, 0, 0, ftz))
    else:
        raise Unsupported(f"cvt.{mode}.{dtype}.{stype}")


def _cvt(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "dtype", "stype", "round", "ftz", "sat", "relu", "satfinite")
    dtype, stype = ins.mods["dtype"], ins.mods["stype"]
    if dtype in _INTS and stype in _INTS:
        _integers(low, ins)
    elif dtype in _INTS:
        _float_to_int(low, ins)
    elif stype in _INTS:
        _int_to_float(low, ins)
    else:
        _floats(low, ins)


FAMILY = {"cvt": _cvt}
