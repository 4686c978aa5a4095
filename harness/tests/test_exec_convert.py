"""cvt among integers and floating-point types, against exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import ceil, floor

import numpy as np
import pytest
from exact_rounding import BF16, F16, F32, F64, Format, Number, finite
from instruction_table import Row, check, edges, signed
from kernel_case import Array, evaluate
from test_exec_float import flushed, patterns32, patterns64
from test_exec_half import patterns16

INTEGERS = [f"{s}{b}" for b in (8, 16, 32, 64) for s in "us"]
FORMS: dict[str, Format] = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
MODES = ("rn", "rz", "rm", "rp")


def bits(kind: str) -> int:
    """Bits of a scalar type."""
    return int(kind.lstrip("bfsu"))


def dtype(kind: str) -> np.dtype[np.generic]:
    """The unsigned dtype of a type's register in a test kernel."""
    return np.dtype(f"u{max(bits(kind), 16) // 8}")


def read(kind: str, pattern: int) -> int:
    """The integer that the low bits of a pattern stand for."""
    pattern &= (1 << bits(kind)) - 1
    return signed(pattern, bits(kind)) if kind[0] == "s" else pattern


def limits(kind: str) -> tuple[int, int]:
    """Least and greatest integer of a type."""
    n = bits(kind)
    return (-(1 << n - 1), (1 << n - 1) - 1) if kind[0] == "s" else (0, (1 << n) - 1)


def clamp(kind: str, value: int) -> int:
    """The nearest integer of a type."""
    low, high = limits(kind)
    return max(low, min(high, value))


def _integers(kind: str, seed: int) -> Array:
    """Edges of every width, as patterns of a register that may be wider."""
    rng = np.random.default_rng(seed)
    n = max(bits(kind), 16)
    values = {e % (1 << n) for b in (8, 16, 32, 64) for e in edges(b)}
    values |= {(1 << n) - e for e in values if e}
    drawn = rng.integers(0, 1 << n, 200, dtype(kind)).tolist()
    # Near ties of every significand: 2^k + 2^(k-p) + {-1, 0, 1}.
    for p in (8, 11, 24, 53):
        for k in range(p + 1, n):
            middle = (1 << k) + (1 << k - p)
            drawn += [middle - 1, middle, middle + 1, (1 << k) - 1, 3 * middle >> 1]
    return np.array([v % (1 << n) for v in [*values, *drawn]], dtype(kind))


@pytest.mark.parametrize("stype", INTEGERS)
def test_integer_to_integer(stype: str) -> None:
    a = _integers(stype, 1)

    def plain(to: str, register: int, a: int) -> int:
        # The register is wider than an 8-bit type: the value is extended into it.
        value = read(to, read(stype, a))
        return value % (1 << register)

    def saturated(to: str, register: int, a: int) -> int:
        return clamp(to, read(stype, a)) % (1 << register)

    rows = []
    for to in INTEGERS:
        register = max(bits(to), 16)
        text = f"{to}.{stype} %d, %a;"
        rows.append(Row(f"cvt.{text}", partial(plain, to, register), dtype(to)))
        low, high = limits(to)
        if limits(stype)[0] < low or limits(stype)[1] > high:
            want = partial(saturated, to, register)
            rows.append(Row(f"cvt.sat.{text}", want, dtype(to)))
    check(rows, a=a)


def test_wider_registers() -> None:
    """Sources wider than their type are cut, results are extended by their sign."""
    a = np.array([0x1234_5678, 0x89AB_CDEF, 0xFFFF_80FF, 0x7F], np.uint32)
    w = a.astype(np.uint64) << np.uint64(33) | a
    rows = [
        Row("cvt.s8.s32 %d, %a;", lambda a, w: signed(a & 255, 8)),
        Row("cvt.u8.s32 %d, %a;", lambda a, w: a & 255),
        Row("cvt.s16.u32 %d, %a;", lambda a, w: signed(a & 0xFFFF, 16)),
        Row("cvt.u16.u32 %d, %a;", lambda a, w: a & 0xFFFF),
        Row("cvt.s32.s8 %d, %a;", lambda a, w: signed(a & 255, 8)),
        Row("cvt.u32.u8 %d, %a;", lambda a, w: a & 255),
        Row("cvt.s32.s16 %d, %w;", lambda a, w: signed(w & 0xFFFF, 16)),
        Row("cvt.u32.u32 %d, %w;", lambda a, w: w),
        Row("cvt.s16.s32 %d, %w;", lambda a, w: signed(w & 0xFFFF, 16), "u8"),
        Row("cvt.s32.s32 %d, %w;", lambda a, w: signed(w & 0xFFFF_FFFF, 32), "u8"),
        Row("cvt.u32.u64 %d, %w;", lambda a, w: w & 0xFFFF_FFFF, "u8"),
        Row("cvt.sat.s8.s32 %d, %a;", lambda a, w: clamp("s8", signed(a, 32))),
        Row("cvt.sat.u8.s32 %d, %a;", lambda a, w: clamp("u8", signed(a, 32))),
        Row("cvt.rzi.s8.f32 %d, 0fC0400000;", lambda a, w: -3),
        Row("cvt.rzi.u8.f32 %d, 0f43A00000;", lambda a, w: 255),
    ]
    check(rows, a=a, w=w)


