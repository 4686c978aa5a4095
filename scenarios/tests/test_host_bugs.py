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
    "metadata_on_current": "stream-race",
    "launched_on_default": "stream-race",
    "copied_back_outside": "stream-race",
    "captured_too_late": "capture",
    "cleared_in_capture": "capture",
    "loss_read_in_capture": "capture",
    "freed_in_capture": "capture",
    "rows_far_apart": "out-of-bounds",
    "scratch_by_query": "out-of-bounds",
    "default_as_external": "stream-race",
}
REFUSED = ("loss_read_in_capture", "freed_in_capture")
"""Bugs that the runtime refuses as CUDA does."""


def run(name, policy, *arguments):
    return run_script(
        SCRIPTS / f"{name}.py",
        arguments,
        arch="sm_120a",
        landing=Landing.parse(policy),
        options=Options(),
        profile=None,
        torch_version=(2, 12) if name == "default_as_external" else None,
    )


@pytest.mark.parametrize("policy", ["eager", "laziest", "latest", "random:5"])
@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_found_by_its_kind(name, policy):
    done = run(name, policy, "buggy")
    assert {finding.kind for finding in done.findings} == {BUGS[name]}
    place = name if BUGS[name] != "out-of-bounds" else "placed.py"
    assert all(place in str(finding.sites) for finding in done.findings)


@pytest.mark.parametrize("policy", ["eager", "laziest", "latest", "random:5"])
@pytest.mark.parametrize("name", BUGS)
def test_the_fixed_twin_is_clean(name, policy):
    done = run(name, policy)
    assert [f"{f.kind}: {f.message}" for f in done.findings] == []
    assert done.incomplete == ()


def test_an_empty_graph_shows_in_the_values():
    done = run("captured_too_late", "round-robin", "buggy")
    assert [entry.reason.split(":")[0] for entry in done.incomplete] == [
        "the script raised AssertionError"
    ]


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_capture_forbids_is_refused_by_its_name(name):
    done = run(name, "round-robin", "buggy")
    (reason,) = (entry.reason for entry in done.incomplete)
    assert "cudaErrorStreamCapture" in reason


PACKAGE = {
    "key_holds_total": "cache-miss",
    "key_holds_strides": "cache-miss",
    "lengths_on_host": "host-sync",
    "scales_on_host": "host-sync",
    "fills_output": "hidden-launch",
    "allocates": "host-alloc",
    "pins": "host-alloc",
    "keeps": "host-alloc",
}


@pytest.mark.parametrize("policy", ["eager", "latest"])
@pytest.mark.parametrize("bug", PACKAGE)
def test_what_a_package_does_at_every_step(bug, policy):
    done = run("package_at_every_step", policy, bug)
    kinds = {finding.kind for finding in done.findings}
    # What gives memory back to the driver waits for the device as well.
    assert kinds == {PACKAGE[bug], *(["host-sync"] if bug == "allocates" else [])}
    place = "at_every_step.py" if bug.startswith("key_holds") else "scaled.py"
    assert all(place in str(finding.sites) for finding in done.findings)
    assert done.incomplete == ()


@pytest.mark.parametrize("policy", ["eager", "latest"])
def test_a_package_without_bugs_is_clean(policy):
    done = run("package_at_every_step", policy)
    assert [f"{f.kind}: {f.message}" for f in done.findings] == []
    assert done.incomplete == ()
    assert len(done.compiled) == 1
    assert len(done.outcomes) == 4


def test_every_scale_that_is_read_has_its_line():
    done = run("package_at_every_step", "eager", "scales_on_host")
    assert [finding.count for finding in done.findings] == [4] * 4
    assert len({finding.sites[0].source for finding in done.findings}) == 4


def test_since_torch_2_13_an_external_0_is_the_default_stream():
    done = run_script(
        SCRIPTS / "default_as_external.py",
        ["buggy"],
        arch="sm_120a",
        landing=Landing(),
        options=Options(),
        profile=None,
        torch_version=(2, 13),
    )
    assert (done.findings, done.incomplete) == ((), ())
