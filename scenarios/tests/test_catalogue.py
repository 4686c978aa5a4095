import re
from dataclasses import replace

import numpy as np
import pytest

from sidestream.kernels.spec import AttentionSpec, check_spec, validate_lengths
from sidestream.reference.attention import attention
from sidestream.reference.narrow import by_name as by_name_of_type
from sidestream.reference.parity import amax_range, compare
from sidestream.reference.tolerance import Arithmetic, bound
from sidestream.scenarios.case import build
from sidestream.scenarios.catalogue import (
    CATALOGUE,
    EVERY,
    LARGEST_FLOPS,
    UnknownScenarioError,
    by_name,
    matching,
    with_tags,
)
from sidestream.scenarios.catalogue_mutation import MUTATION
from sidestream.scenarios.catalogue_narrow import (
    KINDS,
    LARGEST_NARROW_FLOPS,
    NARROW,
)
from sidestream.scenarios.catalogue_wide import (
    EVERY_CHOICE,
    LARGEST_WIDE_FLOPS,
    WIDE,
)
from sidestream.scenarios.core import CORE, CORE_TAG, core


def test_names_are_unique_and_fit_a_command_line():
    assert len(CATALOGUE) >= 40
    names = [s.name for s in EVERY]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)
    assert all(s.description.endswith(".") and s.tags for s in EVERY)


def test_patterns_find_every_scenario_of_a_family():
    family = matching("mutate-band-d64-*")
    assert set(family) == {s for s in MUTATION if s.name.startswith("mutate-band-d64-")}
    assert len(family) == 8
    assert matching("totals-[ab]") == (by_name("totals-a"), by_name("totals-b"))
    assert matching("two-short") == (by_name("two-short"),)
    with pytest.raises(UnknownScenarioError, match="no scenario's name matches"):
        matching("mutate-band-d63-*")


def test_launches_for_mutation_of_a_family_have_one_text():
    """What a kernel may compile by is the same, and no batch is of one sequence."""
    families = {}
    for scenario in MUTATION:
        families.setdefault(scenario.tags[1], []).append(scenario)
    for scenarios in families.values():
        facts = {
            (s.head_dim, s.causal, s.max_len_q, s.max_len_kv, s.lengths_q_form)
            for s in scenarios
        }
        assert len(facts) == 1
        assert all(len(s.lengths_q) > 1 for s in scenarios)
        assert max(max(s.lengths_q) for s in scenarios) <= scenarios[0].max_len_q


def test_no_scenario_is_too_large_for_a_virtual_gpu():
    assert max(s.flops for s in CATALOGUE) <= LARGEST_FLOPS
    assert max(s.flops for s in WIDE) <= LARGEST_WIDE_FLOPS
    assert max(s.flops for s in NARROW) <= LARGEST_NARROW_FLOPS


def test_core_scenarios_declare_the_same_and_are_enough_for_a_main_job():
    family = with_tags(CORE_TAG)
    assert len(family) >= 30
    for scenario in family:
        declared = scenario.declaration()
        free = {"batch", "heads_q", "heads_kv"}
        assert {k: v for k, v in declared.items() if k not in free} == {
            **{k: v for k, v in CORE.items() if not k.endswith("_form")},
            "lengths_q": "prefix",
            "lengths_kv": "prefix",
            "window_left": None,
            "window_right": None,
            "anchor": None,
            "sinks": False,
            "scale": None,
        }
    assert len({s.total_q for s in family}) > 20
    with pytest.raises(TypeError, match="dtype"):
        core(name="x", description="", lengths_q=(1,), lengths_kv=(1,), dtype="float16")


