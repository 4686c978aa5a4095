"""cvt into and out of pairs of halves, tf32, and the formats of 8, 6 and 4 bits."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from exact_rounding import (
    BF16,
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E5M2,
    F16,
    F32,
    TF32,
    Format,
    finite,
    mul,
)
from instruction_table import Row, check, operands, signed
from kernel_case import Array, evaluate, run_kernel
from test_exec_float import patterns32

SMALL: dict[str, Format] = {
    "e4m3": E4M3,
    "e5m2": E5M2,
    "e2m3": E2M3,
    "e3m2": E3M2,
    "e2m1": E2M1,
}
NANS = {"e4m3": 0x7F, "e5m2": 0x7F, "e2m3": 0x1F, "e3m2": 0x1F, "e2m1": 0x7}
"""What a NaN becomes; the formats without one give their largest value."""


def step(name: str) -> int:
    """Bits from the lower to the upper number of a pair."""
    return 4 if name == "e2m1" else 8


def _near(form: Format, seed: int) -> Array:
    """f32 patterns on, and just beside, every number and midpoint of a format."""
    rng = np.random.default_rng(seed)
    values = []
    magnitudes = range(form.largest + 1) if form.largest < 256 else ()
    for k in magnitudes:
        here = form.read(k).magnitude
        values.append(here)
        if k < form.largest:
            values.append((here + form.read(k + 1).magnitude) / 2)
    values += [2 * (values[-1] if values else Fraction(1)), Fraction(1, 1 << 40)]
    exact = [F32.round(finite(v)) for v in values]
    beside = [p + d for p in exact for d in (-1, 0, 1) if 0 <= p + d < 0x7F80_0000]
    both = np.array([p | s for p in beside for s in (0, F32.sign)], np.uint32)
    return np.concatenate(
        [both, patterns32(seed, 200)[0], rng.integers(0, 1 << 32, 300, "u4")]
    )


def small(name: str, number: object, *, relu: bool) -> int:
    """One number rounded to a small format as PTX wants it: nearest, finite."""
    form = SMALL[name]
    pattern = form.round(number, "rn", finite=True)
    if pattern < 0:
        return NANS[name]
    return 0 if relu and pattern & form.sign else pattern


@pytest.mark.parametrize("name", SMALL)
def test_two_floats_to_a_small_pair(name: str) -> None:
    a = _near(SMALL[name], 1)
    b = a[::-1].copy()

    def want(*, relu: bool) -> Callable[[int, int], int]:
        def pair(a: int, b: int) -> int:
            high, low = (small(name, F32.read(p), relu=relu) for p in (a, b))
            return high << step(name) | low

        return pair

    rows = []
    for relu in ("", ".relu"):
        text = f"cvt.rn.satfinite{relu}.{name}x2.f32"
        f = want(relu=bool(relu))
        if name == "e2m1":
            body = f"{{.reg .b8 %t; {text} %t, %a, %b; cvt.u16.u8 %d, %t;}}"
            rows.append(Row(body, f, np.uint16))
        else:
            rows.append(Row(f"{text} %d, %a, %b;", f, np.uint16))
    check(rows, a=a, b=b)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(("kind", "half"), [("f16x2", F16), ("bf16x2", BF16)])
def test_halves_to_a_small_pair(name: str, kind: str, half: Format) -> None:
    """Every pattern of a half, in both places."""
    low = np.arange(0, 1 << 16, 3, dtype=np.uint32)
    a = low | low[::-1] << np.uint32(16)
    table = {p: small(name, half.read(p), relu=False) for p in low.tolist()}
    relu = {p: small(name, half.read(p), relu=True) for p in low.tolist()}
    inside = "%t" if name == "e2m1" else "%{}"
    text = ".reg .b8 %t;" if name == "e2m1" else ""
    for out, how in (("d", ""), ("e", ".relu")):
        text += f"cvt.rn.satfinite{how}.{name}x2.{kind} {inside.format(out)}, %a;"
        text += f"cvt.u16.u8 %{out}, %t;" if name == "e2m1" else ""
    got = evaluate(text, {"d": np.uint16, "e": np.uint16}, a=a)
    for out, numbers in (("d", table), ("e", relu)):
        for p, result in zip(a.tolist(), got[out].tolist(), strict=True):
            want = numbers[p >> 16] << step(name) | numbers[p & 0xFFFF]
            assert result == want, f"{p:#x}: {result:#x}, want {want:#x}"


@pytest.mark.parametrize("name", SMALL)
def test_a_small_pair_to_halves(name: str) -> None:
    """Every pattern, alone and scaled; NaN is canonical, infinity stays."""
    form = SMALL[name]
    count = 2 * form.sign
    low, high = (g.ravel() for g in np.meshgrid(np.arange(count), np.arange(count)))
    keep = slice(None, None, 17 if count > 64 else 1)
    low, high = low[keep], high[keep]
    a = (low | high << step(name)).astype(np.uint16)
    rng = np.random.default_rng(2)
    s = rng.integers(0, 1 << 16, len(a), np.uint16)
    s[:200] = np.resize(np.array([0x7F7F, 0x00FE, 0xFF80, 0x8001], np.uint16), 200)
    source = "%t" if name == "e2m1" else "%a"
    text = ".reg .b8 %t; cvt.u8.u16 %t, %a;" if name == "e2m1" else ""
    text += f"""cvt.rn.f16x2.{name}x2 %d, {source};
    cvt.rn.relu.f16x2.{name}x2 %e, {source};
    cvt.rn.bf16x2.{name}x2 %f, {source};
    cvt.rn.scaled::n2::ue8m0.bf16x2.{name}x2 %g, {source}, %s;
    cvt.rn.relu.satfinite.scaled::n2::ue8m0.bf16x2.{name}x2 %h, {source}, %s;"""
    got = evaluate(text, dict.fromkeys("defgh", np.uint32), a=a, s=s)

    def half(
        k: int, to: Format, scale: int = 127, *, relu: bool = False, **how: bool
    ) -> int:
        number = form.read(k)
        if scale == 255 or number.kind == "nan":
            return 0x7FFF
        if relu and number.negative:
            return 0
        factor = finite(Fraction(2) ** (scale - 127))
        return to.round(mul(number, factor), **how)

    for k in range(len(a)):
        for part, pattern in ((0, int(low[k])), (16, int(high[k]))):
            scale = int(s[k]) >> part // 2 & 255
            for out, want in (
                ("d", half(pattern, F16)),
                ("e", half(pattern, F16, relu=True)),
                ("f", half(pattern, BF16)),
                ("g", half(pattern, BF16, scale)),
                ("h", half(pattern, BF16, scale, relu=True, finite=True)),
            ):
                result = int(got[out][k]) >> part & 0xFFFF
                assert result == want, (
                    out,
                    hex(pattern),
                    scale,
                    hex(result),
                    hex(want),
                )


def _halved(form: Format, mode: str, how: str) -> Callable[[int], int]:
    def want(pattern: int) -> int:
        rounded = form.round(F32.read(pattern), mode, finite="satfinite" in how)
        if rounded < 0:
            return form.sign - 1
        return 0 if "relu" in how and rounded & form.sign else rounded

    return want


@pytest.mark.parametrize(("kind", "form"), [("f16", F16), ("bf16", BF16)])
def test_floats_to_halves(kind: str, form: Format) -> None:
    a = np.concatenate([patterns32(3)[0], _halfway(form)])
    b = a[::-1].copy()
    rows = []
    for mode in ("rn", "rz"):
        for how in ("", ".relu", ".satfinite", ".relu.satfinite"):
            one = _halved(form, mode, how)
            text = f"cvt.{mode}{how}.{kind}"
            rows.append(Row(f"{text}.f32 %d, %a;", lambda a, b, f=one: f(a), "u2"))
            rows.append(
                Row(
                    f"{text}x2.f32 %d, %a, %b;",
                    lambda a, b, f=one: f(a) << 16 | f(b),
                )
            )
    check(rows, a=a, b=b)


def _halfway(form: Format) -> Array:
    """f32 patterns on and beside the midpoints of a 16-bit format."""
    rng = np.random.default_rng(4)
    patterns = [*range(20), *range(form.largest - 4, form.largest)]
    patterns += rng.integers(0, form.largest - 1, 300).tolist()
    out = []
    for p in patterns:
        middle = (form.read(p).magnitude + form.read(p + 1).magnitude) / 2
        exact = F32.round(finite(middle))
        out += [exact - 1, exact, exact + 1, exact | F32.sign]
    last = form.read(form.largest).magnitude
    last += (last - form.read(form.largest - 1).magnitude) / 2
    edge = F32.round(finite(last))
    return np.array([*out, edge - 1, edge, edge + 1], np.uint32)


def test_tf32() -> None:
    """A 10-bit fraction in the upper bits of an f32; the rest is zero."""
    a = np.concatenate([patterns32(5)[0], patterns32(6)[0] & 0xFFFF_F000])

    def want(mode: str, how: str) -> Callable[[int], int | None]:
        def one(a: int) -> int | None:
            rounded = TF32.round(F32.read(a), mode, finite="satfinite" in how)
            if rounded < 0:
                return None
            return 0 if "relu" in how and rounded & TF32.sign else rounded << 13

        return one

    rows = [
        Row(f"cvt.{mode}{how}.tf32.f32 %d, %a;", want(mode, how))
        for mode, how in (
            *(("rna", ""), ("rna", ".satfinite"), ("rn", ""), ("rn", ".relu")),
            *(("rz", ""), ("rz", ".satfinite.relu"), ("rn", ".satfinite")),
        )
    ]
    check(rows, a=a)
    nan = np.array([0x7FC0_0000, 0xFFC0_0001, 0x7F80_0001], np.uint32)
    text = "cvt.rna.tf32.f32 %d, %a; cvt.rn.tf32.f32 %e, %a;"
    got = evaluate(text, {"d": np.uint32, "e": np.float32}, a=nan)
    assert (got["d"] == nan & 0xFFFF_E000).all()  # as an H200 does
    assert np.isnan(got["e"]).all()


def _exponent(number: object, mode: str, *, clamp: bool) -> int:
    """The ue8m0 exponent of a magnitude, rounded to a power of two."""
    if number.kind == "nan":
        return 255
    if number.kind == "inf":
        return 254 if clamp else 255
    size = number.magnitude
    for e in range(255):
        power = Fraction(2) ** (e - 127)
        if size <= power and (mode == "rp" or size == power):
            return e
        if size < 2 * power and mode == "rz":
            return e
    return 254 if clamp else 255


def test_exponents_alone() -> None:
    edge = [0, 1, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFF, 0x800000, 0x800001]
    edge += [0x3F800000, 0x3F800001, 0x3FFFFFFF, 0x7F000000, 0x7F000001, 0x7F7FFFFF]
    edge += [0x7F800000, 0x7FC00000]
    a = np.concatenate([np.array(edge, np.uint32), patterns32(7, 60)[0][-60:] >> 1])
    b = a[::-1].copy()

    def pair(mode: str, *, clamp: bool) -> Callable[[int, int], int]:
        def want(a: int, b: int) -> int:
            high, low = (_exponent(F32.read(p), mode, clamp=clamp) for p in (a, b))
            return high << 8 | low

        return want

    rows = [
        Row(
            f"cvt.{mode}{how}.ue8m0x2.f32 %d, %a, %b;",
            pair(mode, clamp=bool(how)),
            "u2",
        )
        for mode in ("rz", "rp")
        for how in ("", ".satfinite")
    ]
    check(rows, a=a, b=b)
    h = np.arange(0, 1 << 15, 7, dtype=np.uint32)
    pairs = h | h[::-1] << np.uint32(16)
    want = [_exponent(BF16.read(p), "rp", clamp=True) for p in h.tolist()]
    got = evaluate("cvt.rp.satfinite.ue8m0x2.bf16x2 %d, %a;", {"d": "u2"}, a=pairs)
    assert (got["d"] & 255).tolist() == want
    assert (got["d"] >> 8).tolist() == want[::-1]
    e = np.arange(1 << 16, dtype=np.uint16)
    got = evaluate("cvt.rn.bf16x2.ue8m0x2 %d, %a;", {"d": "u4"}, a=e)
    powers = [BF16.round(finite(Fraction(2) ** (k - 127))) for k in range(255)]
    powers.append(0x7FFF)
    for k, v in zip(e.tolist(), got["d"].tolist(), strict=True):
        assert v == powers[k >> 8] << 16 | powers[k & 255]


def test_packing_with_saturation() -> None:
    a, b, c = operands(32, 9)

    def pack(kind: str, *, more: bool) -> Callable[[int, int, int], int]:
        n = int(kind[1:])
        low, high = (0, (1 << n) - 1)
        if kind[0] == "s":
            low, high = -(1 << n - 1), (1 << n - 1) - 1

        def want(a: int, b: int, c: int) -> int:
            x, y = (max(low, min(high, signed(v, 32))) % (1 << n) for v in (a, b))
            return x << n | y | (c << 2 * n if more else 0)

        return want

    rows = [
        Row(f"cvt.pack.sat.{k}.s32 %d, %a, %b;", pack(k, more=False))
        for k in ("u16", "s16")
    ]
    rows += [
        Row(f"cvt.pack.sat.{k}.s32.b32 %d, %a, %b, %c;", pack(k, more=True))
        for k in ("u8", "s8", "u4", "s4", "u2", "s2")
    ]
    check(rows, a=a, b=b, c=c)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cvt.rs.f16x2.f32 %d, %a, %a, %b;", "rounding .rs"),
        ("cvt.rn.satfinite.s2f6x2.f32 %e, %a, %a;", "s2f6x2"),
    ],
)
def test_what_is_not_modelled_is_incomplete(text: str, reason: str) -> None:
    ran = run_kernel(
        text,
        inputs={"a": np.ones(3, np.float32), "b": np.ones(3, np.uint32)},
        outputs={"d": np.uint32, "e": np.uint16},
    )
    assert ran.result.status == "unsupported"
    assert reason in ran.program.unsupported[0][1]
