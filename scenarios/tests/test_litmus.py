"""Every litmus twin: the broken kernel is told of, the sound one is clean."""

from functools import cache
from pathlib import Path

import pytest

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device.programs import CACHE
from sidestream.harness.device.races import RULES as RACES
from sidestream.harness.device.vgpu import run_launch, watch_launch
from sidestream.harness.exec.machine import Options
from sidestream.harness.launch import Launch
from sidestream.harness.ptx.sections import unknown
from sidestream.scenarios.litmus import GRID_TWINS, TWINS
from sidestream.scenarios.litmus.kernel import (
    GLOBAL_BYTES,
    map_of,
    text_of,
    threads_of,
)
from sidestream.scenarios.litmus.rules import ELSEWHERE, RULES, SITUATIONS, held, table
from sidestream.scenarios.litmus.statements import TMEM_STORE, WAIT_STORE
from sidestream.scenarios.litmus.twin import PROFILES, Twin

SEEDS = (0, 1, 2, 13)
ALL = {**TWINS, **GRID_TWINS}
BUDGET = 200_000


@cache
def memory():
    """One buffer for all: its address is part of what a program is lowered for."""
    table = AllocationTable()
    return table, table.allocate(GLOBAL_BYTES, "g")


def launch_of(twin, *, sound):
    _, buffer = memory()
    buffer.data[:] = 0
    return Launch(
        kernel="litmus",
        ptx=text_of(twin, sound=sound),
        grid=(twin.ctas, 1, 1),
        block=(threads_of(twin), 1, 1),
        cluster=(twin.cluster, 1, 1),
        params=(buffer.va.to_bytes(8, "little"), map_of(buffer.va)),
    )


def outcome_of(twin, *, sound, seed, profile):
    return run_launch(
        launch_of(twin, sound=sound),
        memory()[0],
        Options(
            seed=seed,
            budget=BUDGET,
            tensor_memory_check=twin.contents,
            shared_memory_check=twin.contents,
            register_check=twin.contents,
        ),
        profile=profile,
    )


def told(outcome):
    return {
        (f.kind, f.rule.id, tuple(sorted(s.operation for s in f.sites)))
        for f in outcome.findings
    }


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", TWINS)
def test_the_broken_twin_is_told_of(name, profile):
    twin = TWINS[name]
    found = twin.found if profile in twin.broken_in else ()
    expected = {(f.kind, f.rule, tuple(sorted(f.sites))) for f in found}
    for seed in SEEDS:
        outcome = outcome_of(twin, sound=False, seed=seed, profile=profile)
        assert told(outcome) == expected, (seed, outcome)
        assert outcome.incomplete == ()
        assert outcome.finished == twin.finishes


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", TWINS)
def test_the_sound_twin_is_clean(name, profile):
    twin = TWINS[name]
    if profile not in twin.clean_in:
        return
    for seed in SEEDS:
        outcome = outcome_of(twin, sound=True, seed=seed, profile=profile)
        assert outcome.findings == (), (seed, outcome)
        assert outcome.incomplete == ()
        assert outcome.finished


@pytest.mark.parametrize(
    "name", [n for n, t in TWINS.items() if t.op.startswith("fence.") and not t.broken]
)
def test_a_fence_that_orders_nothing_is_no_fence(name):
    twin = TWINS[name]
    launch = launch_of(twin, sound=True)
    instructions = CACHE.get(launch, memory()[0]).program.function.instructions
    spelt = {line.split(" ")[0].rstrip(";") for line in twin.op.splitlines()}
    weak = [i.index for i in instructions if i.spelling in spelt]
    profile = twin.broken_in[0]
    # Where others are spelt like it, without them there is no less to tell.
    told_of = told(
        watch_launch(
            launch,
            memory()[0],
            Options(
                budget=BUDGET,
                tensor_memory_check=False,
                shared_memory_check=False,
                register_check=False,
            ),
            profile=profile,
            weak=weak,
        ).outcome
    )
    assert told_of >= {(f.kind, f.rule, tuple(sorted(f.sites))) for f in twin.found}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_held_by_a_twin_or_says_why_not(rule):
    by = held(ALL, rule)
    assert bool(by.twins) != bool(ELSEWHERE.get(rule))
    assert not by.twins or by.told_as


def test_every_twin_holds_a_rule_of_the_list():
    broken = {rule for twin in ALL.values() for rule in (twin.rule, *twin.also)}
    assert broken <= set(RULES)
    # Every rule that a race can be told by: by a twin that breaks that very rule.
    named = {rule for rule in RACES if rule in held(ALL, rule).told_as}
    assert named == set(RACES)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_situation_has_its_twin(situation):
    for name in SITUATIONS[situation]:
        twin = ALL[name]
        assert situation.split(":")[0] in (twin.rule, *twin.also)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("name", "kind", "sites"),
    [
        ("wait_after_the_load", "smem-race", ("cp.async.bulk.tensor", "ld.shared")),
        (
            "barrier_before_the_store",
            "smem-race",
            ("st.shared", "cp.async.bulk.tensor"),
        ),
        ("fence_before_the_store", "proxy", ("st.shared", "cp.async.bulk.tensor")),
    ],
)
def test_what_racecheck_of_the_card_s_tools_does_not_see(name, kind, sites, profile):
    outcome = outcome_of(
        TWINS[f"staged_copy.{name}"], sound=False, seed=0, profile=profile
    )
    assert {finding.kind for finding in outcome.findings} == {kind}
    for finding in outcome.findings:
        found = sorted(site.operation for site in finding.sites)
        assert [f.startswith(s) for f, s in zip(found, sorted(sites), strict=True)] == [
            True,
            True,
        ]
        assert all(site.ptx_line for site in finding.sites)
        assert finding.need


def test_the_page_has_the_rules():
    page = (Path(__file__).parents[2] / "docs" / "races.md").read_text()
    assert table(ALL) in page


@pytest.mark.parametrize("profile", PROFILES)
def test_an_allocation_comes_after_what_was_given_back(profile):
    take = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot], 512;\n"
    know = "bar.warp.sync -1;\nld.shared.b32 %tq, [%slot];\n"
    give = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tq, 512;\n"
    use = TMEM_STORE + WAIT_STORE + give
    first = f"{take}bar.sync 1, 64;\n{know}{use}"
    second = f"bar.sync 1, 64;\nadd.u32 %slot, %slot, 8;\n{take}{know}{use}"
    twin = Twin(
        name="again",
        rule="T11",
        title="Allocation and Management",
        warps=(first, "", "", "", second),
        op="",
        found=(),
    )
    for seed in SEEDS:
        outcome = outcome_of(twin, sound=True, seed=seed, profile=profile)
        assert outcome.findings == (), (seed, outcome)
        assert outcome.finished


def test_there_are_enough_twins():
    assert len(TWINS) >= 120


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_differs_in_one_place(name):
    twin = TWINS[name]
    assert twin.op != twin.broken
    assert any("<op>" in s for s in (*twin.warps, *twin.peers, twin.setup))
    assert unknown(twin.title) == ()


@pytest.mark.parametrize("name", TWINS)
def test_watching_changes_no_byte(name):
    _, buffer = memory()
    for seed in SEEDS:
        left = []
        for profile in (None, *PROFILES):
            outcome_of(TWINS[name], sound=True, seed=seed, profile=profile)
            left.append(buffer.data.tobytes())
        assert len(set(left)) == 1
