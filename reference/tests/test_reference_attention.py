import math

import numpy as np
import pytest
import torch
from emulated_flash import visible

from sidestream.reference.attention import Problem, attention
from sidestream.reference.lengths import from_counts, from_prefix


def naive(problem):
    """Plain Python over every (sequence, row, head, key); no numpy algebra."""
    tokens, heads, dim = problem.q.shape
    group = heads // problem.k.shape[1]
    scale = problem.scale if problem.scale is not None else 1 / math.sqrt(dim)
    out = np.zeros((tokens, heads, problem.v.shape[2]))
    lse = np.full((tokens, heads), -np.inf)
    for b in range(len(problem.seq_q.lengths)):
        q0, n = int(problem.seq_q.starts[b]), int(problem.seq_q.lengths[b])
        k0, m = int(problem.seq_kv.starts[b]), int(problem.seq_kv.lengths[b])
        for i in range(n):
            for h in range(heads):
                terms = []
                for j in range(m):
                    if visible(problem, i, j, n, m):
                        pair = zip(
                            problem.q[q0 + i, h],
                            problem.k[k0 + j, h // group],
                            strict=True,
                        )
                        s = scale * math.fsum(float(x) * float(y) for x, y in pair)
                        terms.append((s, problem.v[k0 + j, h // group]))
                scores = [s for s, _ in terms]
                if problem.sinks is not None:
                    scores.append(float(problem.sinks[h]))
                if not scores:
                    continue
                top = max(scores)
                total = math.fsum(math.exp(s - top) for s in scores)
                lse[q0 + i, h] = top + math.log(total)
                for s, row in terms:
                    out[q0 + i, h] += math.exp(s - top) / total * row
    return out, lse


def make(rng, lens_q, lens_kv, *, heads=(4, 2), dim=8, dim_v=None, **mask):
    tq, tk = sum(lens_q), sum(lens_kv)
    return Problem(
        q=rng.standard_normal((tq, heads[0], dim)),
        k=rng.standard_normal((tk, heads[1], dim)),
        v=rng.standard_normal((tk, heads[1], dim_v or dim)),
        seq_q=from_counts(lens_q),
        seq_kv=from_counts(lens_kv),
        **mask,
    )


@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize(
    ("causal", "left", "right", "anchor"),
    [
        ("none", None, None, None),
        ("top_left", None, None, None),
        ("bottom_right", None, None, None),
        ("top_left", 0, None, "top_left"),
        ("top_left", 2, None, None),
        ("bottom_right", 2, None, "bottom_right"),
        ("none", 2, None, None),
        ("none", None, 2, None),
        ("none", 3, 1, "top_left"),
        ("none", 3, 1, "bottom_right"),
        ("none", 0, 0, "bottom_right"),
        ("none", -1, 3, "bottom_right"),
    ],
)
def test_agrees_with_plain_loops(causal, left, right, anchor, sinks):
    rng = np.random.default_rng(3)
    problem = make(
        rng,
        (5, 0, 3, 7, 2, 1),
        (4, 3, 0, 9, 2, 6),
        dim_v=16,
        causal=causal,
        window_left=left,
        window_right=right,
        anchor=anchor,
        sinks=rng.standard_normal(4) if sinks else None,
        scale=0.4,
    )
    out, lse = naive(problem)
    result = attention(problem)
    np.testing.assert_allclose(result.out, out, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(result.lse, lse, rtol=1e-12)


@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1)])
@pytest.mark.parametrize("causal", ["none", "top_left"])
def test_agrees_with_torch_in_float64(heads, causal):
    """Long enough for several row blocks; torch is dense, one sequence at a time."""
    rng = np.random.default_rng(4)
    lens = (300, 7, 129)
    problem = make(rng, lens, lens, heads=heads, dim=16, causal=causal)
    result = attention(problem)
    for start, n in zip(problem.seq_q.starts, lens, strict=True):
        at = slice(start, start + n)
        q, k, v = (
            torch.from_numpy(x[at]).transpose(0, 1)
            for x in (problem.q, problem.k, problem.v)
        )
        want = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal == "top_left", enable_gqa=True
        )
        got = torch.from_numpy(result.out[at]).transpose(0, 1)
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-13)