ROUND: dict[str, Callable[[Fraction], int]] = {
    "rni": round,
    "rzi": int,
    "rmi": floor,
    "rpi": ceil,
}


def _floats(kind: str, seed: int) -> Array:
    """Numbers around the integers and the limits of integer types, and any others."""
    rng = np.random.default_rng(seed)
    rows = {
        "f32": lambda: patterns32(seed, 300)[0],
        "f64": lambda: patterns64(seed, 300)[0],
    }.get(kind, lambda: patterns16(seed, FORMS[kind])[0])()
    form = FORMS[kind]
    values = [Fraction(n, 4) for n in range(-40, 41)]
    for b in (7, 8, 15, 16, 31, 32, 63, 64):
        for d in (-2, -1, -Fraction(1, 2), 0, Fraction(1, 2), 1, 2):
            values += [2**b + Fraction(d), -(2**b) + Fraction(d)]
    values += [Fraction(int(v), 8) for v in rng.integers(-(1 << 40), 1 << 40, 200)]
    near = [form.round(finite(v), mode) for v in values for mode in ("rz", "rp")]
    near = [p for p in near if p & (form.sign - 1) <= form.largest]
    return np.unique(np.concatenate([rows, np.array(near, rows.dtype)]))


def _to_integer(stype: str, to: str, how: str, *, ftz: bool, a: int) -> int:
    form = FORMS[stype]
    number: Number = form.read(flushed(a, form) if ftz else a)
    n = bits(to)
    register = 1 << max(n, 16)
    if number.kind == "nan":
        return 0 if stype != "f64" and n < 64 else (1 << n - 1) % register
    if number.kind == "inf":
        value = limits(to)[0 if number.negative else 1]
    else:
        value = clamp(to, ROUND[how](number.value))
    return value % register


@pytest.mark.parametrize("stype", FORMS)
def test_float_to_integer(stype: str) -> None:
    a = _floats(stype, 2)
    rows = []
    for to in INTEGERS:
        for how in ROUND:
            for ftz in ("", ".ftz") if stype == "f32" and how != "rni" else ("",):
                want = partial(_to_integer, stype, to, how, ftz=bool(ftz))

                def call(a: int, want: Callable[..., int] = want) -> int:
                    return want(a=a)

                # An f64 NaN into a narrow type leaves its register's top bits open.
                if stype == "f64" and bits(to) == 8:
                    continue
                if stype == "bf16" and bits(to) == 8:  # no such instruction
                    continue
                rows.append(
                    Row(f"cvt.{how}{ftz}.{to}.{stype} %d, %a;", call, dtype(to))
                )
    check(rows, a=a)


@pytest.mark.parametrize("stype", INTEGERS)
def test_integer_to_float(stype: str) -> None:
    a = _integers(stype, 3)
    numbers = [finite(read(stype, v)) for v in a.tolist()]
    body, outputs = [], {}
    results = [to for to in FORMS if to != "bf16" or bits(stype) > 8]
    for to in results:
        for mode in MODES:
            body.append(f"cvt.{mode}.{to}.{stype} %{to}{mode}, %a;")
            outputs[f"{to}{mode}"] = dtype(to)
        if to != "bf16":
            body.append(f"cvt.rn.sat.{to}.{stype} %{to}sat, %a;")
            outputs[f"{to}sat"] = dtype(to)
    got = evaluate("".join(body), outputs, a=a)
    for to in results:
        form = FORMS[to]
        for mode in MODES:
            want = [form.round(n, mode) for n in numbers]
            assert got[f"{to}{mode}"].tolist() == want, (to, mode)
        if to == "bf16":
            continue
        one = form.bias << form.fraction
        want = [one if n.value >= 1 else 0 for n in numbers]
        assert got[f"{to}sat"].tolist() == want, to


