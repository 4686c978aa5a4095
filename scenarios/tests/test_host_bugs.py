"""Public bugs of host programs as scripts, each with its fixed twin."""

from pathlib import Path

import pytest

from sidestream.harness.exec.machine import Options
from sidestream.harness.run.script import run_script
from sidestream.harness.runtime import Landing

SCRIPTS = Path(__file__).parents[1] / "host_scripts"
BUGS = {
    "staging_rewritten": "stream-race",
    "result_read_early": "stream-race",
    "handed_between_streams": "allocator-race",
    "storage_let_go": "allocator-race",
    "zeroed_on_ambient": "stream-race",
}


def run(name, policy, *arguments):
    return run_script(
        SCRIPTS / f"{name}.py",
        arguments,
        arch="sm_120a",
        landing=Landing.parse(policy),
        options=Options(),
        profile=None,
    )


@pytest.mark.parametrize("policy", ["eager", "laziest", "latest", "random:5"])
@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_found_by_its_kind(name, policy):
    done = run(name, policy, "buggy")
    assert {finding.kind for finding in done.findings} == {BUGS[name]}
    assert all(name in str(finding.sites) for finding in done.findings)


@pytest.mark.parametrize("policy", ["eager", "laziest", "latest", "random:5"])
@pytest.mark.parametrize("name", [*BUGS, "captured_too_late"])
def test_the_fixed_twin_is_clean(name, policy):
    done = run(name, policy)
    assert [f"{f.kind}: {f.message}" for f in done.findings] == []
    assert done.incomplete == ()


def test_an_empty_graph_shows_in_the_values():
    done = run("captured_too_late", "round-robin", "buggy")
    assert [entry.reason.split(":")[0] for entry in done.incomplete] == [
        "the script raised AssertionError"
    ]
