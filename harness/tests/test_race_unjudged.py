"""What the race check does not model is told of, never passed over."""

import pytest
from device_case import launch_of, line_of, text_of

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device.vgpu import run_launch
from sidestream.harness.exec.lower.families import FAMILIES
from sidestream.harness.exec.machine import Options
from sidestream.harness.race import unjudged
from sidestream.harness.race.unjudged import EFFECTLESS, MODELLED, UNMODELLED

RESTRICTED = "fence.acquire.sync_restrict::shared::cluster.cluster;\n"


def outcome_of(body, *, profile="practice"):
    table = AllocationTable()
    buffer = table.allocate(256, "values", fill=b"\0")
    launch = launch_of(text_of(body, target="sm_100a"), buffer.va)
    return run_launch(launch, table, Options(), profile=profile), launch.ptx


def test_every_operation_that_can_be_executed_is_of_one_sort():
    assert set(FAMILIES) == MODELLED | EFFECTLESS
    assert not MODELLED & EFFECTLESS
    assert all(set(row.ops) <= MODELLED for row in UNMODELLED)


def test_an_executed_instruction_without_a_model_is_named_with_its_line():
    outcome, text = outcome_of("mov.u32 %r1, 0;\n" + RESTRICTED)
    assert (outcome.findings, outcome.finished) == ((), True)
    (reason,) = outcome.incomplete
    assert RESTRICTED.strip(" ;\n") in reason.reason
    assert reason.ptx_line == line_of(text, RESTRICTED)


def test_it_counts_only_when_executed_and_only_when_races_are_looked_for():
    never = "setp.ne.u32 %p1, %r0, %r0;\n@!%p1 bra OVER;\n" + RESTRICTED + "OVER:\n"
    assert outcome_of(never)[0].incomplete == ()
    assert outcome_of(RESTRICTED, profile=None)[0].incomplete == ()


@pytest.mark.parametrize("profile", ["practice", "isa"])
def test_an_effect_may_matter_under_one_profile(profile, monkeypatch):
    row = unjudged.Unmodelled(ops=("st",), what="stores", profiles=("isa",))
    monkeypatch.setattr(unjudged, "UNMODELLED", (row,))
    outcome, _ = outcome_of("st.global.u32 [%rd0], 1;\n", profile=profile)
    told = [i.reason for i in outcome.incomplete]
    assert [("stores" in t, "st.global.u32" in t) for t in told] == (
        [(True, True)] if profile == "isa" else []
    )


def test_an_operation_of_a_family_that_nobody_classed_is_not_judged(monkeypatch):
    monkeypatch.setattr(unjudged, "MODELLED", MODELLED - {"st"})
    outcome, _ = outcome_of("st.global.u32 [%rd0], 1;\n")
    assert ["st.global.u32" in i.reason for i in outcome.incomplete] == [True]
