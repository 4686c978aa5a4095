from dataclasses import replace

import numpy as np
import pytest
from emulated_flash import cubic_exp2, flash

from sidestream.reference import tolerance
from sidestream.reference.attention import Problem, attention
from sidestream.reference.lengths import from_counts
from sidestream.reference.narrow import by_name, round_to
from sidestream.reference.parity import amax_range, compare
from sidestream.reference.tolerance import (
    Arithmetic,
    bound,
    shared,
)

DTYPES = ("float16", "bfloat16")


def make(dtype, lens_q, lens_kv=None, *, seed=0, size=1.0, dim=64, dim_v=None, **mask):
    rng = np.random.default_rng(seed)
    lens_kv = lens_q if lens_kv is None else lens_kv
    shape = {"q": (sum(lens_q), 4), "k": (sum(lens_kv), 2), "v": (sum(lens_kv), 2)}
    operands = {
        name: round_to(
            rng.standard_normal((*lead, dim_v or dim if name == "v" else dim))
            * (size if name == "k" else 1.0),
            by_name(dtype),
        )
        for name, lead in shape.items()
    }
    return Problem(
        **operands, seq_q=from_counts(lens_q), seq_kv=from_counts(lens_kv), **mask
    )


CASES = {
    "short": {"lens_q": (8, 3, 1)},
    "tiles": {"lens_q": (64, 17, 129)},
    "long": {"lens_q": (40,), "lens_kv": (1500,)},
    "causal": {"lens_q": (200,), "causal": "bottom_right"},
    "window": {"lens_q": (150, 64), "causal": "top_left", "window_left": 31},
    "keyless": {"lens_q": (9, 40), "lens_kv": (0, 12), "causal": "bottom_right"},
    "flat scores": {"lens_q": (128,), "size": 1e-3},
    "sharp scores": {"lens_q": (128,), "size": 30.0},
    "huge scores": {"lens_q": (64,), "size": 1000.0},
    "negative scale": {"lens_q": (70, 30), "scale": -0.3, "causal": "top_left"},
    "wide head": {"lens_q": (70,), "dim": 256},
    "narrow head": {"lens_q": (70,), "dim": 8},
    "two head dims": {"lens_q": (70, 3), "dim": 192, "dim_v": 128},
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("tile", [32, 128])
def test_a_faithful_kernel_stays_inside(dtype, case, tile):
    problem = make(dtype, **CASES[case])
    out, lse = flash(problem, dtype, tile=tile)
    assert compare(bound(problem, dtype=dtype), out=out, lse=lse).worst <= 1.0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sink", [-200.0, -3.0, 0.0, 8.0, 200.0])
def test_a_faithful_kernel_with_sinks_stays_inside(dtype, sink):
    sinks = np.full(4, sink) + np.arange(4) / 4
    problem = make(
        dtype, (70, 9, 5), (130, 0, 3), causal="bottom_right", window_left=80
    )
    problem = replace(problem, sinks=sinks)
    out, lse = flash(problem, dtype)
    assert compare(bound(problem, dtype=dtype), out=out, lse=lse).worst <= 1.0


FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
E4M3 = Arithmetic(
    dtype=by_name("float8_e4m3fn"), out_dtype=by_name("bfloat16"), descaled=True
)


@pytest.mark.parametrize("case", [case for case in CASES if case != "huge scores"])
@pytest.mark.parametrize(
    ("name", "weight_scale"),
    [*((FLOAT8[0], scale) for scale in (1.0, 16.0, 256.0)), (FLOAT8[1], 16.0)],
)
def test_a_faithful_kernel_of_one_byte_inputs_stays_inside(name, case, weight_scale):
    factors = (0.75, 1.25, 0.3)
    problem = make(name, **CASES[case])
    out, lse = flash(
        problem,
        name,
        out_dtype="bfloat16",
        weight_scale=weight_scale,
        descales=factors,
    )
    meant = replace(
        problem,
        q=problem.q * np.float32(factors[0]),
        k=problem.k * np.float32(factors[1]),
        v=problem.v * np.float32(factors[2]),
    )
    model = replace(E4M3, dtype=by_name(name), weight_scale=weight_scale)
    assert compare(bound(meant, dtype=model), out=out, lse=lse).worst <= 1.0


@pytest.mark.parametrize("scale", [0.3, 40.0, 4000.0])
@pytest.mark.parametrize("kind", FLOAT8)
def test_a_scaled_output_of_one_byte_stays_inside_and_not_without_its_scale(
    kind, scale
):
    """The largest of the factors takes E4M3 past its largest number."""
    problem = make("float8_e4m3fn", (64, 17), causal="top_left")
    out, lse = flash(problem, "float8_e4m3fn", out_dtype=kind, out_scale=scale)
    model = replace(E4M3, out_dtype=by_name(kind), out_scale=scale)
    limits = bound(problem, dtype=model)
    held = np.abs(limits.reference.out).max() * scale >= by_name(kind).largest
    assert held == (kind == "float8_e4m3fn" and scale == 4000.0)
    assert compare(limits, out=out / np.float64(scale), lse=lse).worst <= 1.0
    assert compare(limits, out=out, lse=lse).out > 2.0
    unheld = bound(problem, dtype=replace(model, out_dtype=by_name("bfloat16")))
    assert (compare(unheld, out=out / scale, lse=lse).out > 1.0) or not held


def test_the_largest_output_has_the_bound_of_what_it_is_taken_of():
    problem = make("bfloat16", (64, 17), causal="top_left")
    limits = bound(problem, dtype="bfloat16")
    rows = np.arange(81) < 40
    size = np.abs(limits.reference.out[rows]).max()
    low, middle, high = amax_range(limits, rows)
    assert middle == size
    assert size - limits.out[rows].max() < low < size < high
    assert high < size + limits.out[rows].max()

    def ratio(amax):
        out, lse = limits.reference.out, limits.reference.lse
        return compare(limits, out=out, lse=lse, amax=amax, rows=rows).amax

    assert ratio(size) == 0.0
    assert 0.99 < ratio(0.999 * high + 0.001 * size) < 1.0
    assert ratio(high * (1 + 1e-6)) > 1.0
    assert ratio(low * (1 - 1e-6)) > 1.0
    assert ratio(np.nan) == ratio(np.inf) == np.inf
    # Rows that are not judged do not count, and of none the largest is exactly 0.
    rows[:] = False
    assert ratio(0.0) == 0.0
    assert ratio(1e-30) == np.inf


@pytest.mark.parametrize("flaw", ["head", "mask column", "last key", "scale"])
def test_a_small_planted_bug_is_outside_e4m3_too(flaw):
    problem = make("float8_e4m3fn", (64, 17), causal="top_left")
    out, lse = flash(problem, "float8_e4m3fn", out_dtype="bfloat16", flaw=flaw)
    parity = compare(bound(problem, dtype=E4M3), out=out, lse=lse)
    assert parity.lse is not None
    assert parity.lse > 5.0


@pytest.mark.parametrize("name", FLOAT8)
def test_equal_weights_are_not_rounded(name):
    problem = make(name, (64, 17), causal="top_left")
    problem = replace(problem, k=np.zeros_like(problem.k))
    model = replace(E4M3, dtype=by_name(name), out_dtype=by_name("float16"))
    out, lse = flash(problem, name, out_dtype="float16", weight_scale=16.0)
    limits = bound(problem, dtype=replace(model, weight_scale=16.0))
    assert compare(limits, out=out, lse=lse).worst <= 1.0
    # One value too many among 64 is far outside.
    wrong, _ = flash(problem, name, out_dtype="float16", flaw="mask column")
    assert compare(limits, out=wrong, lse=lse).out > 20.0
    with_sinks = replace(problem, sinks=np.zeros(4))
    rounded = bound(with_sinks, dtype=replace(model, weight_scale=16.0))
    assert np.median(rounded.out) > 20.0 * np.median(limits.out)


def test_e4m3_weights_need_the_roundoff_of_e4m3():
    problem = make("float8_e4m3fn", (64,))
    out, lse = flash(problem, "float8_e4m3fn", out_dtype="bfloat16")
    fine = replace(E4M3, dtype=by_name("bfloat16"))
    assert compare(bound(problem, dtype=fine), out=out, lse=lse).out > 1.0


def test_a_weight_scale_is_needed_where_weights_are_small():
    """One key takes most of a row; 300 others lie below E4M3's smallest number."""
    problem = make("float8_e4m3fn", (4,), (301,))
    q, k, v = (np.zeros_like(x) for x in (problem.q, problem.k, problem.v))
    q[..., 0], k[0, :, 0], v[1:] = 1.0, 60.0, 1.0
    problem = replace(problem, q=q, k=k, v=v)
    run = {"dtype": "float8_e4m3fn", "out_dtype": "bfloat16"}
    scaled = replace(E4M3, weight_scale=16.0)
    lost, lse = flash(problem, **run)
    assert compare(bound(problem, dtype=E4M3), out=lost, lse=lse).worst <= 1.0
    assert compare(bound(problem, dtype=scaled), out=lost, lse=lse).out > 1.0
    kept, lse = flash(problem, **run, weight_scale=16.0)
    assert compare(bound(problem, dtype=scaled), out=kept, lse=lse).worst <= 1.0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("splits", [2, 5])
def test_a_faithful_kernel_that_splits_the_keys_stays_inside(dtype, case, splits):
    problem = make(dtype, **CASES[case])
    out, lse = flash(problem, dtype, splits=splits, tile=32)
    model = Arithmetic(dtype=by_name(dtype), splits=splits)
    assert compare(bound(problem, dtype=model), out=out, lse=lse).worst <= 1.0


@pytest.mark.parametrize("case", CASES)
def test_a_kernel_that_evaluates_a_cubic_stays_inside_its_own_bound(case):
    problem = make("bfloat16", **CASES[case])
    out, lse = flash(problem, "bfloat16", exp2=cubic_exp2)
    model = Arithmetic(
        dtype=by_name("bfloat16"), exp_error=2.0**-13, alpha_error=2.0**-22
    )
    assert compare(bound(problem, dtype=model), out=out, lse=lse).worst <= 1.0


def test_a_cubic_for_exp2_is_outside_the_bound_of_the_instruction():
    """One key holds the maximum, the others lie where the cubic errs most."""
    problem = make("bfloat16", (4,), (64,), dim=8, scale=1.0)
    q, k = np.zeros_like(problem.q), np.zeros_like(problem.k)
    worst = []
    for shift in np.arange(1, 8) / 8:
        q[..., 0], k[0, :, 0] = 1.0, shift
        tried = replace(problem, q=q, k=k)
        out, lse = flash(tried, "bfloat16", exp2=cubic_exp2)
        worst.append(compare(bound(tried, dtype="bfloat16"), out=out, lse=lse).lse)
    assert max(worst) > 1.0


def test_weights_that_round_alike_are_not_taken_as_independent(monkeypatch):
    """Key 0 holds the maximum; every other key of a row has one and the same error."""
    dtype = "bfloat16"
    problem = make(dtype, (64,), (2048,))
    q, k, v = (np.zeros_like(x) for x in (problem.q, problem.k, problem.v))
    q[:, :, 0] = np.linspace(0.25, 16, 256).reshape(64, 4)
    k[0, :, 0] = 1.0
    v[1:] = 1 + np.arange(64) / 64
    problem = replace(problem, q=round_to(q, by_name(dtype)), k=k, v=v)
    out, lse = flash(problem, dtype)
    assert compare(bound(problem, dtype=dtype), out=out, lse=lse).worst <= 1.0
    monkeypatch.setattr(tolerance, "shared", lambda weights, _: np.ones_like(weights))
    assert compare(bound(problem, dtype=dtype), out=out, lse=lse).out > 1.0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lens", [(8, 3, 1), (64, 17, 129), (512,)], ids=str)
@pytest.mark.parametrize("causal", ["none", "bottom_right"])
@pytest.mark.parametrize("flaw", ["head", "mask column", "last key", "scale"])
def test_a_small_planted_bug_is_outside(dtype, lens, causal, flaw):
    if flaw == "mask column":
        causal = "top_left"  # the flaw needs a mask to shift
    problem = make(dtype, lens, causal=causal)
    out, lse = flash(problem, dtype, flaw=flaw)
    parity = compare(bound(problem, dtype=dtype), out=out, lse=lse)
    assert parity.out > 1.0
    assert parity.lse is not None
    assert parity.lse > 5.0


def test_the_bound_scales_with_the_values_it_bounds():
    problem = make("bfloat16", (70,))
    once = bound(problem, dtype="bfloat16")
    twice = bound(replace(problem, v=2 * problem.v), dtype="bfloat16")
    np.testing.assert_allclose(twice.out, 2 * once.out, rtol=1e-12)
    assert np.array_equal(twice.lse, once.lse)


def test_cancelling_scores_need_the_term_of_their_sizes():
    """Sums of products near 1e4 cancel to scores near 1; fp32 keeps few digits."""
    problem = make("float16", (64,))
    q, k = problem.q.copy(), problem.k.copy()
    q[..., :31], k[..., :31] = 24 * q[..., :31], 24 * k[..., :31]
    q[..., 32:63], k[..., 32:63] = q[..., :31], -k[..., :31]
    problem = replace(problem, q=q, k=k)
    out, lse = flash(problem, "float16")
    assert compare(bound(problem, dtype="float16"), out=out, lse=lse).worst <= 1.0
    exact = Arithmetic(dtype=by_name("float16"), tensor_roundoff=0.0)
    assert compare(bound(problem, dtype=exact), out=out, lse=lse).lse > 1.0


def test_weights_below_fp16_normals_need_the_subnormal_term():
    """Many weights of 1.5 subnormal steps round to 2 and add up."""
    problem = make("float16", (4,), (2048,))
    q, k, v = (np.zeros_like(x) for x in (problem.q, problem.k, problem.v))
    q[..., 0] = 1.0
    k[0, :, 0] = round_to(8 * np.log(2.0**24 / 1.5), by_name("float16"))
    v[1:] = 1.0
    problem = replace(problem, q=q, k=k, v=v)
    out, lse = flash(problem, "float16")
    limits = bound(problem, dtype="float16")
    assert compare(limits, out=out, lse=lse).worst <= 1.0
    relative = np.abs(out - limits.reference.out) / limits.reference.out
    assert relative.min() > 100 * by_name("float16").unit_roundoff


@pytest.mark.parametrize(
    ("change", "moved"),
    [
        ({"tensor_roundoff": 2.0**-16}, ("out", "lse")),
        ({"exp_error": 2.0**-10}, ("out", "lse")),
        ({"tile_keys": 1}, ("out", "lse")),
        ({"false_alarm": 1e-20}, ("out",)),
        ({"log_error": 2.0**-10}, ("lse",)),
        ({"alpha_error": 2.0**-10}, ("out", "lse")),
        ({"splits": 3}, ("out", "lse")),
        ({"descaled": True}, ("out", "lse")),
        ({"out_dtype": by_name("float16")}, ()),
        ({"tensor_block": 1}, ("out", "lse")),
    ],
)
def test_each_fact_of_the_arithmetic_counts(change, moved):
    problem = make("bfloat16", (70,), (200,))
    usual = Arithmetic(dtype=by_name("bfloat16"))
    before, after = (
        bound(problem, dtype=model) for model in (usual, replace(usual, **change))
    )
    for name in ("out", "lse"):
        larger = getattr(after, name) > getattr(before, name)
        assert larger.any() == (name in moved)


def test_accumulating_values_counts_also_where_scores_are_exact():
    problem = make("bfloat16", (9,), (200,))
    problem = replace(problem, q=np.zeros_like(problem.q))
    rough = Arithmetic(dtype=by_name("bfloat16"), tensor_roundoff=2.0**-16)
    usual, larger = bound(problem, dtype="bfloat16"), bound(problem, dtype=rough)
    added = (200 + 200 / 8) * (2.0**-16 - 2.0**-23) * np.abs(problem.v).mean(axis=0)
    added = np.repeat(added, 2, axis=0)
    assert np.all(larger.out - usual.out > 0.9 * added)
    assert np.array_equal(larger.lse, usual.lse)


def test_the_bound_carries_the_reference_itself():
    problem = make("float16", (70, 3), (9, 40), causal="bottom_right", window_left=20)
    problem = replace(problem, sinks=np.arange(4.0))
    want = attention(problem)
    got = bound(problem, dtype="float16").reference
    assert np.array_equal(got.out, want.out)
    assert np.array_equal(got.lse, want.lse)


def test_rows_without_keys_must_be_exact():
    problem = make("bfloat16", (4,), (0,))
    limits = bound(problem, dtype="bfloat16")
    out, lse = np.zeros((4, 4, 64)), np.full((4, 4), -np.inf)
    assert compare(limits, out=out, lse=lse).worst == 0.0
    out[2, 1, 5] = 1e-30
    assert compare(limits, out=out, lse=lse).out == np.inf
    assert compare(limits, out=out, lse=lse).out_at == (2, 1, 5)
    lse[3, 2] = -1e30
    assert compare(limits, out=out, lse=lse).lse == np.inf
    assert compare(limits, out=out, lse=lse).lse_at == (3, 2)


def test_nan_is_never_inside_and_unjudged_rows_are_left_out():
    problem = make("bfloat16", (4,))
    limits = bound(problem, dtype="bfloat16")
    out, lse = limits.reference.out.copy(), limits.reference.lse.copy()
    out[1, 0, 0], lse[1, 0] = np.nan, np.nan
    parity = compare(limits, out=out, lse=lse)
    assert (parity.out, parity.lse) == (np.inf, np.inf)
    rows = np.array([True, False, True, True])
    assert compare(limits, out=out, lse=lse, rows=rows).worst == 0.0


def test_scores_beyond_fp32_are_refused_not_waved_through():
    with pytest.raises(ValueError, match="no accuracy"):
        bound(make("bfloat16", (16,), size=1e7), dtype="bfloat16")


def test_shared_counts_weights_that_round_to_one_value():
    for dtype in DTYPES:
        weights = np.array(
            [[1.0, 0.25, 0.25, 0.0, 0.0, 0.25], [1e-30, 1e-30, 1, 1, 1, 0]]
        )
        counts = shared(weights, by_name(dtype))
        assert counts.tolist() == [[1, 3, 3, 1, 1, 3], [1, 1, 3, 3, 3, 1]]


def test_every_possible_rescaling_may_err_as_exp2_does():
    problem = make("bfloat16", (9,), (200,))
    once = Arithmetic(dtype=by_name("bfloat16"), tile_keys=200, exp_error=2.0**-12)
    often = replace(once, tile_keys=10)
    added = bound(problem, dtype=often).lse - bound(problem, dtype=once).lse
    assert np.all(added > 19 * 2.0**-12)
