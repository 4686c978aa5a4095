"""Our SM100 kernel on block-scaled inputs: scenarios, schedules, streams, mistakes.

All of them: `sidestream check --arch sm_100a --scenario 'mxfp8-*'`.
"""

from dataclasses import replace

import numpy as np
import pytest
from our_runs import (
    UNEQUAL,
    make_bench,
    require_clean,
    require_equal_bits,
    require_no_race_of_streams,
    require_told,
)

from sidestream.harness.run import case as case_module
from sidestream.scenarios import catalogue
from sidestream.scenarios.bugs.block_scales import BLOCK_SCALE_MUTANTS
from sidestream.scenarios.case import CaseInputs, build
from sidestream.scenarios.catalogue_narrow import KINDS
from sidestream.scenarios.catalogue_scaled import SCALED_CORE_TAG

CORE = [scenario.name for scenario in catalogue.with_tags(SCALED_CORE_TAG)]
BESIDE = ["mxfp8-e4m3-d48x112", "mxfp8-e4m3-plain", "mxfp8-e4m3-nothing"]
"""Head dims that fill no block, many sequences, and a launch for the largest alone."""


@pytest.fixture(scope="module")
def bench():
    return make_bench()


@pytest.mark.parametrize("name", [*CORE, *BESIDE])
def test_scenarios(bench, name):
    case = require_clean(bench, catalogue.by_name(name))
    assert {"out", "amax"} <= set(case.errors)


@pytest.mark.parametrize("mutant", BLOCK_SCALE_MUTANTS, ids=lambda m: m.name)
def test_mistakes_with_scales_are_told_of(mutant):
    require_told(mutant, head_dim=128)


def test_twenty_schedules_give_the_same_bits(bench):
    """Under the order that the ISA gives alone, and memory that nobody has written."""
    scenario = replace(
        UNEQUAL,
        dtype=KINDS["e4m3"],
        block_scaled=True,
        lengths_q=(300, 1, 0, 129, 17),
        lengths_kv=(300, 1, 40, 257, 0),
    )
    run = require_equal_bits(bench, scenario)
    assert all(call.amax is not None for call in run.runs)


def test_atoms_that_are_not_there_are_not_reached_for(bench, monkeypatch):
    """Lengths that ask for more atoms than there are: wrong rows, and no access."""
    whole = CaseInputs.problem

    def short(scenario):
        made = build(scenario)
        cut = tuple(np.ascontiguousarray(held[:, :1]) for held in made.scales)
        # What the rows ought to be is known from all of them.
        monkeypatch.setattr(CaseInputs, "problem", lambda _: whole(made))
        return replace(made, scales=cut)

    monkeypatch.setattr(case_module, "build", short)
    case = case_module.run_case(bench, catalogue.by_name("mxfp8-e4m3-several-tiles"))
    assert {finding.kind for finding in case.findings} == {"parity"}
    assert case.case.checks["bounds"].status == "passed"


def test_the_stream_adversary_finds_nothing():
    """Scales too are read when the launch runs: replays have others."""
    dtype = KINDS["e4m3"]
    require_no_race_of_streams(
        "--head-dims", "128", "128", "--types", dtype, "bfloat16", "--block-scaled"
    )
