"""Races: every two conflicting accesses of a call are ordered.

On the virtual GPU those inside its launches, on a card those of its operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sidestream.harness.checks.observation import Execution
from sidestream.harness.checks.outcome import CheckOutcome, judged, not_asked, not_run
from sidestream.harness.finding import Finding

NAME = "race"


def is_race(finding: Finding) -> bool:
    """Whether two accesses are what is wrong; the kind alone does not say it."""
    return "race" in finding.extra


def check(runs: Sequence[Execution], *, asked: bool) -> CheckOutcome:
    """Judge calls whose accesses were watched, under one profile.

    Args:
        runs: The same call under one schedule or more.
        asked: Whether races were to be looked for.
    """
    if not asked:
        return not_asked(NAME, "switched off by --no-races")
    found = [f for run in runs for f in run.findings if is_race(f)]
    if not found:
        for run in runs:
            if run.incomplete:
                return not_run(NAME, run.incomplete[0].reason)
            if not run.finished:
                return not_run(NAME, f"the call with {run.label} was not finished")
            if run.profile is None:
                return not_run(NAME, f"the call with {run.label} was not watched")
    number = sum(len(run.launches) for run in runs)
    under = f" under {len(runs)} schedules" if len(runs) > 1 else ""
    return judged(
        NAME,
        found,
        f"{number} launches watched{under}: every conflict is ordered "
        f"({runs[0].profile})",
    )


def between(
    findings: Sequence[Finding],
    *,
    unknown: Sequence[str],
    seen: str,
    kernel: str,
) -> CheckOutcome:
    """Judge the operations of a call on a card: copies, operators and launches.

    Args:
        findings: Pairs that nothing orders, both of which touch the same bytes.
        unknown: Pairs that nothing orders of which it is not known.
        seen: What was looked at.
        kernel: For the findings.
    """
    if unknown and not findings:
        return not_run(NAME, unknown[0])
    told = [replace(f, kernel=f.kernel or kernel) for f in findings]
    return judged(
        NAME, told, f"{seen}: every conflict is ordered; inside launches: --device vgpu"
    )
