"""Forms of `cvt`, `cvt.pack`, `cvta`, `isspacep`, `mapa` and `getctarank`.

PTX ISA chapter "Data Movement and Conversion Instructions".
"""

from __future__ import annotations

from collections.abc import Mapping

from sidestream.harness.ptx import ir
from sidestream.harness.ptx.forms import Family, Form

_INTEGER = "u8|u16|u32|u64|s8|s16|s32|s64"
_FLOAT = "f16|bf16|f32|f64"
_TO_INTEGER = "round=rni|rzi|rmi|rpi"
_ROUND = "round=rn|rz|rm|rp"
_ONE = "=d:dtype+ a:stype+"
_FP8 = "e4m3x2|e5m2x2"
_FP6 = "e2m3x2|e3m2x2"
_NARROW = f"{_FP8}|{_FP6}|e2m1x2"
_FOUR = "e4m3x4|e5m2x4|e2m3x4|e3m2x4|e2m1x4"
_SCALED = "scaled=scaled::n2::ue8m0"
_RANK = {"f16": 1, "bf16": 1, "f32": 2, "f64": 3}
_SPACE = "const|global|local|shared|shared::cta|shared::cluster|param|param::entry"


def _section(name: str) -> str:
    return f"Data Movement and Conversion Instructions: {name}"


def _float_rounding(mods: Mapping[str, str], args: Mapping[str, ir.Operand]) -> bool:
    """A narrower result needs a rounding, a wider one takes none.

    Between types of one size an integer rounding is allowed, and between `f16` and
    `bf16` a rounding is needed.
    """
    source, result = mods["stype"], mods["dtype"]
    rounding = mods.get("round", "")
    if rounding.endswith("i"):
        return source == result
    if _RANK[result] < _RANK[source]:
        return rounding != ""
    if _RANK[result] > _RANK[source]:
        return rounding == "" or "bf16" in (source, result)
    return (source == result) == (rounding == "")


def _four(mods: Mapping[str, str], args: Mapping[str, ir.Operand]) -> bool:
    sources = args["a"]
    return isinstance(sources, ir.Vector) and len(sources.elements) == 4


FAMILIES: tuple[Family, ...] = (
    Family(
        "cvt",
        _section("cvt"),
        (
            Form(f"sat? dtype={_INTEGER} stype={_INTEGER}", _ONE),
            Form(f"{_TO_INTEGER} ftz? sat? dtype={_INTEGER} stype={_FLOAT}", _ONE),
            Form(f"{_ROUND} ftz? sat? dtype={_FLOAT} stype={_INTEGER}", _ONE),
            Form(
                f"{_ROUND}|rni|rzi|rmi|rpi? ftz? sat? dtype={_FLOAT} stype={_FLOAT}",
                _ONE,
                rule=_float_rounding,
            ),
            Form("round=rn|rz relu? satfinite? dtype=f16|bf16 stype=f32", _ONE),
            Form(
                "round=rn|rz relu? satfinite? dtype=f16x2|bf16x2 stype=f32",
                "=d:dtype a:f32 b:f32",
            ),
            Form(
                "round=rs relu? satfinite? dtype=f16x2|bf16x2 stype=f32",
                "=d:dtype a:f32 b:f32 c:b32",
            ),
            Form("round=rna satfinite? dtype=tf32 stype=f32", "=d:b32 a:f32"),
            Form("round=rn|rz satfinite? relu? dtype=tf32 stype=f32", "=d:b32 a:f32"),
            Form(
                f"round=rn satfinite relu? dtype={_NARROW} stype=f32",
                "=d:dtype a:f32 b:f32",
            ),
            Form(
                f"round=rn satfinite relu? dtype={_NARROW} stype=f16x2|bf16x2",
                "=d:dtype a:stype",
            ),
            Form(f"round=rn relu? dtype=f16x2 stype={_NARROW}", "=d:dtype a:stype"),
            Form(
                f"round=rn relu? satfinite? {_SCALED}? dtype=bf16x2 stype={_NARROW}",
                "=d:dtype a:stype b:b16?scaled",
            ),
            Form(
                f"round=rs relu? satfinite dtype={_FOUR} stype=f32",
                "=d:dtype {a}:f32 c:b32",
                rule=_four,
            ),
            Form(
                "round=rz|rp satfinite? dtype=ue8m0x2 stype=f32", "=d:dtype a:f32 b:f32"
            ),
            Form(
                "round=rz|rp satfinite? dtype=ue8m0x2 stype=bf16x2", "=d:dtype a:stype"
            ),
            Form("round=rn dtype=bf16x2 stype=ue8m0x2", "=d:dtype a:stype"),
            Form(
                f"round=rn satfinite relu? {_SCALED}? dtype=s2f6x2 stype=f32",
                "=d:dtype a:f32 b:f32 c:b16?scaled",
            ),
            Form(
                f"round=rn satfinite relu? {_SCALED}? dtype=s2f6x2 stype=bf16x2",
                "=d:dtype a:stype b:b16?scaled",
            ),
            Form(
                f"round=rn satfinite? relu? {_SCALED}? dtype=bf16x2 stype=s2f6x2",
                "=d:dtype a:stype b:b16?scaled",
            ),
        ),
    ),
    Family(
        "cvt.pack",
        _section("cvt.pack"),
        (
            Form("sat dtype=u16|s16 stype=s32", "=d:b32 a:b32 b:b32"),
            Form(
                "sat dtype=u2|s2|u4|s4|u8|s8 stype=s32 ctype=b32",
                "=d:b32 a:b32 b:b32 c:b32",
            ),
        ),
    ),
    Family(
        "cvta",
        _section("cvta"),
        (Form(f"space={_SPACE} type=u32|u64", "=d:type a:type"),),
    ),
    Family(
        "cvta.to",
        _section("cvta"),
        (Form(f"space={_SPACE} type=u32|u64", "=d:type a:type"),),
    ),
    Family("isspacep", _section("isspacep"), (Form(f"space={_SPACE}", "=p a"),)),
    Family(
        "mapa",
        _section("mapa"),
        (Form("space=shared::cluster? type=u32|u64", "=d:type a:type b:b32"),),
    ),
    Family(
        "getctarank",
        _section("getctarank"),
        (Form("space=shared::cluster? type=u32|u64", "=d:b32 a:type"),),
    ),
)
