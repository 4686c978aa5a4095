"""Forms of `cvt`, `cvt.pack`, `cvta`, `isspacep`, `mapa` and `getctarank`.

PTX ISA chapter "Data Movement and Conversion Instructions".
"""

from __future__ import annotations

from collections.abc import Mapping

from sidestream.harness.ptx import ir
from sidestream.harness.ptx.forms import Family, Form

_INTEGER = "u8|u16|u32|u64|s8|s16|s32|s64"
_LONG_INTEGER = "u16|u32|u64|s16|s32|s64"
_TO_INTEGER = "round=rni|rzi|rmi|rpi"
_ROUND = "round=rn|rz|rm|rp"
# Which of `.ftz` and `.sat` go with which pair of types; a result with fewer bits
# needs a rounding, one of the same type may be rounded to an integer.
_FLOAT_ROWS: tuple[str, ...] = (
    f"{_TO_INTEGER} sat? dtype={_INTEGER} stype=f16|f64",
    f"{_TO_INTEGER} ftz? sat? dtype={_INTEGER} stype=f32",
    f"{_TO_INTEGER} dtype={_LONG_INTEGER} stype=bf16",
    f"{_ROUND} sat? dtype=f16|f64 stype={_INTEGER}",
    f"{_ROUND} ftz? sat? dtype=f32 stype={_INTEGER}",
    f"{_ROUND} dtype=bf16 stype={_LONG_INTEGER}",
    f"{_ROUND} ftz? sat? dtype=f16 stype=f32",
    f"{_ROUND} ftz? sat? dtype=f32 stype=f64",
    f"{_ROUND} sat? dtype=f16 stype=f64",
    f"{_ROUND} ftz? dtype=bf16 stype=f32",
    f"{_ROUND} dtype=bf16 stype=f64",
    f"{_ROUND}? dtype=f16 stype=bf16",
    f"{_ROUND}? dtype=bf16 stype=f16",
    f"{_ROUND}? dtype=f64 stype=bf16",
    f"{_ROUND}? ftz? dtype=f32 stype=bf16",
    "sat? dtype=f64 stype=f16",
    "ftz? sat? dtype=f32 stype=f16",
    "ftz? sat? dtype=f64 stype=f32",
    f"{_TO_INTEGER}? sat? dtype=f16 stype=f16",
    f"{_TO_INTEGER}? sat? dtype=f64 stype=f64",
    f"{_TO_INTEGER}? dtype=bf16 stype=bf16",
    f"{_TO_INTEGER}? ftz? sat? dtype=f32 stype=f32",
)
_ONE = "=d:dtype+ a:stype+"
_FP8 = "e4m3x2|e5m2x2"
_FP6 = "e2m3x2|e3m2x2"
_NARROW = f"{_FP8}|{_FP6}|e2m1x2"
_FOUR = "e4m3x4|e5m2x4|e2m3x4|e3m2x4|e2m1x4"
_SCALED = "scaled=scaled::n2::ue8m0"
_SPACE = "const|global|local|shared|shared::cta|shared::cluster|param|param::entry"


def _section(name: str) -> str:
    return f"Data Movement and Conversion Instructions: {name}"


def _can_saturate(mods: Mapping[str, str], args: Mapping[str, ir.Operand]) -> bool:
    """`.sat` is for results that cannot hold every source value."""
    source, result = mods["stype"], mods["dtype"]
    narrower = int(result[1:]) <= int(source[1:])
    if source[0] == result[0]:
        return narrower and source != result
    return narrower or source[0] == "s"


def _four(mods: Mapping[str, str], args: Mapping[str, ir.Operand]) -> bool:
    sources = args["a"]
    return isinstance(sources, ir.Vector) and len(sources.elements) == 4


FAMILIES: tuple[Family, ...] = (
    Family(
        "cvt",
        _section("cvt"),
        (
            Form(f"dtype={_INTEGER} stype={_INTEGER}", _ONE),
            Form(f"sat dtype={_INTEGER} stype={_INTEGER}", _ONE, rule=_can_saturate),
            *(Form(words, _ONE) for words in _FLOAT_ROWS),
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
