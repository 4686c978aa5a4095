"""Our SM100 kernel: part of the catalogue, a trace, and one call under many schedules.

The whole catalogue takes minutes, most of them in the compiler:

    sidestream check --arch sm_100a --kernel sm100 --scenario all
"""

from dataclasses import replace

import pytest
from our_runs import (
    UNEQUAL,
    make_bench,
    require_clean,
    require_equal_bits,
    require_no_race_of_streams,
)

from sidestream.kernels.support import matrix
from sidestream.scenarios import catalogue, trace
from sidestream.scenarios.catalogue_wide import SHAPES, WIDE_CORE_TAG
from sidestream.scenarios.core import CORE_TAG

CORE = [scenario.name for scenario in catalogue.with_tags(CORE_TAG)]
OTHERS = ("d128-fp16", "sinks-window", "window-keyless-rows", "negative-scale")
"""One compilation each: a wide head, and what the core declaration leaves out."""
WIDE = [scenario.name for scenario in catalogue.with_tags(WIDE_CORE_TAG)]
"""Of each shape past head dim 128; and head dims that do not fill their blocks."""
BETWEEN = ("wide-d72x136", "wide-d136x40")

OF_SCHEDULES = {"d64": {"head_dim": 64}} | SHAPES
EVERY_SHAPE = OF_SCHEDULES | {"d128": {"head_dim": 128}}
STEPS = 12


@pytest.fixture(scope="module")
def bench():
    return make_bench()


@pytest.mark.parametrize("name", [*CORE, *OTHERS, *WIDE, *BETWEEN])
def test_scenarios(bench, name):
    require_clean(bench, catalogue.by_name(name))


def test_the_steps_of_a_trace_share_one_compilation():
    bench = make_bench()
    steps = list(trace.steps(trace.excerpt("conv"), limit=STEPS))
    cases = [require_clean(bench, step.scenario()) for step in steps]
    assert sum(case.compiles for case in cases) <= 1
    assert len({step.totals for step in steps}) > STEPS // 2


@pytest.mark.parametrize("heads_kv", [1, 2])
def test_twenty_schedules_give_the_same_bits(bench, heads_kv):
    require_equal_bits(bench, replace(UNEQUAL, heads_kv=heads_kv))


@pytest.mark.parametrize("shape", OF_SCHEDULES)
def test_twenty_schedules_give_the_same_bits_at_other_heads(bench, shape):
    lengths = (150, 1, 0, 17), (300, 1, 40, 0)
    scenario = replace(
        UNEQUAL, lengths_q=lengths[0], lengths_kv=lengths[1], **OF_SCHEDULES[shape]
    )
    require_equal_bits(bench, scenario)


@pytest.mark.parametrize("shape", EVERY_SHAPE)
def test_the_stream_adversary_finds_nothing(shape):
    dims = replace(UNEQUAL, **EVERY_SHAPE[shape])
    require_no_race_of_streams("--head-dims", str(dims.head_dim), str(dims.width_v))


def test_every_shape_is_among_them():
    """`UNEQUAL` itself is of head dim 128, under many schedules."""
    served = {row.head_dims for row in matrix() if row.arch == "sm_100a"}
    assert dims_of(EVERY_SHAPE) == served
    assert dims_of(OF_SCHEDULES) == served - {(UNEQUAL.head_dim, UNEQUAL.width_v)}


def dims_of(shapes):
    scenarios = [replace(UNEQUAL, **facts) for facts in shapes.values()]
    return {(scenario.head_dim, scenario.width_v) for scenario in scenarios}