def _convertible(stype: str, to: str) -> tuple[str, ...]:
    """Rounding words that PTX wants between two floating-point types."""
    rank = {"f16": 1, "bf16": 1, "f32": 2, "f64": 3}
    if stype == to or rank[to] > rank[stype]:
        return ("",)
    return tuple(f".{m}" for m in MODES)


@pytest.mark.parametrize("stype", FORMS)
def test_float_to_float(stype: str) -> None:
    a = _floats(stype, 4)
    source = FORMS[stype]
    body, outputs, wants = [], {}, {}
    for to, form in FORMS.items():
        for mode in _convertible(stype, to):
            for how in ("", ".ftz", ".sat", ".ftz.sat"):
                if ".ftz" in how and "f32" not in (stype, to):
                    continue
                if ".sat" in how and "bf16" in (stype, to):
                    continue
                name = f"d{len(outputs)}"
                body.append(f"cvt{mode}{how}.{to}.{stype} %{name}, %a;")
                outputs[name] = dtype(to)
                wants[name] = (to, form, mode[1:] or "rn", how)
    got = evaluate("\n".join(body), outputs, a=a)
    for text, (name, (to, form, mode, how)) in zip(body, wants.items(), strict=True):
        for pattern, result in zip(a.tolist(), got[name].tolist(), strict=True):
            if ".ftz" in how and stype == "f32":
                pattern = flushed(pattern, source)
            number = source.read(pattern)
            want = form.round(number, mode)
            if ".ftz" in how and to == "f32":
                want = flushed(want, form)
            if ".sat" in how:
                negative = want < 0 or want & form.sign
                want = 0 if negative else min(want, form.bias << form.fraction)
            if want < 0:
                assert form.read(result).kind == "nan", text
            elif stype == to and not how:
                assert result == pattern or number.kind == "nan", text
            else:
                assert result == want, f"{text} {pattern:#x}: {result:#x} {want:#x}"


@pytest.mark.parametrize("kind", FORMS)
def test_rounding_to_whole_numbers(kind: str) -> None:
    a = _floats(kind, 5)
    form = FORMS[kind]
    hows = ("", ".ftz") if kind == "f32" else ("",)
    body, outputs = [], {}
    for word in ROUND:
        for how in hows:
            body.append(f"cvt.{word}{how}.{kind}.{kind} %d{len(outputs)}, %a;")
            outputs[f"d{len(outputs)}"] = dtype(kind)
    got = evaluate("".join(body), outputs, a=a)
    cases = [(word, how) for word in ROUND for how in hows]
    for k, (word, how) in enumerate(cases):
        for pattern, result in zip(a.tolist(), got[f"d{k}"].tolist(), strict=True):
            seen = flushed(pattern, form) if how else pattern
            number = form.read(seen)
            if number.kind == "nan":
                assert form.read(result).kind == "nan"
                continue
            want = seen
            if number.kind == "finite":
                whole = finite(ROUND[word](number.value), negative_zero=number.negative)
                want = form.round(whole)
            assert result == want, (word, kind, hex(pattern))


def test_common_shapes_equal_the_general_ones() -> None:
    """Loops of their own for s32 agree with the general conversion."""
    a = _floats("f32", 6)
    body = """cvt.rzi.s32.f32 %d, %a; cvt.rzi.ftz.s32.f32 %e, %a;
    cvt.rni.s32.f32 %f, %a;
    .reg .b64 %w, %x; cvt.rzi.s64.f32 %w, %a; cvt.sat.s32.s64 %g, %w;
    cvt.rni.s64.f32 %x, %a; cvt.sat.s32.s64 %h, %x;"""
    got = evaluate(body, dict.fromkeys("defgh", np.uint32), a=a)
    number = a & 0x7FFF_FFFF <= 0x7F80_0000
    assert (got["d"] == got["e"]).all()
    assert (got["d"] == got["g"])[number].all()
    assert (got["f"] == got["h"])[number].all()
    assert (got["d"][~number] == 0).all()
