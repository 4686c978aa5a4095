"""Every pair of launches: the broken one is told of, the sound one is clean."""

from dataclasses import replace
from functools import cache

import pytest

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device.in_order import InOrder, run_dependent
from sidestream.harness.exec.machine import Options
from sidestream.harness.launch import Launch
from sidestream.harness.ptx.sections import unknown
from sidestream.scenarios.litmus import GRID_TWINS
from sidestream.scenarios.litmus.kernel import (
    GLOBAL_BYTES,
    map_of,
    text_of,
    threads_of,
)
from sidestream.scenarios.litmus.twin import PROFILES, GridTwin

SEEDS = (0, 1, 2, 3)
GO, WAIT = "griddepcontrol.launch_dependents;\n", "griddepcontrol.wait;\n"
STORE, LOAD = "st.global.b32 [%gl], 1;\n", "ld.global.b32 %r1, [%gl];\n"


@cache
def memory():
    table = AllocationTable()
    return table, table.allocate(GLOBAL_BYTES, "g")


def launches_of(twin, *, sound):
    _, buffer = memory()
    return [
        Launch(
            kernel="litmus",
            ptx=text_of(grid, sound=sound),
            grid=(1, 1, 1),
            block=(threads_of(grid), 1, 1),
            params=(buffer.va.to_bytes(8, "little"), map_of(buffer.va)),
            pdl=twin.dependent and number > 0,
        )
        for number, grid in enumerate(twin.grids())
    ]


def outcomes_of(launches, *, seed, profile):
    table, buffer = memory()
    buffer.data[:] = 0
    options = Options(
        seed=seed, budget=100_000, shared_memory_check=False, register_check=False
    )
    with InOrder(table=table, profile=profile) as order:
        for launch in launches:
            order.run(launch, options)
        return tuple(order.outcomes)


def told(outcomes):
    return {
        (f.kind, f.rule.id, tuple(sorted(s.operation for s in f.sites)))
        for outcome in outcomes
        for f in outcome.findings
    }


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", GRID_TWINS)
def test_the_broken_launches_are_told_of_and_the_sound_ones_clean(name, profile):
    twin = GRID_TWINS[name]
    expected = {(f.kind, f.rule, tuple(sorted(f.sites))) for f in twin.found}
    for sound in (False, True):
        launches = launches_of(twin, sound=sound)
        for seed in SEEDS:
            outcomes = outcomes_of(launches, seed=seed, profile=profile)
            assert told(outcomes) == (set() if sound else expected), (seed, outcomes)
            assert [o.finished for o in outcomes] == [True, True]
            assert not any(o.incomplete for o in outcomes)


@pytest.mark.parametrize("name", GRID_TWINS)
def test_a_pair_of_launches_cites_a_section(name):
    assert unknown(GRID_TWINS[name].title) == ()


def grids(*bodies):
    """One launch a body, each but the first a dependent of the one before."""
    made = []
    for body in bodies:
        twin = GridTwin(
            name="", rule="", title="", first=(body,), second=("",), op="", found=()
        )
        made.append(replace(launches_of(twin, sound=True)[0], pdl=bool(made)))
    return made


def races_of(launches, seed=1):
    return told(outcomes_of(launches, seed=seed, profile="practice"))


def test_a_launch_without_the_attribute_needs_no_wait():
    first, second = grids(GO + STORE, LOAD)
    assert len(races_of([first, second])) == 1
    assert races_of([first, replace(second, pdl=False)]) == set()


def test_launches_of_different_streams_are_not_judged_by_this_rule():
    first, second = grids(GO + STORE, LOAD)
    assert races_of([first, replace(second, stream=7)]) == set()


@pytest.mark.parametrize(
    ("middle", "found"),
    [
        # The third grid may start while the first one runs, unless the second waits.
        (GO, 1),
        (GO + WAIT, 1),
        (WAIT + GO, 0),
        ("", 1),
        (WAIT, 0),
    ],
)
def test_a_grid_waits_for_those_before_its_predecessor(middle, found):
    assert len(races_of(grids(GO + STORE, middle, LOAD))) == found
    assert races_of(grids(GO + STORE, middle, WAIT + LOAD)) == set()


def test_findings_name_both_kernels_and_what_is_missing():
    outcomes = outcomes_of(grids(GO + STORE, LOAD), seed=0, profile="practice")
    assert outcomes[0].findings == ()
    (finding,) = outcomes[1].findings
    assert [s.agent.split(",")[0] for s in finding.sites] == [
        "launch litmus",
        "later launch litmus",
    ]
    assert all(site.ptx_line for site in finding.sites)
    assert "griddepcontrol.wait" in finding.need
    assert "bytes" in finding.message or "byte" in finding.message


def test_grids_that_hand_over_in_flight_are_not_judged():
    flag = "st.release.gpu.global.b32 [%g+1024], 1;\n"
    see = "$W: ld.acquire.gpu.global.b32 %r1, [%g+1024];\nsetp.ne.u32 %p1, %r1, 1;\n"
    see += "@%p1 bra $W;\n"
    for seed in SEEDS:
        launches = grids(GO + STORE + "bar.warp.sync -1;\n" + flag, see + LOAD)
        outcomes = outcomes_of(launches, seed=seed, profile="practice")
        assert told(outcomes) == set()
        assert ["while both run" in i.reason for i in outcomes[1].incomplete] == [True]


def test_what_a_dependent_reads_early_depends_on_the_schedule():
    """One after the other or overlapping: values differ, the finding does not."""
    _, buffer = memory()
    copy = "ld.global.b32 %r1, [%gl];\nst.global.b32 [%gl+2048], %r1;\n"
    idle = "nanosleep.u32 1;\n" * 40
    launches = grids(GO + idle + STORE, copy)
    seen = set()
    for seed in range(8):
        outcomes = outcomes_of(launches, seed=seed, profile="practice")
        assert len(outcomes[1].findings) == 1
        seen.add(bytes(buffer.data[2048:2052]))
    assert len(seen) == 2


def test_host_work_in_between_keeps_launches_apart():
    table, buffer = memory()
    first, second = grids(GO + STORE, "ld.global.b32 %r1, [%gl];\n")
    buffer.data[:] = 0
    with InOrder(table=table) as order:
        order.run(first, Options(seed=5))
        assert bytes(buffer.data[:4]) == b"\1\0\0\0"
        buffer.data[:4] = 9
        order.run(second, Options(seed=5))
        assert bytes(buffer.data[:4]) == b"\t\t\t\t"
    assert [o.finished for o in order.outcomes] == [True, True]


def test_run_dependent_judges_too():
    table, _ = memory()
    launches = grids(GO + STORE, LOAD)
    outcomes = run_dependent(launches, table, Options(seed=2), profile="isa")
    assert [f.rule.id for f in outcomes[1].findings] == ["B7"]
    assert run_dependent(launches, table, Options(seed=2))[1].findings == ()


def test_watching_changes_no_byte():
    _, buffer = memory()
    for name, twin in GRID_TWINS.items():
        for seed in SEEDS:
            left = set()
            for profile in (None, *PROFILES):
                outcomes_of(launches_of(twin, sound=True), seed=seed, profile=profile)
                left.add(buffer.data.tobytes())
            assert len(left) == 1, (name, seed)