def test_every_choice_of_the_interface_occurs():
    def values(field):
        return {getattr(s, field) for s in CATALOGUE}

    assert values("dtype") == {"float16", "bfloat16"}
    assert values("causal") == {"none", "top_left", "bottom_right"}
    assert values("lse") == {"none", "token_major", "head_major"}
    assert values("head_dim") >= {8, 40, 64, 72, 96, 128}
    assert values("sinks") == {True, False}
    assert values("stream") == {"default", "side"}
    assert values("tail_fill") >= {"nan", "inf", "huge"}
    assert len(values("scratch")) >= 4
    assert len(values("layout")) == 5
    assert values("batch") >= {1, 2, 3, 32}
    forms = {(s.lengths_q_form, s.lengths_kv_form) for s in CATALOGUE}
    assert len(forms) == 4
    assert any(s.base_q and s.base_kv and s.base_q != s.base_kv for s in CATALOGUE)
    assert any(s.window_left is not None for s in CATALOGUE)
    assert any(s.window_right is not None for s in CATALOGUE)
    assert any(s.heads_kv == 1 < s.heads_q for s in CATALOGUE)
    assert any(1 < s.heads_kv < s.heads_q for s in CATALOGUE)
    assert any(s.capacity_q == 0 for s in CATALOGUE)
    assert any(s.capacity_kv == 0 for s in CATALOGUE)
    assert any(s.total_q == 0 < s.capacity_q for s in CATALOGUE)
    assert any(s.total_kv == 0 < s.capacity_kv for s in CATALOGUE)


@pytest.mark.parametrize("scenario", CATALOGUE, ids=lambda s: s.name)
def test_each_has_a_finite_reference_and_a_bound_that_is_not_idle(scenario):
    inputs = build(scenario)
    problem = inputs.problem()
    limits = bound(problem, dtype=scenario.dtype)
    rows = inputs.judged
    assert np.isfinite(limits.reference.out[rows]).all()
    assert np.isfinite(limits.out[rows]).all()
    assert np.isfinite(limits.lse[rows]).all()
    seen = rows & np.isfinite(limits.reference.lse).all(axis=-1)
    size = np.abs(limits.reference.out[seen])
    live = size > 0
    if live.any() and scenario.name != "sinks-dominant":
        assert np.median(limits.out[seen][live]) < 0.2 * np.median(size[live])
    exact = attention(problem)
    own = compare(limits, out=exact.out, lse=exact.lse, rows=rows)
    assert own.worst == 0.0


@pytest.mark.parametrize("scenario", with_tags("keyless"), ids=lambda s: s.name)
def test_keyless_scenarios_have_rows_that_see_nothing(scenario):
    inputs = build(scenario)
    result = attention(inputs.problem())
    dead = (result.out == 0).all(axis=(1, 2)) & inputs.live
    assert dead.any()
    if not scenario.sinks:
        assert np.isneginf(result.lse[dead]).all()


@pytest.mark.parametrize("scenario", CATALOGUE, ids=lambda s: s.name)
def test_the_kernels_take_every_declaration(scenario):
    spec = AttentionSpec(**scenario.declaration())
    check_spec(spec)
    inputs = build(scenario)
    validate_lengths(spec, inputs.lengths_q.tolist(), inputs.lengths_kv.tolist())


@pytest.mark.parametrize("scenario", NARROW, ids=lambda s: s.name)
def test_one_byte_inputs_have_a_bound_that_is_not_idle(scenario):
    inputs = build(scenario)
    model = Arithmetic(
        dtype=by_name_of_type(scenario.dtype),
        out_dtype=by_name_of_type(scenario.output_dtype),
        descaled=True,
        weight_scale=16.0,
        out_scale=scenario.scale_out,
    )
    limits = bound(inputs.problem(), dtype=model)
    rows = inputs.judged
    assert np.isfinite(limits.out[rows]).all()
    assert np.isfinite(limits.lse[rows]).all()
    problem = inputs.problem()
    # Of what the terms of a row add up to: their rounding, and that of the output.
    terms = attention(replace(problem, v=np.abs(problem.v))).out[rows]
    live = terms > 0
    if live.any():
        roundoff = model.dtype.unit_roundoff + model.stored.unit_roundoff
        if scenario.values == "equal":
            roundoff = 2.0 * model.stored.unit_roundoff
        assert np.median(limits.out[rows][live] / terms[live]) < 1.1 * roundoff
    exact = attention(inputs.problem())
    saturated = not np.array_equal(exact.out[rows], limits.reference.out[rows])
    assert saturated == scenario.name.endswith("saturated")
    low, middle, high = amax_range(limits, rows)
    assert low <= middle <= high <= 1.4 * middle


