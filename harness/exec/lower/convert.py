"""Conversions among scalar types (PTX ISA, cvt).

Halves are widened to f32 first, which is exact; conversions into or out of packed and
smaller formats are in narrow.py.
"""

from __future__ import annotations

from sidestream.harness.exec.lower import narrow
from sidestream.harness.exec.lower.builder import Builder, Ref, Unsupported
from sidestream.harness.exec.lower.checks import (
    FTZ,
    RELU,
    SAT,
    bits,
    flags,
    only,
    width,
)
from sidestream.harness.exec.lower.narrow import FORMATS, MODES
from sidestream.harness.ptx import ir

_INTEGRAL = {"rni": 0, "rzi": 1, "rmi": 2, "rpi": 3}
_INTS = frozenset(f"{s}{b}" for s in "us" for b in (8, 16, 32, 64))
_HALVES = frozenset({"f16", "bf16"})
_FLOATS = frozenset({"f16", "bf16", "f32", "f64"})
_FLUSH, _WIDE = 1, 2


class _Target:
    """Where a conversion writes: its register, or a row that is then extended.

    A register may be wider than the type; it gets the value extended as the type's
    sign says (PTX ISA, Operand Size Exceeding Instruction-Type Size).
    """

    def __init__(self, low: Builder, operand: ir.Operand, kind: str) -> None:
        self._low = low
        self._kind = kind
        self._final: Ref | None = None
        self._bits = bits(kind)
        if isinstance(operand, ir.Register):
            self._bits = bits(operand.type)
        signed_wider = kind[0] == "s" and self._bits > bits(kind)
        if signed_wider or self._bits > max(bits(kind), 32):
            self._final = low.dest(operand, width(f"b{self._bits}"))
            self.row = low.temp(width(kind))
        else:
            self.row = low.dest(operand, width(kind))

    @property
    def guarded(self) -> bool:
        """Whether the row is the register itself."""
        return self._final is None

    def finish(self) -> None:
        """Emit the extension, if there is one."""
        if self._final is None:
            return
        op = f"sext.{bits(self._kind)}.{self._bits}"
        if self._kind[0] != "s":
            op = "zext.b64"
        self._low.emit(op, d=self._final, a=self.row)


def _widened(low: Builder, ins: ir.Instruction, to: int) -> Ref:
    """The integer source as a row of `to` bits, extended from its own type."""
    stype = ins.mods["stype"]
    of, signed = bits(stype), stype[0] == "s"
    a = low.source(ins.args["a"], width(stype), stype)
    if of < 32:
        # A source register may be wider than its type: take the low bits first.
        op = f"sext.{of}.{to}" if signed else f"low.{of}"
        row = low.temp(to if signed else 32)
        low.emit(op, d=row, a=a, guarded=False)
        return row if signed else low.fit(row, to)
    if of == to:
        return a
    row = low.temp(64)
    op = "sext.32.64" if signed else "zext.b64"
    low.emit(op, d=row, a=a, guarded=False)
    return row


def _integers(low: Builder, ins: ir.Instruction, d: _Target) -> None:
    """Integer to integer: truncate, extend or saturate."""
    dtype, stype = ins.mods["dtype"], ins.mods["stype"]
    to, of = bits(dtype), bits(stype)
    if "sat" in ins.mods:
        wide = _widened(low, ins, 64)
        x = (to, int(dtype[0] == "s"), int(stype[0] == "s"))
        op = f"cvt.sat.{64 if to == 64 else 32}"
        low.emit(op, d=d.row, a=wide, x=x, guarded=d.guarded)
        return
    if to <= of:
        row = low.source(ins.args["a"], width(stype), stype)
        row = low.fit(row, max(to, 32))
    else:
        row = _widened(low, ins, max(to, 32))
    op = f"low.{to}" if to < 32 else f"mov.b{to}"
    low.emit(op, d=d.row, a=row, guarded=d.guarded)


def _float_source(low: Builder, ins: ir.Instruction) -> tuple[Ref, str]:
    """The source as f32 or f64, and which of them."""
    stype = ins.mods["stype"]
    a = low.source(ins.args["a"], width(stype), stype)
    if stype not in _HALVES:
        return a, stype
    row = low.temp(32)
    low.emit(f"cvt.f32.{stype}", d=row, a=a, guarded=False)
    return row, "f32"


def _float_to_int(low: Builder, ins: ir.Instruction, d: _Target) -> None:
    dtype = ins.mods["dtype"]
    mode = ins.mods.get("round", "")
    if mode not in _INTEGRAL:
        raise Unsupported(f"rounding .{mode} to an integer")
    # .sat changes nothing: out of range clamps anyway.
    x3 = _FLUSH if flags(ins, "ftz", "sat") & FTZ else 0
    a, form = _float_source(low, ins)
    if (dtype, form) == ("s32", "f32") and mode in ("rzi", "rni"):
        low.emit(f"cvt.s32.f32.{mode}", d=d.row, a=a, guarded=d.guarded)
        return
    if form == "f64":
        x3 |= _WIDE
    low.emit(
        f"cvt.int{64 if bits(dtype) == 64 else ''}.{form}",
        d=d.row,
        a=a,
        x=(bits(dtype), int(dtype[0] == "s"), _INTEGRAL[mode], x3),
        guarded=d.guarded,
    )


