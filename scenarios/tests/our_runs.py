"""Calls of our kernels, and what has to be true of them."""

from dataclasses import replace
from pathlib import Path

import pytest
from many_schedules import SEEDS, ManySchedules

from sidestream.harness.drivers.ours import Sidestream
from sidestream.harness.dsl.chip import CHIPS
from sidestream.harness.exec.machine import Options
from sidestream.harness.finding import Verdict
from sidestream.harness.run.bench import Bench
from sidestream.harness.run.case import run_case
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.script import run_script
from sidestream.harness.run.settings import Settings
from sidestream.harness.runtime import Landing
from sidestream.kernels.plan import config_of
from sidestream.kernels.spec import AttentionSpec
from sidestream.scenarios import catalogue
from sidestream.scenarios.bugs.one_byte import ONE_BYTE_MUTANTS
from sidestream.scenarios.bugs.seed import adapter_with
from sidestream.scenarios.scenario import Scenario

PLAY = Path(__file__).parents[1] / "adversary" / "play.py"
SITUATIONS = ("two-streams", "scratch-freed-in-use", "captured")
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


BUDGET = 20_000_000
"""Warp instructions: a mutant may end in a loop without end."""


def make_bench(arch="sm_100a"):
    kernel = "sm100" if arch == "sm_100a" else "sm120"
    return Bench(settings=Settings(arch=arch, kernel=kernel))


def require_clean(bench, scenario):
    outcome = run_case(bench, scenario)
    lines = [f"{f.kind}: {f.message}\n  {f.replay}" for f in outcome.findings]
    lines += [f"not judged: {entry.reason}" for entry in outcome.incomplete]
    assert outcome.case.verdict is Verdict.CLEAN, "\n".join(lines)
    return outcome.case


def one_byte_mutants(arch):
    """One parameter for each mutant of a target."""
    chosen = [mutant for mutant in ONE_BYTE_MUTANTS if mutant.arch == arch]
    return pytest.mark.parametrize("mutant", chosen, ids=lambda m: m.name)


def require_told(mutant, head_dim=16):
    """The mutant's check fails and says so; the narrowest head dim compiles fast."""
    driver = Sidestream(adapter_with(f"{mutant.name} {mutant.arch}", mutant.edits))
    settings = replace(make_bench(mutant.arch).settings, budget=BUDGET, races=False)
    scenario = replace(catalogue.by_name(mutant.scenario), head_dim=head_dim)
    outcome = run_case(Bench(settings=settings, driver=driver), scenario)
    assert outcome.case.checks[mutant.check].status == "failed", outcome.case.checks
    assert outcome.case.verdict is Verdict.FINDINGS
    assert any(mutant.said in f.message for f in outcome.findings)


def require_no_race_of_streams(*arguments, arch="sm_100a"):
    """Two streams, scratch that goes back to the allocator, capture of a first call."""
    asked = [word for name in SITUATIONS for word in ("--situation", name)]
    done = run_script(
        PLAY,
        [*asked, *arguments],
        arch=arch,
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
    arch = bench.settings.arch
    config = config_of(AttentionSpec(arch=arch, **scenario.declaration()))
    assert forward.block == (config.threads, 1, 1)
    assert forward.cluster == (config.cluster, 1, 1)
    asked = forward.dynamic_smem
    assert config.smem_bytes - 512 <= asked <= config.smem_bytes
    assert asked <= CHIPS[arch].smem_per_block
    return run
