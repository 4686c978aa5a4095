"""Races: every two conflicting accesses inside a launch are ordered."""

from __future__ import annotations

from sidestream.harness.checks.observation import Execution
from sidestream.harness.checks.outcome import CheckOutcome, judged, not_run

NAME = "race"
KINDS = frozenset({"smem-race", "dsmem-race", "gmem-race", "tmem-race", "proxy"})


def check(watched: Execution) -> CheckOutcome:
    """Judge the call whose accesses were watched, under one profile."""
    if watched.profile is None:
        return not_run(NAME, "the call was not watched")
    found = [f for f in watched.findings if f.kind in KINDS]
    if not found and not watched.finished:
        return not_run(NAME, "the call was not finished")
    number = len(watched.launches)
    return judged(
        NAME,
        found,
        f"{number} launches watched: every conflict is ordered ({watched.profile})",
    )