@pytest.mark.parametrize("scenario", [*WIDE, *NARROW], ids=lambda s: s.name)
def test_sm100_takes_every_declaration_that_some_targets_take(scenario):
    spec = AttentionSpec(arch="sm_100a", **scenario.declaration())
    check_spec(spec)
    inputs = build(scenario)
    validate_lengths(spec, inputs.lengths_q.tolist(), inputs.lengths_kv.tolist())


@pytest.mark.parametrize("shape", EVERY_CHOICE)
def test_every_choice_of_the_interface_occurs_at_each_wide_head(shape):
    """What the catalogue covers at some head dim, each of these shapes meets."""
    mine = [s for s in WIDE if shape in s.tags]

    def values(field):
        return {getattr(s, field) for s in mine}

    assert values("dtype") == {"float16", "bfloat16"}
    assert values("causal") == {"none", "top_left", "bottom_right"}
    assert values("lse") == {"none", "token_major", "head_major"}
    assert values("sinks") == {True, False}
    assert values("stream") == {"default", "side"}
    assert values("lengths_q_form") == {"counts", "prefix"}
    assert {"packed", "spread"} <= values("layout")
    assert any(s.base_q != s.base_kv for s in mine)
    assert any(s.window_left is not None for s in mine)
    assert any(s.window_right is not None for s in mine)
    assert any(s.heads_q == s.heads_kv for s in mine)
    assert any(s.heads_q // s.heads_kv % 2 for s in mine if s.heads_q > s.heads_kv)
    assert any(s.heads_q // s.heads_kv % 2 == 0 for s in mine)
    assert any(s.tail_kv and s.tail_fill == "nan" for s in mine)
    assert any(s.nan_sequences for s in mine)
    assert any(s.capacity_q == 0 for s in mine)
    assert any(s.capacity_kv == 0 for s in mine)
    assert any(s.total_q == 0 < s.capacity_q for s in mine)
    assert any((s.scale or 1.0) < 0.0 for s in mine)
    assert any(s.sink_value is not None for s in mine)


@pytest.mark.parametrize("kind", KINDS)
def test_every_choice_of_the_interface_occurs_with_each_one_byte_input(kind):
    mine = [s for s in NARROW if kind in s.tags]

    def values(field):
        return {getattr(s, field) for s in mine}

    assert values("dtype") == {KINDS[kind]}
    assert values("output_dtype") == {"float16", "bfloat16", *KINDS.values()}
    assert values("causal") == {"none", "top_left", "bottom_right"}
    assert values("lse") == {"none", "token_major", "head_major"}
    assert values("sinks") == {True, False}
    assert values("stream") == {"default", "side"}
    assert values("lengths_q_form") == {"counts", "prefix"}
    assert values("layout") == {"packed", "spread", "kv_pair", "fused_qkv"}
    assert values("out_layout") == {"packed", "padded", "spread"}
    assert values("values") >= {"normal", "flat", "equal", "sharp", "ties"}
    assert values("tail_fill") == {"nan", "huge", "inf"}
    assert {16, 48, 64, 128} <= values("head_dim")
    assert any(s.width_v != s.head_dim for s in mine)
    assert any(s.window_left is not None for s in mine)
    assert any(s.window_right is not None for s in mine)
    assert any(s.heads_q == s.heads_kv for s in mine)
    assert any(s.heads_q // s.heads_kv % 2 for s in mine if s.heads_q > s.heads_kv)
    assert any(s.heads_q // s.heads_kv % 2 == 0 for s in mine)
    assert any(s.nan_sequences and s.nan_every > 1 for s in mine)
    assert any(s.capacity_q == 0 < s.capacity_kv for s in mine)
    assert any(s.capacity_q == 0 == s.capacity_kv for s in mine)
    assert any(s.total_q == 0 < s.capacity_q for s in mine)
    assert any((s.scale or 1.0) < 0.0 for s in mine)
    assert any(s.sink_value is not None for s in mine)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(KeyError, match="side-stream"):
        by_name("sidestream")
    assert by_name("side-stream").stream == "side"
