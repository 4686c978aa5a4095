"""Wide head dims and one-byte types: the bits of the card, in a live run and recorded.

The catalogue's own scenarios are in `test_card_catalogue.py`, bit by bit.
"""

from __future__ import annotations

import fnmatch
import json
import os
from pathlib import Path

import card_digests
import pytest
from card_record import about, card_missing

from sidestream.harness.drivers.registry import driver as load_driver
from sidestream.harness.exec.machine import Options
from sidestream.harness.run.card_call import CardCall
from sidestream.harness.run.card_world import current_world
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.problem import problem_of
from sidestream.scenarios.case import build

SCENARIOS = card_digests.served(load_driver("sidestream"))
FAMILIES = sorted({card_digests.family(scenario) for scenario in SCENARIOS})


def test_the_record_holds_every_scenario_that_is_served():
    record = json.loads(card_digests.RECORD.read_text())
    assert record["about"]["capability"] == [9, 0]
    assert set(record["scenarios"]) == {
        scenario.name for scenario in SCENARIOS if not card_digests.came_later(scenario)
    }
    assert len(record["scenarios"]) >= 200


def test_what_came_later_is_named_and_no_more():
    """Every pattern stands for something that is served and has no record."""
    for pattern in card_digests.LATER:
        names = fnmatch.filter([scenario.name for scenario in SCENARIOS], pattern)
        assert names
        assert not set(names) & set(card_digests.recorded())


@pytest.mark.hardware
@pytest.mark.skipif(card_missing() is not None, reason=str(card_missing()))
@pytest.mark.parametrize("family", FAMILIES)
def test_the_card_gives_the_recorded_bits(family):
    driver, found = load_driver("sidestream"), {}
    for scenario in SCENARIOS:
        if card_digests.family(scenario) != family:
            continue
        world, inputs = current_world(side=False), build(scenario)
        prepared = driver.prepare(problem_of(scenario), world)
        call = CardCall(
            world,
            inputs,
            workspace_bytes=prepared.workspace_bytes,
            phases=Phases(origin=0.0, track=""),
        )
        run = call.execute(prepared, label="card", pattern="zeros", options=Options)
        assert run.finished
        assert run.error is None
        found[scenario.name] = card_digests.digests(run, inputs.live)
    target = os.environ.get("SIDESTREAM_RECORD_DIGESTS")
    if target:
        written = json.dumps({"about": about(), "scenarios": found})
        (Path(target) / f"{family}.json").write_text(written)
    else:
        recorded = card_digests.recorded()
        kept = {name: found[name] for name in found if name in recorded}
        assert kept == {name: recorded[name] for name in kept}
