"""Ordinary torch programs: right and clean, and found where a wait is missing."""

from pathlib import Path

import pytest

from sidestream.harness.exec.machine import Options
from sidestream.harness.run.script import run_script
from sidestream.harness.runtime import Landing

SCRIPTS = Path(__file__).parents[1] / "host_scripts"
PROGRAMS = (
    *("prefetching", "captured_training_step", "accumulated_gradients"),
    *("two_stream_pipeline", "metrics_read_back", "trained_network"),
    *("custom_function", "masks_and_indices", "views_in_place"),
    *("exchanged_arrays", "timed_events"),
)
POLICIES = ("eager", "laziest", "latest", "round-robin", "random:3")


def run(name, policy, *arguments):
    return run_script(
        SCRIPTS / f"{name}.py",
        arguments,
        arch="sm_120a",
        landing=Landing.parse(policy),
        options=Options(),
        profile=None,
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_to_the_values_of_the_cpu(name, policy):
    done = run(name, policy)
    assert [f"{f.kind}: {f.message}" for f in done.findings] == []
    assert done.incomplete == ()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_missing_wait_is_found(name, policy):
    done = run(name, policy, "planted")
    assert {finding.kind for finding in done.findings} == {"stream-race"}
    assert all(name in str(finding.sites) for finding in done.findings)
