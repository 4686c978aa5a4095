"""Our SM120 kernel on one-byte inputs: scenarios, many schedules, streams.

All of them: `sidestream check --arch sm_120a --scenario 'fp8-*'`.
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
from sidestream.scenarios.catalogue_wide import SHAPES
from sidestream.scenarios.scenario import Scenario

ARCH = "sm_120a"
CORE = [scenario.name for scenario in catalogue.with_tags(NARROW_CORE_TAG)]
BESIDE = [f"fp8-{kind}-{rest}" for kind in KINDS for rest in ("d16", "nothing")]
"""A single unit of columns; and a launch for the largest output alone."""
TYPES = ((KINDS["e4m3"], "bfloat16"), (KINDS["e5m2"], KINDS["e4m3"]))
WIDE = Scenario(
    name="wide",
    description="Rows of O that leave shared memory in turns, the last one partly full",
    dtype=KINDS["e4m3"],
    out_dtype="float16",
    head_dim=208,
    head_dim_v=176,
    heads_q=2,
    heads_kv=1,
    descales=DESCALES,
    causal="bottom_right",
    window_left=70,
    lse="head_major",
    lengths_q=(150, 1, 0, 33),
    lengths_kv=(300, 1, 40, 17),
    tail_kv=70,
)


@pytest.fixture(scope="module")
def bench():
    return make_bench(ARCH)


@pytest.mark.parametrize("name", [*CORE, *BESIDE])
def test_scenarios(bench, name):
    case = require_clean(bench, catalogue.by_name(name))
    assert {"out", "amax"} <= set(case.errors)


@one_byte_mutants(ARCH)
def test_mistakes_with_factors_and_the_largest_output_are_told_of(mutant):
    require_told(mutant)


@pytest.mark.parametrize(
    ("head_dims", "rows", "out_dtype"),
    [
        ((208, 176), 128, "float16"),
        ((64, 144), 64, "float16"),
        ((256, 256), 16, "float8_e5m2"),
        ((80, 48), 128, "float8_e5m2"),
    ],
)
def test_other_head_dims(bench, head_dims, rows, out_dtype):
    scenario = replace(
        WIDE,
        head_dim=head_dims[0],
        head_dim_v=head_dims[1],
        out_dtype=out_dtype,
        scale_out=3.0 if out_dtype == "float8_e5m2" else None,
        lengths_q=(150 if rows == 128 else rows, 1, 0, min(rows, 33)),
    )
    require_clean(bench, scenario)


@pytest.mark.parametrize("shape", ["d192x128", "d256"])
def test_twenty_schedules_give_the_same_bits_at_wide_heads(bench, shape):
    require_equal_bits(bench, narrowed(*TYPES[0], **SHAPES[shape]))


@pytest.mark.parametrize("lengths_q", [(150, 1, 0, 17), (16, 1, 0, 7)])
@pytest.mark.parametrize(("dtype", "out_dtype"), TYPES)
def test_twenty_schedules_give_the_same_bits(bench, lengths_q, dtype, out_dtype):
    """Of the largest output too, which many warps take the maximum into."""
    run = require_equal_bits(bench, narrowed(dtype, out_dtype, lengths_q=lengths_q))
    assert all(call.amax is not None for call in run.runs)


@pytest.mark.parametrize(("dtype", "out_dtype"), TYPES)
def test_the_stream_adversary_finds_nothing(dtype, out_dtype):
    """Factors too are read when the launch runs: replays have others."""
    require_no_race_of_streams(
        *("--head-dims", "128", "128", "--types", dtype, out_dtype), arch=ARCH
    )


def narrowed(dtype, out_dtype, **facts):
    few = {"lengths_q": (150, 1, 0, 17), "lengths_kv": (200, 1, 40, 0)}
    return replace(
        UNEQUAL,
        dtype=dtype,
        out_dtype=out_dtype,
        descales=DESCALES,
        scale_out=40.0 if out_dtype in KINDS.values() else None,
        **(few | facts),
    )
