"""Bounds that another process computes are those that are computed here."""

import dataclasses

import numpy as np
import pytest

from sidestream.harness.run.limits import limits
from sidestream.harness.run.reference_beside import Beside, cores_for
from sidestream.reference.narrow import by_name
from sidestream.reference.tolerance import Arithmetic
from sidestream.scenarios import catalogue
from sidestream.scenarios.case import build

SCENARIO = catalogue.by_name("two-short")
OTHER = catalogue.by_name("tile-edges")
MODEL = Arithmetic(dtype=by_name("bfloat16"))


@pytest.fixture
def beside():
    process = Beside()
    yield process
    process.close()


def equal(bounds, scenario):
    here, _ = limits(build(scenario), MODEL)
    assert here is not None
    for field in dataclasses.fields(here):
        one, two = getattr(bounds, field.name), getattr(here, field.name)
        if field.name == "reference":
            one, two = one.out, two.out
        np.testing.assert_array_equal(one, two)


def test_the_bounds_are_those_computed_here(beside):
    bounds, why = beside.ask(SCENARIO, MODEL).answer()
    assert why == ""
    equal(bounds, SCENARIO)


def test_an_answer_that_nobody_fetched_is_passed_over(beside):
    for seed in range(5):  # more than a connection holds
        beside.ask(dataclasses.replace(OTHER, seed=seed), MODEL)
    asked = beside.ask(SCENARIO, MODEL)
    bounds, _ = asked.answer()
    equal(bounds, SCENARIO)


def test_what_is_asked_ahead_is_computed_once(beside):
    first = beside.ask(SCENARIO, MODEL)
    ahead = beside.ask(OTHER, MODEL)
    equal(first.answer()[0], SCENARIO)
    again = beside.ask(OTHER, MODEL)
    assert again.number == ahead.number
    equal(again.answer()[0], OTHER)
    anew = beside.ask(OTHER, MODEL)
    assert anew.number > ahead.number
    equal(anew.answer()[0], OTHER)


def test_what_was_passed_over_is_computed_again(beside):
    beside.ask(OTHER, MODEL)
    equal(beside.ask(SCENARIO, MODEL).answer()[0], SCENARIO)
    equal(beside.ask(OTHER, MODEL).answer()[0], OTHER)


def test_why_there_are_no_bounds_is_told(beside):
    vast = dataclasses.replace(SCENARIO, scale=1e4)
    assert limits(build(vast), MODEL)[0] is None
    assert beside.ask(vast, MODEL).answer() == limits(build(vast), MODEL)


def test_a_process_that_died_answers_nothing_and_is_not_asked_again(beside):
    beside._process.kill()
    beside._process.wait()
    asked = beside.ask(SCENARIO, MODEL)
    assert asked.answer() is None
    assert beside.ask(SCENARIO, MODEL).answer() is None


def test_it_ends_when_nobody_can_ask_any_more(beside):
    process = beside._process
    beside._connection.close()
    beside._connection = None
    assert process.wait(30) == 0


def test_a_process_has_a_second_core_or_not(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)))
    assert cores_for(8)
    assert not cores_for(9)
