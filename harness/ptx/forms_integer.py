"""Forms of PTX ISA chapters "Integer Arithmetic" and "Extended-Precision"."""

from __future__ import annotations

from sidestream.harness.ptx.forms import Family, Form

_ALL = "u16|u32|u64|s16|s32|s64"
_WORDS = "u32|s32|u64|s64"
_TWO = "=d:type a:type b:type"
_THREE = "=d:type a:type b:type c:type"


def _section(name: str) -> str:
    return f"Integer Arithmetic Instructions: {name}"


def _multiply(spelling: str, extra: str, wide_extra: tuple[str, str]) -> Family:
    """`mul` and `mad`: the wide result has twice the bits of the factors."""
    wide16, wide32 = wide_extra
    forms = [
        Form(f"mode=hi|lo type={_ALL}", _TWO + extra),
        Form("mode=wide type=u16|s16", "=d:b32 a:type b:type" + wide16),
        Form("mode=wide type=u32|s32", "=d:b64 a:type b:type" + wide32),
    ]
    if spelling == "mad":
        forms.append(Form("mode=hi sat type=s32", _THREE))
    return Family(spelling, _section(spelling), tuple(forms))


FAMILIES: tuple[Family, ...] = (
    Family(
        "add",
        _section("add"),
        (
            Form("type=u16|u64|s16|s64", _TWO),
            Form("sat? type=u32|s32|u16x2|s16x2|u8x4|s8x4", _TWO),
        ),
    ),
    Family(
        "sub",
        _section("sub"),
        (
            Form("type=u16|u32|u64|s16|s64", _TWO),
            Form("sat? type=s32|u8x4|s8x4", _TWO),
        ),
    ),
    _multiply("mul", "", ("", "")),
    _multiply("mad", " c:type", (" c:b32", " c:b64")),
    Family("mul24", _section("mul24"), (Form("mode=hi|lo type=u32|s32", _TWO),)),
    Family(
        "mad24",
        _section("mad24"),
        (
            Form("mode=hi|lo type=u32|s32", _THREE),
            Form("mode=hi sat type=s32", _THREE),
        ),
    ),
    Family("sad", _section("sad"), (Form(f"type={_ALL}", _THREE),)),
    Family("div", _section("div"), (Form(f"type={_ALL}", _TWO),)),
    Family("rem", _section("rem"), (Form(f"type={_ALL}", _TWO),)),
    Family("abs", _section("abs"), (Form("type=s16|s32|s64", "=d:type a:type"),)),
    Family("neg", _section("neg"), (Form("type=s16|s32|s64|s8x4", "=d:type a:type"),)),
    *(
        Family(
            spelling,
            _section(spelling),
            (
                Form("type=u16|u32|u64|u16x2|u8x4|s16|s64", _TWO),
                Form("relu? type=s16x2|s32|s8x4", _TWO),
            ),
        )
        for spelling in ("min", "max")
    ),
    Family("popc", _section("popc"), (Form("type=b32|b64", "=d:b32 a:type"),)),
    Family("clz", _section("clz"), (Form("type=b32|b64", "=d:b32 a:type"),)),
    Family(
        "bfind",
        _section("bfind"),
        (Form(f"shiftamt? type={_WORDS}", "=d:b32 a:type"),),
    ),
    Family("fns", _section("fns"), (Form("type=b32", "=d:b32 mask:b32 a:b32 b:b32"),)),
    Family("brev", _section("brev"), (Form("type=b32|b64", "=d:type a:type"),)),
    Family(
        "bfe", _section("bfe"), (Form(f"type={_WORDS}", "=d:type a:type b:b32 c:b32"),)
    ),
    Family(
        "bfi",
        _section("bfi"),
        (Form("type=b32|b64", "=d:type a:type b:type c:b32 t:b32"),),
    ),
    Family(
        "szext",
        _section("szext"),
        (Form("mode=clamp|wrap type=u32|s32", "=d:type a:type b:b32"),),
    ),
    Family("bmsk", _section("bmsk"), (Form("mode=clamp|wrap type=b32", _TWO),)),
    Family(
        "dp4a",
        _section("dp4a"),
        (Form("atype=u32|s32 btype=u32|s32", "=d:b32 a:b32 b:b32 c:b32"),),
    ),
    Family(
        "dp2a",
        _section("dp2a"),
        (Form("mode=lo|hi atype=u32|s32 btype=u32|s32", "=d:b32 a:b32 b:b32 c:b32"),),
    ),
    *(
        Family(
            spelling,
            f"Extended-Precision Arithmetic Instructions: {spelling}",
            (Form(words.format(types=_WORDS), operands, op=op),),
        )
        for spelling, words, operands, op in (
            ("add", "cc type={types}", _TWO, "add.cc"),
            ("addc", "cc? type={types}", _TWO, "addc"),
            ("sub", "cc type={types}", _TWO, "sub.cc"),
            ("subc", "cc? type={types}", _TWO, "subc"),
            ("mad", "mode=hi|lo cc type={types}", _THREE, "mad.cc"),
            ("madc", "mode=hi|lo cc? type={types}", _THREE, "madc"),
        )
    ),
)
