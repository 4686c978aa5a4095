import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from sidestream.harness.errors import UsageError
from sidestream.kernels.spec import AttentionSpec, check_spec, validate_lengths
from sidestream.reference.tolerance import bound
from sidestream.scenarios.case import build
from sidestream.scenarios.catalogue import CATALOGUE
from sidestream.scenarios.core import CORE
from sidestream.scenarios.strategies import core_scenarios, scenarios, sequences
from sidestream.scenarios.strategies.lengths import fit, length
from sidestream.scenarios.token import decode, encode

QUIET = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@QUIET
@given(scenarios(max_flops=2_000_000))
def test_every_drawn_scenario_is_served_and_has_a_reference(scenario):
    spec = AttentionSpec(**scenario.declaration())
    check_spec(spec)
    inputs = build(scenario)
    validate_lengths(spec, inputs.lengths_q.tolist(), inputs.lengths_kv.tolist())
    limits = bound(inputs.problem(), dtype=scenario.dtype)
    assert np.isfinite(limits.out[inputs.judged]).all()
    assert np.isfinite(limits.lse[inputs.judged]).all()
    assert decode(encode(scenario)) == scenario


@QUIET
@given(core_scenarios())
def test_core_scenarios_keep_the_core_declaration(scenario):
    assert all(getattr(scenario, name) == value for name, value in CORE.items())
    one_query = 4 * scenario.heads_q * scenario.head_dim * max(scenario.lengths_kv)
    assert scenario.flops <= max(10_000_000, one_query)


SMALL = settings(max_examples=200, database=None)


def test_the_simplest_scenario_is_simple():
    least = find(scenarios(), lambda _: True, settings=SMALL)
    assert (least.lengths_q, least.lengths_kv) == ((0,), (0,))
    assert (least.heads_q, least.heads_kv, least.head_dim) == (1, 1, 64)
    assert (least.causal, least.window_left, least.window_right) == ("none", None, None)
    assert (least.layout, least.out_layout, least.stream) == ("packed",) * 2 + (
        "default",
    )
    assert (least.tail_q, least.tail_kv, least.seed) == (0, 0, 0)


@pytest.mark.parametrize(
    ("wanted", "simplest"),
    [
        (lambda s: s.total_kv >= 70, lambda s: s.batch == 1 and s.total_q == 0),
        (lambda s: s.base_q > 5, lambda s: s.base_q == 6 and s.total_q == 0),
        (lambda s: s.batch >= 3, lambda s: s.batch == 3 and s.total_q == 0),
        (lambda s: s.sinks and s.total_q, lambda s: s.total_q == 1),
    ],
)
def test_a_failure_shrinks_to_what_matters(wanted, simplest):
    assert simplest(find(scenarios(), wanted, settings=SMALL))


@pytest.mark.parametrize(
    "wanted",
    [
        lambda s: s.layout == "fused_qkv" and s.total_q > 3,
        lambda s: any(
            q > k > 0 for q, k in zip(s.lengths_q, s.lengths_kv, strict=True)
        ),
        lambda s: 65 in s.lengths_kv and 0 in s.lengths_kv,
        lambda s: s.anchor == "bottom_right" and s.window_right is not None,
        lambda s: s.stream == "side" and s.scratch == "ones" and s.tail_kv > 64,
        lambda s: s.batch >= 7,
    ],
)
def test_hard_corners_are_reached(wanted):
    unshrunk = settings(max_examples=4000, database=None, phases=[Phase.generate])
    find(scenarios(), wanted, settings=unshrunk)


@given(sequences(max_batch=5, longest=90, max_pairs=2000))
def test_batches_keep_their_limits(pairs):
    assert 1 <= len(pairs) <= 5
    assert all(0 <= q <= 90 and 0 <= k <= 90 for q, k in pairs)
    assert sum(q * k for q, k in pairs) <= 2000


@given(st.integers(0, 400).flatmap(lambda n: st.tuples(st.just(n), length(longest=n))))
def test_lengths_never_exceed_the_longest(drawn):
    longest, value = drawn
    assert 0 <= value <= longest


def test_fit_drops_from_the_end_and_keeps_one():
    assert fit([(2, 3), (4, 5), (1, 1)], max_pairs=26) == ((2, 3), (4, 5))
    assert fit([(9, 0), (4, 5)], max_pairs=19) == ((9, 0),)
    assert fit([(10, 10)], max_pairs=35) == ((3, 10),)


@pytest.mark.parametrize("scenario", CATALOGUE, ids=lambda s: s.name)
def test_tokens_give_the_catalogue_back(scenario):
    assert decode(encode(scenario)) == scenario


@pytest.mark.parametrize(
    "token", ["", "abc", "sc1.", "sc1.%%%", "sc1.AAAA", encode(CATALOGUE[0])[:-9]]
)
def test_a_damaged_token_is_refused(token):
    with pytest.raises(UsageError, match="token"):
        decode(token)
