"""Conversions into and out of packed and narrow formats (PTX ISA, cvt, cvt.pack).

Not modelled, and so `incomplete` when executed: stochastic rounding (.rs) and s2f6x2.
"""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Ref, Unsupported
from sidestream.harness.exec.lower.checks import (
    RELU,
    SATFINITE,
    bits,
    flags,
    only,
)
from sidestream.harness.ptx import ir

MODES = {"rn": 0, "rz": 1, "rm": 2, "rp": 3, "rna": 4}
"""Rounding modes, as in core/directed.h."""

FORMATS = {
    name: number
    for number, name in enumerate(
        (
            *("f64", "f32", "f16", "bf16", "tf32"),
            *("e4m3", "e5m2", "e2m3", "e3m2", "e2m1"),
        )
    )
}
"""Formats that soft.c rounds to, in the order of the tables in core."""

_NARROW = frozenset({"e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "e2m1x2"})
_PAIRS = frozenset({"f16x2", "bf16x2"})


def _distance(kind: str) -> int:
    """Bits from the lower to the upper number of a pair."""
    return 16 if kind in _PAIRS else 4 if kind == "e2m1x2" else 8


def _mode(ins: ir.Instruction) -> int:
    mode = ins.mods.get("round", "")
    if mode not in MODES:
        raise Unsupported(f"rounding .{mode}")
    return MODES[mode]


def _pair(low: Builder, ins: ir.Instruction, dtype: str, stype: str) -> None:
    """Two f32, or a pair of halves, rounded to a pair of numbers."""
    if dtype not in _PAIRS | _NARROW:
        raise Unsupported(f"cvt.{dtype}.{stype}")
    total = flags(ins, "relu", "satfinite")
    mode = _mode(ins)
    args = ins.args
    d = low.dest(args["d"], 32)
    a = low.source(args["a"], 32, stype)
    b = low.source(args["b"], 32, stype) if stype == "f32" else None
    if dtype in _PAIRS and mode == 0 and not total & SATFINITE:
        low.emit(f"cvt.{dtype}.f32", d=d, a=a, b=b, x=(total & RELU,))
        return
    x = (total, mode, FORMATS[dtype.removesuffix("x2")], _distance(dtype))
    if dtype in _PAIRS:
        low.emit("cvt.pair.f32", d=d, a=a, b=b, x=x)
        return
    if mode != MODES["rn"] or not total & SATFINITE:
        raise Unsupported(f"cvt.{dtype} other than .rn.satfinite")
    low.emit(f"cvt.small.{stype}", d=d, a=a, b=b, x=x)


def _widen(low: Builder, ins: ir.Instruction, dtype: str, stype: str) -> None:
    """A pair of narrow numbers as a pair of halves, times scale factors if given."""
    total = flags(ins, "relu", "satfinite")
    scale: Ref | None = None
    if "scaled" in ins.mods:
        scale = low.source(ins.args["b"], 32, "b16")
    low.emit(
        "cvt.wide.pair",
        d=low.dest(ins.args["d"], 32),
        a=low.source(ins.args["a"], 32),
        b=scale,
        x=(
            total,
            int(dtype == "bf16x2"),
            FORMATS[stype.removesuffix("x2")],
            _distance(stype),
        ),
    )


def convert(low: Builder, ins: ir.Instruction) -> None:
    """`cvt` with a format of less than 16 bits, a pair, or tf32 on one side."""
    only(ins, "dtype", "stype", "round", "relu", "satfinite", "scaled")
    dtype, stype = ins.mods["dtype"], ins.mods["stype"]
    if ins.mods["round"] == "rs":
        raise Unsupported("rounding .rs")
    args = ins.args
    x: tuple[int, ...]
    if dtype == "tf32":
        x = (flags(ins, "relu", "satfinite"), _mode(ins), FORMATS["tf32"])
        d, a = low.dest(args["d"], 32), low.source(args["a"], 32, "f32")
        low.emit("cvt.tf32.f32", d=d, a=a, x=x)
    elif dtype == "ue8m0x2":
        x = (flags(ins, "satfinite"), _mode(ins))
        d, a = low.dest(args["d"], 32), low.source(args["a"], 32, stype)
        b = low.source(args["b"], 32, stype) if stype == "f32" else None
        low.emit(f"cvt.ue8m0x2.{stype}", d=d, a=a, b=b, x=x)
    elif stype == "ue8m0x2":
        d, a = low.dest(args["d"], 32), low.source(args["a"], 32)
        low.emit("cvt.bf16x2.ue8m0x2", d=d, a=a)
    elif stype in _NARROW and dtype in _PAIRS:
        _widen(low, ins, dtype, stype)
    elif stype == "f32" or (stype in _PAIRS and dtype in _NARROW):
        _pair(low, ins, dtype, stype)
    else:
        raise Unsupported(f"cvt.{dtype}.{stype}")


def pack_saturated(low: Builder, ins: ir.Instruction) -> None:
    """`cvt.pack.sat`: two clamped integers beside each other."""
    only(ins, "dtype", "stype", "ctype", "sat")
    kind = ins.mods["dtype"]
    c = low.source(ins.args["c"], 32) if "c" in ins.args else None
    low.emit(
        "cvt.pack",
        d=low.dest(ins.args["d"], 32),
        a=low.source(ins.args["a"], 32),
        b=low.source(ins.args["b"], 32),
        c=c,
        x=(bits(kind), int(kind[0] == "s"), int(c is not None)),
    )