def test_row_blocks_of_a_long_sequence_agree_with_one_row_at_a_time():
    rng = np.random.default_rng(5)
    whole = make(rng, (700,), (900,), causal="bottom_right", window_left=200)
    result = attention(whole)
    for i in (0, 1, 127, 128, 500, 699):
        low = max(0, i + 200 - 200)
        row = make(rng, (1,), (i + 201 - low,))
        row = Problem(
            q=whole.q[i : i + 1],
            k=whole.k[low : i + 201],
            v=whole.v[low : i + 201],
            seq_q=row.seq_q,
            seq_kv=row.seq_kv,
        )
        single = attention(row)
        np.testing.assert_allclose(result.out[i], single.out[0], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(result.lse[i], single.lse[0], rtol=1e-12)


def test_keyless_rows_are_zero_and_minus_infinity_or_the_sink():
    rng = np.random.default_rng(6)
    bare = make(rng, (2, 3), (0, 1), causal="bottom_right")
    result = attention(bare)
    assert np.all(result.out[:4] == 0)
    assert np.all(np.isneginf(result.lse[:4]))
    assert np.all(np.isfinite(result.lse[4]))

    sinks = np.array([-200.0, 0.0, 3.5, 2000.0])
    sunk = make(rng, (2, 3), (0, 1), causal="bottom_right", sinks=sinks)
    result = attention(sunk)
    assert np.all(result.out[:4] == 0)
    assert np.array_equal(result.lse[:4], np.tile(sinks, (4, 1)))
    assert np.isfinite(result.lse[4]).all()
    assert result.lse[4, 3] == 2000.0


def test_capacity_tails_are_never_read():
    rng = np.random.default_rng(7)
    clean = make(rng, (3, 4), (5, 2))
    tail = {
        name: np.concatenate([getattr(clean, name), np.full_like(clean.q[:2, :n], nan)])
        for name, n, nan in (("q", 4, np.nan), ("k", 2, np.nan), ("v", 2, np.nan))
    }
    dirty = Problem(**tail, seq_q=clean.seq_q, seq_kv=clean.seq_kv)
    want, got = attention(clean), attention(dirty)
    assert np.array_equal(got.out[:7], want.out)
    assert np.array_equal(got.lse[:7], want.lse)


def test_prefix_sums_and_their_base_change_nothing():
    for base in (0, 5, 1000):
        prefix = from_prefix([base, base + 3, base + 3, base + 8])
        counts = from_counts([3, 0, 5])
        assert np.array_equal(prefix.starts, counts.starts)
        assert np.array_equal(prefix.lengths, counts.lengths)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seq_q": from_counts([9])}, "batch"),
        ({"seq_q": from_counts([3, 99])}, "reaches past"),
        ({"sinks": np.zeros(2)}, "sinks"),
        ({"scale": 0.0}, "zero scale"),
        ({"causal": "left"}, "unknown causal"),
        ({"anchor": "left"}, "unknown anchor"),
        ({"causal": "top_left", "window_right": 0}, "already means"),
        ({"causal": "top_left", "anchor": "bottom_right"}, "contradicts"),
        ({"k": np.zeros((7, 3, 8)), "v": np.zeros((7, 3, 8))}, "multiple"),
        ({"q": np.zeros((7, 4, 16))}, "same head dim"),
        ({"v": np.zeros((6, 2, 8))}, "same tokens"),
    ],
)
def test_inputs_that_do_not_belong_together_are_refused(change, message):
    good = {
        "q": np.zeros((7, 4, 8)),
        "k": np.zeros((7, 2, 8)),
        "v": np.zeros((7, 2, 8)),
        "seq_q": from_counts([3, 4]),
        "seq_kv": from_counts([5, 2]),
    }
    Problem(**good)
    with pytest.raises(ValueError, match=message):
        Problem(**{**good, **change})


@pytest.mark.parametrize("bad", [[3, -1], [[1, 2]]])
def test_bad_counts_are_refused(bad):
    with pytest.raises(ValueError, match=r"negative|shape"):
        from_counts(bad)


@pytest.mark.parametrize("bad", [[], [3, 2], [[0, 1]]])
def test_bad_prefix_sums_are_refused(bad):
    with pytest.raises(ValueError, match=r"shape|decrease"):
        from_prefix(bad)
