"""Our SM120 kernel at head dims past 128: catalogue, schedules, adversary.

All of them: `sidestream check --arch sm_120a --scenario 'wide-d256-*'`, and so on.
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

from sidestream.harness.run.problem import problem_of
from sidestream.kernels.plan import config_of
from sidestream.kernels.sm120.config import SMEM_LIMIT
from sidestream.kernels.spec import AttentionSpec
from sidestream.scenarios import catalogue
from sidestream.scenarios.catalogue_wide import SHAPES, WIDE, WIDE_CORE_TAG

ARCH = "sm_120a"
SERVED = ("d192x128", "d256")
BETWEEN = ("wide-d72x136", "wide-d136x40", "wide-d200x72", "wide-d8x200")
NAMES = [
    *(s.name for s in WIDE if WIDE_CORE_TAG in s.tags and set(SERVED) & set(s.tags)),
    *(f"wide-{shape}-{rest}" for shape in SERVED for rest in ("band", "plain")),
    *BETWEEN,
]


@pytest.fixture(scope="module")
def bench():
    return make_bench(ARCH)


@pytest.mark.parametrize("name", NAMES)
def test_wide_scenarios(bench, name):
    require_clean(bench, catalogue.by_name(name))


def test_what_is_wider_is_declined_with_a_reason(bench):
    for scenario in WIDE:
        wider = max(scenario.head_dim, scenario.width_v) > 256
        assert (bench.declines(scenario) is not None) == wider, scenario.name


@pytest.mark.parametrize("rows", [128, 16])
@pytest.mark.parametrize("shape", SERVED)
def test_twenty_schedules_give_the_same_bits(bench, shape, rows):
    """With one stage and 128 rows, and with two stages and 16."""
    few = (150, 1, 0, 17) if rows == 128 else (16, 1, 0, 7)
    facts = {"lengths_q": few, "lengths_kv": (200, 1, 40, 0)}
    scenario = replace(UNEQUAL, **(SHAPES[shape] | facts))
    _, forward = require_equal_bits(bench, scenario).asked
    config = config_of(AttentionSpec(arch=ARCH, **scenario.declaration()))
    assert config.tile_m == rows
    assert config.stages == (1 if rows == 128 else 2)
    asked = forward.dynamic_smem
    assert config.smem_bytes - 256 <= asked <= config.smem_bytes <= SMEM_LIMIT


@pytest.mark.parametrize("shape", SERVED)
def test_the_stream_adversary_finds_nothing(shape):
    dims = problem_of(catalogue.by_name(f"wide-{shape}-edges"))
    require_no_race_of_streams(
        *("--head-dims", str(dims.head_dim), str(dims.head_dim_v)), arch=ARCH
    )
