"""Public bugs of numbers, layout and bounds, at every shape of our SM100 kernel."""

import pytest
from public_rows import (
    mutants_of,
    require_caught,
    require_clean,
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
