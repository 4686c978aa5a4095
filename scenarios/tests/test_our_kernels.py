"""Our kernels over the catalogue, over traces, and over scenarios that are drawn.

    pytest scenarios/tests/test_our_kernels.py --sidestream-scenario nan-tail
    pytest scenarios/tests/test_our_kernels.py --hypothesis-profile thorough

Each case runs all checks of `sidestream check`; a failure prints the findings with the
command that replays them.
"""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from our_runs import require_clean

from sidestream.harness.run.bench import Bench
from sidestream.harness.run.settings import Settings
from sidestream.kernels.common.worklist import PREP_THREADS
from sidestream.scenarios import catalogue, trace
from sidestream.scenarios.strategies import core_scenarios, scenarios

STEPS = 20


@pytest.fixture(scope="module")
def bench(request):
    option = request.config.getoption
    return Bench(
        settings=Settings(
            arch=option("--sidestream-arch"),
            seed=option("--sidestream-seed"),
            deadline=option("--sidestream-deadline"),
        )
    )


def test_every_scenario_of_the_catalogue(bench, scenario):
    require_clean(bench, scenario)


def test_more_sequences_than_the_work_list_takes_at_a_time(bench):
    crowd = catalogue.by_name("mutate-decode-d128-crowd")
    assert len(crowd.lengths_q) > PREP_THREADS
    require_clean(bench, crowd)


def test_keys_and_values_in_one_tensor_that_has_no_tokens(bench):
    pair = catalogue.by_name("kv-pair")
    for lengths_q in ((0, 0), (3, 1)):
        none = replace(pair, lengths_q=lengths_q, lengths_kv=(0, 0), tail_kv=0)
        assert none.capacity_kv == 0
        require_clean(bench, none)


@pytest.mark.parametrize("name", trace.EXCERPTS)
def test_the_steps_of_a_trace_share_one_compilation(bench, name):
    steps = list(trace.steps(trace.excerpt(name), limit=STEPS))
    cases = [require_clean(bench, step.scenario()) for step in steps]
    assert len(cases) == STEPS
    assert sum(case.compiles for case in cases) <= 1
    assert len({step.totals for step in steps}) > STEPS // 2
    for before, after in itertools.pairwise(steps):
        assert before.totals != after.totals or before.requests != after.requests


@settings(max_examples=25)
@given(scenario=core_scenarios(max_flops=2_000_000))
def test_drawn_lengths_and_layouts(bench, scenario):
    require_clean(bench, scenario)


@settings(max_examples=6)
@given(scenario=scenarios(max_flops=1_000_000))
def test_drawn_declarations(bench, scenario):
    if bench.declines(scenario) is None:
        require_clean(bench, scenario)
