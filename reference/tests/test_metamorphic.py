from dataclasses import replace

import numpy as np
import pytest
from emulated_flash import flash

from sidestream.reference.attention import Attention, Problem, attention
from sidestream.reference.lengths import from_counts, from_prefix
from sidestream.reference.metamorphic import RELATIONS, rebase
from sidestream.reference.narrow import by_name, round_to
from sidestream.reference.tolerance import bound


def make(lens_q, lens_kv, *, heads=(4, 2), dim=16, sinks=False, tail=0, **mask):
    rng = np.random.default_rng(11)
    shape = {
        "q": (sum(lens_q) + tail, heads[0]),
        "k": (sum(lens_kv) + tail, heads[1]),
        "v": (sum(lens_kv) + tail, heads[1]),
    }
    operands = {
        name: round_to(rng.standard_normal((*lead, dim)), by_name("bfloat16"))
        for name, lead in shape.items()
    }
    return Problem(
        **operands,
        seq_q=from_counts(lens_q),
        seq_kv=from_counts(lens_kv),
        sinks=rng.standard_normal(heads[0]) if sinks else None,
        **mask,
    )


PROBLEMS = {
    "plain": make((5, 70, 3), (40, 70, 9)),
    "empties": make((5, 0, 3, 7), (0, 12, 9, 70), tail=3),
    "causal": make((5, 70, 3), (40, 70, 9), causal="top_left"),
    "bottom right": make((5, 70, 3), (5, 70, 3), causal="bottom_right"),
    "window": make((5, 70), (40, 70), causal="bottom_right", window_left=9),
    "band": make((30, 7), (40, 3), window_left=3, window_right=5),
    "sinks": make((5, 70, 3), (40, 0, 9), sinks=True, causal="top_left"),
    "one sequence": make((9,), (30,), heads=(3, 3)),
}

CASES = [
    pytest.param(relation, problem, id=f"{relation.name}-{name}")
    for relation in RELATIONS
    for name, problem in PROBLEMS.items()
    if relation.applies(problem)
]


@pytest.mark.parametrize(("relation", "problem"), CASES)
def test_the_reference_obeys(relation, problem):
    twin = relation.transform(problem, np.random.default_rng(1))
    got, want = attention(twin.problem), twin.predict(attention(problem))
    live = slice(0, twin.problem.seq_q.total)
    np.testing.assert_allclose(got.out[live], want.out[live], rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(got.lse[live], want.lse[live], rtol=1e-11)


def emulate(problem):
    out, lse = flash(problem, "bfloat16")
    return Attention(out=out.astype(np.float64), lse=lse.astype(np.float64))


@pytest.mark.parametrize(("relation", "problem"), CASES)
def test_a_faithful_kernel_obeys_bit_by_bit_or_within_both_bounds(relation, problem):
    twin = relation.transform(problem, np.random.default_rng(2))
    for name in ("q", "k", "v"):
        data = getattr(twin.problem, name)
        assert np.array_equal(round_to(data, by_name("bfloat16")), data)
    before, after = emulate(problem), emulate(twin.problem)
    want = twin.predict(before)
    live = slice(0, twin.problem.seq_q.total)
    if relation.exact:
        assert np.array_equal(after.out[live], want.out[live])
        assert np.array_equal(after.lse[live], want.lse[live])
        return
    limits, own = (
        bound(problem, dtype="bfloat16"),
        bound(twin.problem, dtype="bfloat16"),
    )
    slack = twin.predict(Attention(out=limits.out, lse=limits.lse))
    if relation.name == "equal-values":
        # Predicted from LSE alone, so its error is that of exp(sink - lse).
        slack = Attention(
            out=np.broadcast_to(np.expm1(limits.lse)[..., None], limits.out.shape),
            lse=limits.lse,
        )
    same = after.out[live] == want.out[live]
    error = np.abs(after.out[live] - want.out[live])
    assert np.all(same | (error <= own.out[live] + np.abs(slack.out[live])))
    same = after.lse[live] == want.lse[live]
    with np.errstate(invalid="ignore"):
        error = np.abs(after.lse[live] - want.lse[live])
    assert np.all(same | (error <= own.lse[live] + np.abs(slack.lse[live])))


def test_every_relation_applies_somewhere_and_is_named_once():
    names = [relation.name for relation in RELATIONS]
    assert len(set(names)) == len(names)
    assert {relation.name for relation in (c.values[0] for c in CASES)} == set(names)


def test_relations_that_need_a_shape_say_so():
    by_relation = {relation.name: relation for relation in RELATIONS}
    assert not by_relation["permute-keys"].applies(PROBLEMS["causal"])
    assert not by_relation["split-batch"].applies(PROBLEMS["one sequence"])
    assert not by_relation["expand-groups"].applies(PROBLEMS["one sequence"])
    crossed = replace(PROBLEMS["causal"], causal="bottom_right")
    assert not by_relation["truncate"].applies(crossed)
    assert not by_relation["truncate"].applies(PROBLEMS["plain"])


def leaky(problem):
    """A wrong attention: rows of a sequence also see the first key of the pack."""
    result = attention(problem)
    first = problem.v[0] if problem.v.shape[0] else 0.0
    return Attention(
        out=result.out + 1e-3 * np.repeat(first, problem.group, axis=0), lse=result.lse
    )


def test_a_leak_between_sequences_breaks_a_relation():
    problem = PROBLEMS["plain"]
    relation = next(r for r in RELATIONS if r.name == "permute-sequences")
    rng = np.random.default_rng(0)
    twins = [relation.transform(problem, rng) for _ in range(5)]
    assert any(
        not np.allclose(
            leaky(t.problem).out, t.predict(leaky(problem)).out, rtol=1e-9, atol=1e-9
        )
        for t in twins
    )


def test_rebased_prefix_sums_declare_the_same_lengths():
    prefix = np.array([4, 7, 7, 30], np.int32)
    for base in (0, 1, 2**31 - 27):
        moved = rebase(prefix, base)
        assert moved[0] == base
        assert np.array_equal(from_prefix(moved).lengths, from_prefix(prefix).lengths)
    with pytest.raises(ValueError, match="int32"):
        rebase(prefix, 2**31 - 26)
