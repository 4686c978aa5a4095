"""Our kernels under the stream adversary: clean as it is, found where it is planted."""

from pathlib import Path

import pytest

from sidestream.harness.exec.machine import Options
from sidestream.harness.run.script import run_script
from sidestream.harness.runtime import Landing
from sidestream.scenarios.adversary.situations import SITUATIONS

PLAY = Path(__file__).parents[1] / "adversary" / "play.py"


def play(name, policy, *more):
    return run_script(
        PLAY,
        ["--situation", name, *more],
        arch="sm_120a",
        landing=Landing.parse(policy),
        options=Options(),
        profile=None,
    )


@pytest.mark.parametrize("policy", ["latest", "round-robin"])
@pytest.mark.parametrize("name", SITUATIONS)
def test_our_kernels_come_through(name, policy):
    done = play(name, policy)
    assert [f"{f.kind}: {f.message}" for f in done.findings] == []
    assert done.incomplete == ()
    assert done.outcomes
    assert all(outcome.finished for outcome in done.outcomes)


@pytest.mark.parametrize("policy", ["latest", "eager"])
@pytest.mark.parametrize("name", SITUATIONS)
def test_what_the_caller_leaves_out_is_found(name, policy):
    """Whatever lands when; with `eager` the values are right all the same."""
    done = play(name, policy, "--planted")
    kind = "allocator-race" if name == "scratch-freed-in-use" else "stream-race"
    assert {finding.kind for finding in done.findings} == {kind}
    assert all(finding.need for finding in done.findings)


def test_a_race_shows_in_the_values_when_the_late_one_lands_first():
    done = play("current-differs", "latest", "--planted")
    (reason,) = (entry.reason for entry in done.incomplete)
    assert "WrongResultError" in reason


def test_the_first_execute_is_captured_and_the_graph_is_not_empty():
    done = play("captured", "laziest")
    kernels = {outcome.kernel for outcome in done.outcomes}
    assert len(done.outcomes) == 3 * len(kernels)
