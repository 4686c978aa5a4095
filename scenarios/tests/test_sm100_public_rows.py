"""Public bugs of numbers, layout and bounds, at every shape of our SM100 kernel."""

import pytest
from public_rows import (
    far_cases_of,
    mutants_of,
    require_caught,
    require_clean,
    require_right,
    require_wrapped,
    scenarios_of,
    settings_of,
)

from sidestream.harness.run.bench import Bench

ARCH = "sm_100a"


@pytest.fixture(scope="module")
def bench():
    return Bench(settings=settings_of(ARCH))


@scenarios_of(ARCH)
def test_every_shape_is_clean(bench, scenario):
    require_clean(bench, scenario)


@mutants_of(ARCH)
def test_a_public_bug_in_our_kernel_is_caught(row, mutant):
    require_caught(row, mutant)


@far_cases_of(ARCH)
def test_rows_past_2_31_elements_are_right(case):
    require_right(ARCH, case)


@mutants_of(ARCH, overflow=True)
def test_an_offset_of_32_bits_is_caught(row, mutant):
    require_wrapped(row, mutant)
