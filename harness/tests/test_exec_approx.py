"""Approximations stay inside the bounds that PTX documents, over their whole domain.

The reference is f64 from the host's libm, good to far more than any bound.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernel_case import Array, evaluate


def every_exponent(seed: int, count: int = 40_000) -> Array:
    """f32 values of all exponents and signs, edges included."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 32, count, np.uint32)
    edge = [0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000]
    edge += [0x3F000000, 0x3F7FFFFF, 0x3F800001, 0x40000000, 0x3F3504F3, 0x3F3504F4]
    bits[: len(edge)] = edge
    bits[len(edge) : 2 * len(edge)] = np.array(edge, np.uint32) | 0x80000000
    return bits.view(np.float32)


def run(name: str, x: Array) -> Array:
    """Results of one instruction with one operand."""
    return evaluate(f"{name} %d, %x;", {"d": np.float32}, x=x)["d"]


pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NaN operands


def flush(x: Array) -> Array:
    """Subnormals as zeros of their sign."""
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(0, x), x).astype(
        "f4"
    )


def ulps(got: Array, exact: Array) -> Array:
    """Distance in units of the last place of the exact value's f32 neighbourhood."""
    spacing = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    return np.abs(got.astype(np.float64) - exact) / spacing


def agree_on_specials(got: Array, want: Array) -> Array:
    """Check NaN, infinities and signed zeros; return where both are finite."""
    assert (np.isnan(got) == np.isnan(want)).all()
    assert (got.view(np.uint32)[np.isnan(got)] == 0x7FFFFFFF).all()
    infinite = np.isinf(want)
    assert (got[infinite] == want[infinite]).all()
    return ~np.isnan(want) & ~infinite


@pytest.mark.parametrize("ftz", ["", ".ftz"])
def test_ex2_within_two_ulp_and_exact_on_integers(ftz: str) -> None:
    x = np.concatenate(
        [
            every_exponent(1),
            np.linspace(-152, 130, 60_000).astype(np.float32),
            np.random.default_rng(2).normal(0, 20, 40_000).astype(np.float32),
        ]
    )
    got = run(f"ex2.approx{ftz}.f32", x)
    seen = flush(x) if ftz else x
    with np.errstate(all="ignore"):
        exact = np.exp2(seen.astype(np.float64))
        rounded = exact.astype(np.float32)
    if ftz:
        exact = np.where(exact < 2.0**-126, 0, exact)
        border = np.abs(seen + 126) < 1e-3  # rounding may cross the smallest normal
        rounded = flush(rounded)
        assert (got[~border & (rounded == 0)] == 0).all()
    finite = agree_on_specials(got, rounded) & (rounded != 0)
    assert ulps(got[finite], exact[finite]).max() <= 2
    n = np.arange(-149, 128, dtype=np.float32)
    want = np.exp2(n.astype(np.float64)).astype(np.float32)
    want = flush(want) if ftz else want
    assert (run(f"ex2.approx{ftz}.f32", n) == want).all()
    special = np.array([-np.inf, -0.0, 0.0, np.inf, 1e-40, -1e-40], np.float32)
    assert run(f"ex2.approx{ftz}.f32", special).tolist() == [0, 1, 1, np.inf, 1, 1]
    assert not np.signbit(run(f"ex2.approx{ftz}.f32", special)).any()


@pytest.mark.parametrize("ftz", ["", ".ftz"])
def test_lg2(ftz: str) -> None:
    rng = np.random.default_rng(3)
    near = (1 + rng.normal(0, 0.2, 60_000)).astype(np.float32)
    x = np.concatenate([every_exponent(3), near])
    got = run(f"lg2.approx{ftz}.f32", x)
    seen = flush(x) if ftz else x
    with np.errstate(all="ignore"):
        exact = np.log2(seen.astype(np.float64))
    finite = agree_on_specials(got, exact)
    error = np.abs(got.astype(np.float64) - exact)
    inside = finite & (seen > 0.5) & (seen < 2)
    assert error[inside].max() <= 2.0**-22
    outside = finite & ~inside
    assert (error[outside] / np.abs(exact[outside])).max() <= 2.0**-22
    powers = np.exp2(np.arange(-126, 128, dtype=np.float64)).astype(np.float32)
    assert (run(f"lg2.approx{ftz}.f32", powers) == np.arange(-126, 128)).all()
    special = np.array([-1, -np.inf, -0.0, 0.0, np.inf, 2.0**-130], np.float32)
    want = [np.nan, np.nan, -np.inf, -np.inf, np.inf, -np.inf if ftz else -130]
    np.testing.assert_array_equal(run(f"lg2.approx{ftz}.f32", special), want)


@pytest.mark.parametrize("ftz", ["", ".ftz"])
def test_rsqrt(ftz: str) -> None:
    x = every_exponent(4)
    got = run(f"rsqrt.approx{ftz}.f32", x)
    seen = flush(x) if ftz else x
    with np.errstate(all="ignore"):
        exact = 1 / np.sqrt(seen.astype(np.float64))
    finite = agree_on_specials(got, exact) & (exact != 0)
    error = np.abs(got.astype(np.float64) - exact) / exact
    assert error[finite].max() <= 2.0**-22.9


