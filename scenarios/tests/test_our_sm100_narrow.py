"""Our SM100 kernel on one-byte inputs: scenarios, many schedules, streams.

All of them: `sidestream check --arch sm_100a --scenario 'fp8-*'`.
"""

from dataclasses import replace

import pytest
from our_runs import (
    UNEQUAL,
    make_bench,
    one_byte_mutants,
    require_clean,
    require_equal_bits,
    require_no_race_of_streams,
    require_told,
)

from sidestream.scenarios import catalogue
from sidestream.scenarios.catalogue_narrow import DESCALES, KINDS, NARROW_CORE_TAG

CORE = [scenario.name for scenario in catalogue.with_tags(NARROW_CORE_TAG)]
BESIDE = [f"fp8-{kind}-{rest}" for kind in KINDS for rest in ("d48x112", "nothing")]
"""Head dims that fill no block; and a launch for the largest output alone."""
TYPES = (
    (KINDS["e4m3"], "bfloat16"),
    (KINDS["e5m2"], KINDS["e4m3"]),
)


@pytest.fixture(scope="module")
def bench():
    return make_bench()


@pytest.mark.parametrize("name", [*CORE, *BESIDE])
def test_scenarios(bench, name):
    scenario = catalogue.by_name(name)
    case = require_clean(bench, scenario)
    assert {"out", "amax"} <= set(case.errors)


@one_byte_mutants("sm_100a")
def test_mistakes_with_factors_and_the_largest_output_are_told_of(mutant):
    require_told(mutant)


@pytest.mark.parametrize(("dtype", "out_dtype"), TYPES)
def test_twenty_schedules_give_the_same_bits(bench, dtype, out_dtype):
    """Of the largest output too, which many warps take the maximum into."""
    scenario = replace(
        UNEQUAL,
        dtype=dtype,
        out_dtype=out_dtype,
        descales=DESCALES,
        scale_out=40.0 if out_dtype in KINDS.values() else None,
        lengths_q=(300, 1, 0, 129, 17),
        lengths_kv=(300, 1, 40, 257, 0),
    )
    run = require_equal_bits(bench, scenario)
    assert all(call.amax is not None for call in run.runs)


@pytest.mark.parametrize(("dtype", "out_dtype"), TYPES)
def test_the_stream_adversary_finds_nothing(dtype, out_dtype):
    """Factors too are read when the launch runs: replays have others."""
    require_no_race_of_streams("--head-dims", "128", "128", "--types", dtype, out_dtype)
