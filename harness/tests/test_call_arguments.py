"""What a call of the program's own code was given, as far as memory depends on it."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from sidestream.harness.runtime.call_arguments import given
from sidestream.harness.runtime.program_calls import ProgramCalls


@dataclass
class Plan:
    rows: int


class Package:
    def __init__(self):
        self.state = 0

    def method(self, value, *rest, name=None):
        self.state += 1
        return given()


def function(value):
    kept = locals()
    return given(), kept


SOURCE = """
def program(call, *args, **kwargs):
    return call(*args, **kwargs)
"""


@pytest.fixture
def program():
    """A program of its own; all other files are packages'."""
    names = {}
    exec(compile(SOURCE, "program.py", "exec"), names)
    with ProgramCalls(lambda file: file != "program.py"):
        yield names["program"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 2),
        (np.zeros(3), np.zeros(4)),
        ([3, 5], [3, 6]),
        ({"q": (1, 2)}, {"q": (1, 3)}),
        (Plan(1), Plan(2)),
    ],
)
def test_calls_differ_by_what_they_are_given(program, one, other):
    call = Package().method
    seen = program(call, one)
    assert seen
    assert program(call, one) == seen
    assert program(call, other) != seen
    assert program(call, 0, one) != program(call, 0, other)
    assert program(call, 0, name=one) != program(call, 0, name=other)


def test_only_extents_of_arrays_count_and_nothing_of_other_objects(program):
    call = Package().method
    assert program(call, np.zeros(3)) == program(call, np.ones(3))
    assert program(call, Package()) == program(call, Package())


def test_integers_of_an_array_may_be_lengths(program):
    call, lengths = Package().method, torch.tensor([3, 5])
    before = program(call, lengths)
    assert program(call, lengths) == before
    assert program(call, lengths.clone()) != before
    lengths[0] = 4
    assert program(call, lengths) != before
    counts = np.array([3, 5])
    assert program(call, counts) != program(call, counts)


def test_a_function_that_shows_its_locals_keeps_them(program):
    seen, kept = program(function, 3)
    assert seen == ()
    assert kept == {"value": 3}


def test_outside_of_the_program_nothing_is_given():
    assert given() == ()
