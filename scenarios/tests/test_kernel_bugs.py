"""Every rebuilt bug of a public kernel is told of, and its fixed twin is clean."""

from functools import cache

import numpy as np
import pytest

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device.vgpu import run_launch
from sidestream.harness.exec.machine import Options
from sidestream.harness.exec.schedule import Schedule
from sidestream.harness.launch import Launch
from sidestream.scenarios.bugs.kernels import KERNEL_BUGS
from sidestream.scenarios.litmus.kernel import GLOBAL_BYTES, map_of
from sidestream.scenarios.litmus.twin import PROFILES

BUDGET = 200_000
CLASSES = {"smem-race", "async-proxy", "mbarrier/deadlock", "tmem", "scheduler"}
all_bugs = pytest.mark.parametrize("bug", KERNEL_BUGS, ids=lambda bug: bug.name)


@cache
def memory():
    """One buffer for all: its address is part of what a program is lowered for."""
    table = AllocationTable()
    return table, table.allocate(GLOBAL_BYTES, "g")


def outcomes_of(bug, *, fixed, profile, words=()):
    """One outcome a schedule, with other words in memory if some are given."""
    table, buffer = memory()
    kernel = bug.kernel(fixed=fixed)
    launch = Launch(
        kernel="litmus",
        ptx=kernel.text(),
        grid=(kernel.ctas, 1, 1),
        block=(kernel.threads(), 1, 1),
        cluster=(kernel.cluster, 1, 1),
        params=(buffer.va.to_bytes(8, "little"), map_of(buffer.va)),
    )
    for schedule in bug.schedules:
        held = words or kernel.memory
        buffer.data[:] = 0
        buffer.data.view(np.uint32)[: len(held)] = held
        options = Options(budget=BUDGET).scheduled(Schedule.parse(schedule))
        outcome = run_launch(launch, table, options, profile=profile)
        assert outcome.incomplete == (), (schedule, outcome)
        yield schedule, outcome


def told(outcome):
    """Findings by kind, rule and operations; how many warps wait does not matter."""
    return {
        (f.kind, f.rule.id, frozenset(s.operation for s in f.sites))
        for f in outcome.findings
    }


def expected(found):
    return {(f.kind, f.rule, frozenset(f.sites)) for f in found}


@pytest.mark.parametrize("profile", PROFILES)
@all_bugs
def test_the_bug_is_told_of(bug, profile):
    wanted, possible = expected(bug.found), expected(bug.found + bug.also)
    shown = 0
    for schedule, outcome in outcomes_of(bug, fixed=False, profile=profile):
        if profile not in bug.profiles:
            assert told(outcome) == set(), schedule
            assert not bug.relaxed or outcome.relaxed[bug.relaxed], schedule
            continue
        assert told(outcome) <= possible, schedule
        shown += wanted <= told(outcome)
        assert shown or not bug.always, schedule
        for finding in outcome.findings:
            assert finding.need
            assert all(site.ptx_line for site in finding.sites)
    assert shown or profile not in bug.profiles


@pytest.mark.parametrize("profile", PROFILES)
@all_bugs
def test_the_fixed_twin_is_clean(bug, profile):
    for schedule, outcome in outcomes_of(bug, fixed=True, profile=profile):
        assert outcome.findings == (), schedule
        assert outcome.finished, schedule


@pytest.mark.parametrize(
    "bug", [bug for bug in KERNEL_BUGS if bug.spared], ids=lambda bug: bug.name
)
def test_only_the_input_of_the_report_shows_it(bug):
    seen = outcomes_of(bug, fixed=False, profile="practice", words=bug.spared)
    for schedule, outcome in seen:
        assert outcome.findings == (), schedule
        assert outcome.finished, schedule


def test_the_index_has_twelve_of_all_classes():
    assert len({bug.issue for bug in KERNEL_BUGS}) == len(KERNEL_BUGS) >= 12
    assert {bug.bug_class for bug in KERNEL_BUGS} == CLASSES
    assert all("#" in bug.issue and bug.wrong and bug.fix for bug in KERNEL_BUGS)


@all_bugs
def test_bug_and_twin_are_different_kernels(bug):
    assert bug.kernel(fixed=False) != bug.kernel(fixed=True)


@all_bugs
def test_the_file_cites_the_public_bug(bug):
    module = __import__(bug.kernel.__module__, fromlist=["__doc__"])
    assert module.__doc__
    assert module.__doc__.startswith(f"{bug.issue}: ")
