"""Every seeded bug is caught by its check, with its twin clean on the same scenario."""

import pytest

from sidestream.harness.finding import Verdict
from sidestream.harness.run.bench import Bench
from sidestream.harness.run.case import run_case
from sidestream.harness.run.settings import Settings
from sidestream.scenarios import catalogue
from sidestream.scenarios.bugs import BUGS, Edit
from sidestream.scenarios.bugs.one_byte import ONE_BYTE_MUTANTS
from sidestream.scenarios.bugs.rows import ROWS
from sidestream.scenarios.bugs.seed import EditError, apply, driver_of, kernel_sources

BUDGET = 20_000_000
"""Warp instructions: a bug may send a kernel into a loop without end."""


@pytest.fixture(scope="module")
def twin():
    """Run scenarios through the kernels as they are, in one process."""
    bench = Bench(settings=Settings(budget=BUDGET))
    outcomes = {}

    def outcome(name):
        if name not in outcomes:
            outcomes[name] = run_case(bench, catalogue.by_name(name))
        return outcomes[name]

    return outcome


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_fails_its_check(bug):
    bench = Bench(settings=Settings(budget=BUDGET), driver=driver_of(bug))
    outcome = run_case(bench, catalogue.by_name(bug.scenario))
    assert outcome.case.checks[bug.check].status == "failed", outcome.case.checks
    assert outcome.case.verdict is Verdict.FINDINGS
    assert bug.kinds & {finding.kind for finding in outcome.findings}
    for finding in outcome.findings:
        assert finding.sites
        assert finding.need
        assert finding.replay.startswith("sidestream replay ")


@pytest.mark.parametrize("name", sorted({bug.scenario for bug in BUGS}))
def test_the_twin_is_clean(twin, name):
    outcome = twin(name)
    assert outcome.findings == ()
    assert outcome.incomplete == ()
    assert {check.status for check in outcome.case.checks.values()} == {"passed"}


def test_reads_of_unwritten_scratch_name_their_reader():
    bug = next(bug for bug in BUGS if bug.name == "worklist-read-early")
    bench = Bench(settings=Settings(budget=BUDGET), driver=driver_of(bug))
    outcome = run_case(bench, catalogue.by_name(bug.scenario))
    readers = [
        finding
        for finding in outcome.findings
        if finding.kind == "uninit-read" and "of workspace" in finding.message
    ]
    assert readers
    for finding in readers:
        reader = finding.sites[0]
        assert reader.ptx_line
        assert "warp" in reader.agent
        assert "sidestream_sm120_forward" in finding.kernel
        # The line is that of the kernel's own source.
        assert any(part in reader.source for part in ("sm120/", "common/"))


def test_a_read_on_the_host_names_its_line():
    bug = next(bug for bug in BUGS if bug.name == "host-reads-lengths")
    bench = Bench(settings=Settings(budget=BUDGET), driver=driver_of(bug))
    outcome = run_case(bench, catalogue.by_name(bug.scenario))
    kinds = {"host-sync", "capture", "stream-race"}  # it reads on the current stream
    assert {f.kind for f in outcome.findings} == kinds
    read = next(f for f in outcome.findings if f.kind == "host-sync")
    assert "execute.py:" in read.sites[0].source


def test_names_are_unique_and_checks_differ():
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    assert {bug.check for bug in BUGS} == {
        *("bounds", "cache", "host-sync", "parity", "scratch", "stream", "capture"),
    }


def test_an_edit_that_does_not_fit_is_refused():
    sources = {"a.py": "one two two"}
    assert apply(sources, [Edit(file="a.py", old="one", new="1")])["a.py"] == (
        "1 two two"
    )
    for edit, word in (
        (Edit(file="a.py", old="two", new=""), "2 times"),
        (Edit(file="a.py", old="three", new=""), "0 times"),
        (Edit(file="b.py", old="one", new=""), "no file b.py"),
    ):
        with pytest.raises(EditError, match=word):
            apply(sources, [edit])
    assert sources == {"a.py": "one two two"}


def test_edits_change_nothing_but_what_they_say():
    """Mutants of both targets too: that an edit fits needs no compilation."""
    sources = kernel_sources()
    mutants = [mutant for row in ROWS for mutant in row.mutants]
    for seeded in (*BUGS, *ONE_BYTE_MUTANTS, *mutants):
        changed = apply(sources, seeded.edits)
        touched = {path for path in sources if sources[path] != changed[path]}
        assert touched == {edit.file for edit in seeded.edits}
