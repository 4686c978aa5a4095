"""Execution: every launch runs to its end without breaking a protocol."""

from __future__ import annotations

from collections.abc import Sequence

from sidestream.harness.checks import bounds, races
from sidestream.harness.checks.observation import Execution
from sidestream.harness.checks.outcome import CheckOutcome, judged, not_run
from sidestream.harness.finding import Finding, Rule, Site

NAME = "execution"
RAISED = Rule(
    id="host.accepts", title="Execute accepts what the plan was made for: no exception"
)
_ELSEWHERE = bounds.KINDS | {"uninit-read"}
"""Kinds that the bounds and scratch checks judge."""


def check(runs: Sequence[Execution], *, kernel: str) -> CheckOutcome:
    """Judge how calls ended: protocol faults, deadlocks, exceptions."""
    found: dict[str, Finding] = {}
    for run in runs:
        for finding in run.findings:
            if finding.kind not in _ELSEWHERE and not races.is_race(finding):
                found.setdefault(finding.id, finding)
        if run.error is not None and not run.incomplete:
            raised = Finding(
                kind="contract",
                rule=RAISED,
                message=f"execute raised {run.error}",
                kernel=kernel,
                sites=(Site(agent="host", operation=f"execute: {run.error}"),),
                need="the call to be served, or the plan to be declined",
            )
            found.setdefault(raised.id, raised)
    if not found:
        short = next((run for run in runs if not run.finished), None)
        if short is not None:
            why = short.incomplete[0].reason if short.incomplete else "unknown reason"
            return not_run(NAME, f"the call with {short.label} did not end: {why}")
    launches = sum(len(run.launches) for run in runs)
    return judged(
        NAME, list(found.values()), f"{len(runs)} calls, {launches} launches ran to end"
    )