@pytest.mark.parametrize(("name", "function"), [("sin", np.sin), ("cos", np.cos)])
def test_circular(name: str, function: np.ufunc) -> None:
    rng = np.random.default_rng(5)
    for limit, bound in ((2 * np.pi, 2.0**-20.5), (100 * np.pi, 2.0**-14.7)):
        x = rng.uniform(-limit, limit, 40_000).astype(np.float32)
        for ftz in ("", ".ftz"):
            got = run(f"{name}.approx{ftz}.f32", x)
            exact = function(x.astype(np.float64))
            assert np.abs(got - exact).max() <= bound
    # Beyond, PTX promises nothing; a value in range and NaN for infinity is ours.
    far = every_exponent(6)
    got = run(f"{name}.approx.f32", far)
    with np.errstate(invalid="ignore"):
        finite = agree_on_specials(got, function(far.astype(np.float64)))
    assert np.abs(got[finite] - function(far[finite].astype(np.float64))).max() < 1e-5
    zeros = run(f"{name}.approx.f32", np.array([0.0, -0.0], np.float32))
    want = [0, 0x80000000] if name == "sin" else [0x3F800000, 0x3F800000]
    assert zeros.view(np.uint32).tolist() == want


def test_circular_flushes() -> None:
    tiny = np.array([1e-40, -1e-40], np.float32)
    got = run("sin.approx.ftz.f32", tiny).view(np.uint32)
    assert got.tolist() == [0, 0x80000000]
    assert (run("sin.approx.f32", tiny) == tiny).all()


def test_tanh() -> None:
    rng = np.random.default_rng(7)
    x = np.concatenate([every_exponent(7), rng.normal(0, 1, 40_000).astype(np.float32)])
    got = run("tanh.approx.f32", x)
    with np.errstate(invalid="ignore"):
        exact = np.tanh(x.astype(np.float64))
    finite = agree_on_specials(got, exact) & (np.abs(x) >= 2.0**-126)
    error = np.abs(got.astype(np.float64) - exact)
    assert (error[finite] / np.abs(exact[finite])).max() <= 2.0**-11
    tiny = np.abs(x) < 2.0**-126
    assert (got[tiny].view(np.uint32) == x[tiny].view(np.uint32)).all()
    ends = run("tanh.approx.f32", np.array([-np.inf, np.inf, 30, -0.0], np.float32))
    assert ends.tolist() == [-1, 1, 1, 0]
    assert np.signbit(ends[3])


def _bf16(patterns: Array) -> Array:
    return (patterns.astype(np.uint32) << np.uint32(16)).view(np.float32)


def test_halves_over_all_their_patterns() -> None:
    """ex2 and tanh of every f16 and bf16, single and in pairs."""
    a = np.arange(1 << 16, dtype=np.uint16)
    body = """.reg .b32 %x; mov.b32 %x, {%a, %b};
    ex2.approx.f16 %e, %a; ex2.approx.f16x2 %ee, %x;
    ex2.approx.ftz.bf16 %f, %a; ex2.approx.ftz.bf16x2 %ff, %x;
    tanh.approx.f16 %t, %a; tanh.approx.f16x2 %tt, %x;
    tanh.approx.bf16 %u, %a; tanh.approx.bf16x2 %uu, %x;"""
    outputs = {
        **dict.fromkeys("eftu", "u2"),
        **dict.fromkeys(("ee", "ff", "tt", "uu"), "u4"),
    }
    got = evaluate(body, outputs, a=a, b=a[::-1].copy())
    for n in "eftu":
        want = got[n] | got[n][::-1].astype(np.uint32) << np.uint32(16)
        assert (got[2 * n] == want).all()
    half, brain = a.view(np.float16).astype(np.float64), _bf16(a).astype(np.float64)
    seen = np.where(np.abs(brain) < 2.0**-126, 0, brain)
    with np.errstate(all="ignore"):
        ex2, tanh = np.exp2(half), np.tanh(half)
        ex2b, tanhb = np.exp2(seen), np.tanh(brain)
    for name, got_value, exact, bound, least in (
        ("ex2.f16", got["e"].view(np.float16), ex2, 2.0**-9.9, 2.0**-14),
        ("ex2.bf16", _bf16(got["f"]), ex2b, 2.0**-7, 2.0**-126),
    ):
        value = got_value.astype(np.float64)
        assert (np.isnan(value) == np.isnan(exact)).all(), name
        top = 65519 if name[-3:] == "f16" and "bf" not in name else 3.39e38
        normal = (exact >= least * 1.01) & (exact < top)
        error = np.abs(value[normal] - exact[normal]) / exact[normal]
        assert error.max() <= bound, name
        assert np.isinf(value[exact > top * 1.01]).all(), name
    for value, exact, bound in (
        (got["t"].view(np.float16).astype(np.float64), tanh, 2.0**-10.987),
        (_bf16(got["u"]).astype(np.float64), tanhb, 2.0**-8),
    ):
        assert (np.isnan(value) == np.isnan(exact)).all()
        known = ~np.isnan(exact)
        assert np.abs(value[known] - exact[known]).max() <= bound
    below = (ex2b < 2.0**-127) & ~np.isnan(ex2b)
    assert (got["f"][below] == 0).all()
