"""The seeded host bugs on a real GPU: each is caught there, each twin is clean."""

import pytest

from sidestream.harness.finding import Verdict
from sidestream.harness.run.bench import Bench
from sidestream.harness.run.card_world import card_arch
from sidestream.harness.run.case import run_case
from sidestream.harness.run.settings import Settings
from sidestream.scenarios import catalogue
from sidestream.scenarios.bugs import BUGS
from sidestream.scenarios.bugs.seed import driver_of

ARCH = card_arch()
MISSING = {
    "sm_90a": "",
    "sm_120a": "",
    None: "there is no CUDA device",
}.get(ARCH, f"our SM120 kernel does not compile for {ARCH}")

pytestmark = [
    pytest.mark.hardware,
    pytest.mark.skipif(bool(MISSING), reason=MISSING or "runs"),
]
SHOWN = {
    "key-holds-totals": {"cache"},
    "host-reads-lengths": {"host-sync", "capture"},
    "launched-on-default-stream": {"stream", "race"},
    "prepared-on-current-stream": {"host-sync", "stream", "race"},
    "output-filled-first": {"host-sync"},
    "lengths-baked-at-capture": {"capture"},
}
"""By bug, checks that fail on a card."""
SEEDED = [bug for bug in BUGS if bug.name in SHOWN]


def settings():
    return Settings(device="cuda", arch=ARCH)


@pytest.mark.parametrize("bug", SEEDED, ids=lambda bug: bug.name)
def test_a_seeded_host_bug_is_caught_on_the_card(bug):
    bench = Bench(settings=settings(), driver=driver_of(bug))
    outcome = run_case(bench, catalogue.by_name(bug.scenario))
    failed = {n for n, c in outcome.case.checks.items() if c.status == "failed"}
    assert SHOWN[bug.name] <= failed, outcome.case.checks
    assert outcome.case.verdict is Verdict.FINDINGS
    assert bug.kinds & {finding.kind for finding in outcome.findings}
    assert all(finding.sites and finding.need for finding in outcome.findings)
    edges = [f.need for f in outcome.findings if f.rule.id == "host.stream-order"]
    assert bool(edges) == ("race" in SHOWN[bug.name]), edges
    assert all(" to wait for stream " in edge for edge in edges)


@pytest.mark.parametrize("name", sorted({bug.scenario for bug in SEEDED}))
def test_the_twin_is_clean_on_the_card(name):
    outcome = run_case(Bench(settings=settings()), catalogue.by_name(name))
    assert outcome.findings == ()
    assert outcome.incomplete == ()


def test_every_host_bug_has_its_place_here():
    assert {bug.name for bug in SEEDED} == set(SHOWN)
