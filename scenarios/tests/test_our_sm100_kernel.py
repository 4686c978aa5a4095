"""Our SM100 kernel: part of the catalogue, a trace, and one call under many schedules.

The whole catalogue takes minutes, most of them in the compiler:

    sidestream check --arch sm_100a --kernel sm100 --scenario all
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
from sidestream.kernels.sm100.config import SMEM_LIMIT
from sidestream.kernels.spec import AttentionSpec
from sidestream.scenarios import catalogue, trace
from sidestream.scenarios.catalogue_wide import SHAPES, WIDE_CORE_TAG
from sidestream.scenarios.core import CORE_TAG
from sidestream.scenarios.scenario import Scenario

CORE = [scenario.name for scenario in catalogue.with_tags(CORE_TAG)]
OTHERS = ("d128-fp16", "sinks-window", "window-keyless-rows", "negative-scale")
"""One compilation each: a wide head, and what the core declaration leaves out."""
WIDE = [scenario.name for scenario in catalogue.with_tags(WIDE_CORE_TAG)]
"""Of each shape past head dim 128; and head dims that do not fill their blocks."""
BETWEEN = ("wide-d72x136", "wide-d136x40")

PLAY = Path(__file__).parents[1] / "adversary" / "play.py"
SITUATIONS = ("two-streams", "scratch-freed-in-use", "captured")
STEPS = 12

UNEQUAL = Scenario(
    name="unequal",
    description="eight sequences of very unequal lengths, some without tokens",
    dtype="bfloat16",
    head_dim=128,
    heads_q=2,
    heads_kv=1,
    causal="bottom_right",
    lse="token_major",
    lengths_q=(300, 1, 0, 129, 64, 0, 17, 128),
    lengths_kv=(300, 1, 40, 129, 257, 0, 3, 0),
)


def make_bench():
    return Bench(settings=Settings(arch="sm_100a", kernel="sm100"))


@pytest.fixture(scope="module")
def bench():
    return make_bench()


def require_clean(bench, scenario):
    outcome = run_case(bench, scenario)
    lines = [f"{f.kind}: {f.message}\n  {f.replay}" for f in outcome.findings]
    lines += [f"not judged: {entry.reason}" for entry in outcome.incomplete]
    assert outcome.case.verdict is Verdict.CLEAN, "\n".join(lines)
    return outcome.case


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


@pytest.mark.parametrize("shape", SHAPES)
def test_twenty_schedules_give_the_same_bits_at_wide_heads(bench, shape):
    lengths = (150, 1, 0, 17), (300, 1, 40, 0)
    scenario = replace(
        UNEQUAL, lengths_q=lengths[0], lengths_kv=lengths[1], **SHAPES[shape]
    )
    require_equal_bits(bench, scenario)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_stream_adversary_finds_nothing(shape):
    """Two streams, scratch that goes back to the allocator, capture of a first call."""
    dims = problem_of(catalogue.by_name(f"wide-{shape}-edges"))
    asked = [word for name in SITUATIONS for word in ("--situation", name)]
    done = run_script(
        PLAY,
        [*asked, "--head-dims", str(dims.head_dim), str(dims.head_dim_v)],
        arch="sm_100a",
        landing=Landing.parse("latest"),
        options=Options(),
        profile=None,
    )
    assert [f"{f.kind}: {f.message}" for f in done.findings] == []
    assert done.incomplete == ()
    assert len({outcome.kernel for outcome in done.outcomes}) == 2
    assert all(outcome.finished for outcome in done.outcomes)


def require_equal_bits(bench, scenario):
    run = ManySchedules(bench, scenario, Phases(origin=bench.origin, track="main"))
    outcome = run.run()
    assert len(run.runs) == len(SEEDS) + 1
    assert all(call.finished for call in run.runs)
    assert not outcome.findings, outcome.findings[0].message
    assert outcome.case.verdict is Verdict.CLEAN
    # What the launch asks for, as the configuration says, and the chip has.
    _, forward = run.asked
    config = config_of(AttentionSpec(arch="sm_100a", **scenario.declaration()))
    assert forward.block == (config.threads, 1, 1)
    assert forward.cluster == (config.cluster, 1, 1)
    asked = forward.dynamic_smem
    assert config.smem_bytes - 512 <= asked <= config.smem_bytes <= SMEM_LIMIT
