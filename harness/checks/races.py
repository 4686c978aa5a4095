"""Races: every two conflicting accesses of a call's launches are ordered."""

from __future__ import annotations

from sidestream.harness.checks.observation import Execution
from sidestream.harness.checks.outcome import CheckOutcome, judged, not_asked, not_run
from sidestream.harness.finding import Finding

NAME = "race"


def is_race(finding: Finding) -> bool:
    """Whether two accesses are what is wrong; the kind alone does not say it."""
    return "race" in finding.extra


def check(watched: Execution, *, asked: bool) -> CheckOutcome:
    """Judge the call whose accesses were watched, under one profile.

    Args:
        watched: The call.
        asked: Whether races were to be looked for.
    """
    if not asked:
        return not_asked(NAME, "switched off by --no-races")
    if watched.profile is None:
        return not_run(NAME, "the call was not watched")
    found = [f for f in watched.findings if is_race(f)]
    if not found and watched.incomplete:
        return not_run(NAME, watched.incomplete[0].reason)
    if not found and not watched.finished:
        return not_run(NAME, "the call was not finished")
    number = len(watched.launches)
    return judged(
        NAME,
        found,
        f"{number} launches watched: every conflict is ordered ({watched.profile})",
    )