def _int_to_float(low: Builder, ins: ir.Instruction, d: _Target) -> None:
    dtype, stype = ins.mods["dtype"], ins.mods["stype"]
    sat = flags(ins, "ftz", "sat") & SAT
    mode = MODES[ins.mods["round"]]
    exact = dtype == "f64" and bits(stype) <= 32
    row = low.temp(width(dtype)) if sat else d.row
    guarded = d.guarded and not sat
    if dtype in ("f32", "f64") and (exact or mode == 0):
        to = max(bits(stype), 32)
        op = f"cvt.{dtype}.{stype[0]}{to}"
        low.emit(op, d=row, a=_widened(low, ins, to), guarded=guarded)
    else:
        op = "cvt.from.int64" if dtype == "f64" else "cvt.from.int"
        x = (FORMATS[dtype], mode, int(stype[0] == "s"))
        low.emit(op, d=row, a=_widened(low, ins, 64), x=x, guarded=guarded)
    if sat:
        _clamp(low, d, row, dtype)


def _clamp(low: Builder, d: _Target, row: Ref, form: str) -> None:
    """`row`, a number of `form`, limited to [0, 1]."""
    if form in _HALVES:
        low.emit(f"cvt.f32.{form}", d=(wide := low.temp(32)), a=row, guarded=False)
        x = (SAT, 0, FORMATS[form])
        low.emit("cvt.round.f32", d=d.row, a=wide, x=x, guarded=d.guarded)
    else:
        low.emit(f"cvt.{form}.{form}", d=d.row, a=row, x=(1,), guarded=d.guarded)


def _integral(low: Builder, ins: ir.Instruction, d: _Target) -> None:
    """Floating point to a whole number of the same type."""
    dtype = ins.mods["dtype"]
    total = flags(ins, "ftz", "sat")
    a, form = _float_source(low, ins)
    row = low.temp(32) if dtype in _HALVES else d.row
    x = (0, int(bool(total & SAT)), _INTEGRAL[ins.mods["round"]], total & FTZ)
    guarded = d.guarded and row == d.row
    low.emit(f"cvt.integral.{form}", d=row, a=a, x=x, guarded=guarded)
    if dtype in _HALVES:
        low.emit(f"cvt.{dtype}.f32", d=d.row, a=row, x=(0,), guarded=d.guarded)


def _floats(low: Builder, ins: ir.Instruction, d: _Target) -> None:
    dtype, stype = ins.mods["dtype"], ins.mods["stype"]
    mode = MODES[ins.mods.get("round", "rn")]
    if stype in _HALVES and dtype == "f32" and not flags(ins, "ftz", "sat"):
        a = low.source(ins.args["a"], width(stype), stype)
        low.emit(f"cvt.f32.{stype}", d=d.row, a=a, guarded=d.guarded)
        return
    a, form = _float_source(low, ins)
    x: tuple[int, ...]
    if dtype in _HALVES:
        total = flags(ins, "ftz", "sat", "relu", "satfinite")
        if form == "f32" and mode == 0 and not total & ~RELU:
            op, x = f"cvt.{dtype}.f32", (total,)
        else:
            op, x = f"cvt.round.{form}", (total, mode, FORMATS[dtype])
        low.emit(op, d=d.row, a=a, x=x, guarded=d.guarded)
        return
    total = flags(ins, "ftz", "sat")
    x = (int(bool(total & SAT)), mode, 0, _FLUSH if total & FTZ else 0)
    if dtype == "f64" and stype == "f64" and total & FTZ:
        raise Unsupported("modifier .ftz")
    low.emit(f"cvt.{dtype}.{form}", d=d.row, a=a, x=x, guarded=d.guarded)


def _cvt(low: Builder, ins: ir.Instruction) -> None:
    dtype, stype = ins.mods["dtype"], ins.mods["stype"]
    if not {dtype, stype} <= _INTS | _FLOATS:
        narrow.convert(low, ins)
        return
    only(ins, "dtype", "stype", "round", "ftz", "sat", "relu", "satfinite")
    if ins.mods.get("round", "rn") not in (*MODES, *_INTEGRAL):
        raise Unsupported(f"rounding .{ins.mods['round']}")
    d = _Target(low, ins.args["d"], dtype)
    if dtype in _INTS and stype in _INTS:
        _integers(low, ins, d)
    elif dtype in _INTS:
        _float_to_int(low, ins, d)
    elif stype in _INTS:
        _int_to_float(low, ins, d)
    elif ins.mods.get("round", "") in _INTEGRAL:
        _integral(low, ins, d)
    else:
        _floats(low, ins, d)
    d.finish()


FAMILY = {"cvt": _cvt, "cvt.pack": narrow.pack_saturated}
