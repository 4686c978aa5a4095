"""Our SM120 kernel at head dims past 128: catalogue, schedules, adversary.

All of them: `sidestream check --arch sm_120a --scenario 'wide-d256-*'`, and so on.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from many_schedules import SEEDS, ManySchedules

from sidestream.harness.exec.machine import Options
from sidestream.harness.finding import Verdict
from sidestream.harness.run.bench import Bench
from sidestream.harness.run.case import run_case
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.problem import problem_of
from sidestream.harness.run.script import run_script
from sidestream.harness.run.settings import Settings
from sidestream.harness.runtime import Landing
from sidestream.kernels.plan import config_of
from sidestream.kernels.sm120.config import SMEM_LIMIT
from sidestream.kernels.spec import AttentionSpec
from sidestream.scenarios import catalogue
from sidestream.scenarios.catalogue_wide import SHAPES, WIDE, WIDE_CORE_TAG
from sidestream.scenarios.scenario import Scenario

ARCH = "sm_120a"
SERVED = ("d192x128", "d256")
BETWEEN = ("wide-d72x136", "wide-d136x40", "wide-d200x72", "wide-d8x200")
NAMES = [
    *(s.name for s in WIDE if WIDE_CORE_TAG in s.tags and set(SERVED) & set(s.tags)),
    *(f"wide-{shape}-{rest}" for shape in SERVED for rest in ("band", "plain")),
    *BETWEEN,
]

PLAY = Path(__file__).parents[1] / "adversary" / "play.py"
SITUATIONS = ("two-streams", "scratch-freed-in-use", "captured")

UNEQUAL = Scenario(
    name="unequal",
    description="sequences of very unequal lengths, some without tokens",
    dtype="bfloat16",
    head_dim=128,
    heads_q=2,
    heads_kv=1,
    causal="bottom_right",
    lse="token_major",
    lengths_q=(150, 1, 0, 17),
    lengths_kv=(200, 1, 40, 0),
)


@pytest.fixture(scope="module")
def bench():
    return Bench(settings=Settings(arch=ARCH))


@pytest.mark.parametrize("name", NAMES)
def test_wide_scenarios(bench, name):
    outcome = run_case(bench, catalogue.by_name(name))
    lines = [f"{f.kind}: {f.message}\n  {f.replay}" for f in outcome.findings]
    lines += [f"not judged: {entry.reason}" for entry in outcome.incomplete]
    assert outcome.case.verdict is Verdict.CLEAN, "\n".join(lines)


def test_what_is_wider_is_declined_with_a_reason(bench):
    for scenario in WIDE:
        wider = max(scenario.head_dim, scenario.width_v) > 256
        assert (bench.declines(scenario) is not None) == wider, scenario.name


@pytest.mark.parametrize("rows", [128, 16])
@pytest.mark.parametrize("shape", SERVED)
def test_twenty_schedules_give_the_same_bits(bench, shape, rows):
    """With one stage and 128 rows, and with two stages and 16."""
    scenario = replace(UNEQUAL, **SHAPES[shape])
    if rows == 16:
        scenario = replace(scenario, lengths_q=(16, 1, 0, 7))
    run = ManySchedules(bench, scenario, Phases(origin=bench.origin, track="main"))
    outcome = run.run()
    assert len(run.runs) == len(SEEDS) + 1
    assert all(call.finished for call in run.runs)
    assert not outcome.findings, outcome.findings[0].message
    assert outcome.case.verdict is Verdict.CLEAN
    # What the launch asks for, as the configuration says, and the chip has.
    _, forward = run.asked
    config = config_of(AttentionSpec(arch=ARCH, **scenario.declaration()))
    assert config.tile_m == rows
    assert config.stages == (1 if rows == 128 else 2)
    assert forward.block == (config.threads, 1, 1)
    asked = forward.dynamic_smem
    assert config.smem_bytes - 256 <= asked <= config.smem_bytes <= SMEM_LIMIT


@pytest.mark.parametrize("shape", SERVED)
def test_the_stream_adversary_finds_nothing(shape):
    """Two streams, scratch that goes back to the allocator, capture of a first call."""
    dims = problem_of(catalogue.by_name(f"wide-{shape}-edges"))
    asked = [word for name in SITUATIONS for word in ("--situation", name)]
    done = run_script(
        PLAY,
        [*asked, "--head-dims", str(dims.head_dim), str(dims.head_dim_v)],
        arch=ARCH,
        landing=Landing.parse("latest"),
        options=Options(),
        profile=None,
    )
    assert [f"{f.kind}: {f.message}" for f in done.findings] == []
    assert done.incomplete == ()
    assert len({outcome.kernel for outcome in done.outcomes}) == 2
    assert all(outcome.finished for outcome in done.outcomes)
