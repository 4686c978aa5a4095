"""An error of the card ends in a finding of its case, and costs no other one."""

import dataclasses
import time

import pytest
from dying_card import COMPLAINT, Stray, dying, serve, standing_in
from stand_in_card import Made

from sidestream.harness.finding import Verdict
from sidestream.harness.run import card_call, card_fault, card_stalls, pool
from sidestream.harness.run.bench import Bench
from sidestream.harness.run.case import run_case
from sidestream.harness.run.settings import Settings
from sidestream.scenarios import catalogue

SETTINGS = Settings(device="cuda", arch="sm_90a")
CHECKS = {
    *("parity", "execution", "bounds", "scratch", "determinism", "host-sync"),
    *("cache", "race", "stream", "capture"),
}


@pytest.fixture
def card(monkeypatch):
    """A kind of world that stands in for the card of this process."""
    monkeypatch.setattr(card_fault, "_died", [])
    # A machine with other work makes the host late, and then a stall is repeated.
    monkeypatch.setattr(card_stalls.Started, "late", lambda *_: False)
    kind = dying()
    with standing_in(monkeypatch.setattr, kind):
        yield kind


def case_of(deed, scenario=None, bench=None, **facts):
    scenario = scenario or catalogue.by_name("two-short")
    made = Made(scenario, deed)
    vars(made).update(facts)
    bench = bench or Bench(settings=SETTINGS)
    bench.driver = made
    return run_case(bench, scenario)


def is_told(outcome):
    """The one finding on the card, where all that was not found before is open."""
    assert outcome.case.verdict is Verdict.FINDINGS, outcome.incomplete
    assert set(outcome.case.checks) == CHECKS
    [found] = [f for f in outcome.findings if f.rule.id == "device.no-error"]
    assert COMPLAINT in found.message
    assert "more lines" not in found.message
    for name, check in outcome.case.checks.items():
        if name == "execution":
            assert check.status == "failed"
        elif check.status != "failed":
            assert check.status == "not-run"
            assert COMPLAINT in check.reason
    return found


LABELS = (
    *("scratch canary", "a capture", "scratch zeros", "scratch ones"),
    *("the same call again", "even sequences changed", "odd sequences changed"),
    *("a replay with the lengths of the capture", "a call with other lengths"),
    *("a replay with other lengths", "the call's stream stalled"),
    *("the current stream stalled", "other totals"),
)
"""The calls of a case, in order."""


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("at", range(1, len(LABELS) + 1))
def test_a_context_that_dies_in_any_call_is_a_finding(card, at, at_once):
    deed = Stray(card, at, at_once=at_once)
    found = is_told(case_of(deed))
    assert card.dead, "the call was not made"
    label = LABELS[at - 1]
    assert label in found.message
    if label not in ("a capture", "other totals") and "replay" not in label:
        assert "launches seen in it: made" in found.message
    assert card_fault.death()


def test_a_case_makes_these_calls_and_no_others(card):
    deed = Stray(card, 0)
    assert case_of(deed).case.verdict is Verdict.CLEAN
    assert deed.calls == len(LABELS)


def test_memory_that_cannot_be_made_on_a_dead_context_is_a_finding(card, monkeypatch):
    arenas = []

    class Arena(card_call.Arena):
        def __init__(self, *given):
            arenas.append(None)
            if len(arenas) > 1:
                card.dead.append(None)
                raise RuntimeError(f"{COMPLAINT}\nmore lines")
            super().__init__(*given)

    monkeypatch.setattr(card_call, "Arena", Arena)
    found = is_told(case_of(lambda tensors, scratch: None))
    assert "other totals" in found.message or "a second plan" in found.message


def test_what_was_found_before_stays(card):
    deed = Stray(card, len(LABELS))

    def twice(tensors, scratch):
        tensors.out[-1] = 1.0
        deed(tensors, scratch)

    scenario = catalogue.by_name("nan-tail")
    outcome = case_of(twice, scenario)
    is_told(outcome)
    assert "stray-write" in {f.kind for f in outcome.findings}
    assert outcome.case.checks["bounds"].status == "failed"


def test_an_error_that_does_not_last_costs_no_other_case(card):
    calls = []

    def once(tensors, scratch):
        calls.append(None)
        if len(calls) == 3:
            raise RuntimeError(f"{COMPLAINT}\nmore lines")

    bench = Bench(settings=SETTINGS)
    assert "scratch zeros" in is_told(case_of(once, bench=bench)).message
    assert case_of(once, bench=bench).case.verdict is Verdict.CLEAN
    assert not card_fault.death()


def test_the_next_case_of_the_process_is_refused_in_one_line(card):
    bench = Bench(settings=SETTINGS)
    case_of(Stray(card, 3), bench=bench)
    after = case_of(lambda tensors, scratch: None, bench=bench)
    assert after.case.verdict is Verdict.INCOMPLETE
    assert after.findings == ()
    [why] = after.incomplete
    assert why.reason == (
        "SidestreamError: the CUDA context of this process died in case two-short: "
        "a new process is needed"
    )


def test_a_context_that_was_dead_before_is_told(card):
    card.dead.append(None)
    outcome = case_of(lambda tensors, scratch: None)
    assert outcome.case.verdict is Verdict.INCOMPLETE
    [why] = outcome.incomplete
    assert "died in something before case two-short" in why.reason
    assert "\n" not in why.reason


def test_the_pool_replaces_a_process_whose_context_died(monkeypatch):
    short = catalogue.by_name("two-short")
    names = ("first", "stray", "second", "third")
    cases = [dataclasses.replace(short, name=name) for name in names]
    monkeypatch.setattr(pool, "_work", serve)
    made = pool.Pool(settings=SETTINGS, jobs=1, origin=time.time())
    verdicts = {cases[at].name: one.case.verdict for at, one in made.run(cases)}
    assert verdicts.pop("stray") is Verdict.FINDINGS
    assert set(verdicts.values()) == {Verdict.CLEAN}
    assert len(verdicts) == 3
