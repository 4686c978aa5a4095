"""Determinism: the same call gives the same bits, whatever the order of the warps."""

from __future__ import annotations

from collections.abc import Sequence

from sidestream.harness.checks.observation import Execution, Rows, difference, place
from sidestream.harness.checks.outcome import CheckOutcome, judged, not_run
from sidestream.harness.finding import Finding, Rule, Site

NAME = "determinism"
RULE = Rule(id="determinism", title="Equal calls give equal bits under every schedule")


def check(runs: Sequence[Execution], *, rows: Rows, kernel: str) -> CheckOutcome:
    """Compare runs of one call that differ in nothing but the schedule.

    Args:
        runs: At least two; the first is what the others must equal.
        rows: Rows to compare are the live ones.
        kernel: For the finding.
    """
    if len(runs) < 2:
        return not_run(NAME, "the call was not repeated")
    broken = next((run for run in runs if not run.finished), None)
    if broken is not None:
        return not_run(NAME, f"the call with {broken.label} was not finished")
    base, findings = runs[0], []
    for run in runs[1:]:
        off = difference(base, run, rows.live)
        if off is not None:
            findings.append(
                Finding(
                    kind="nondeterminism",
                    rule=RULE,
                    message=(
                        f"{place(off, rows)} differs between {base.label} and "
                        f"{run.label}; {off.number} elements differ"
                    ),
                    kernel=kernel,
                    sites=(Site(agent="kernel", operation=f"result {off.output}"),),
                    need="an order of the accesses, or sums that do not depend on it",
                )
            )
            break
    labels = ", ".join(run.label for run in runs[1:])
    return judged(NAME, findings, f"same bits as {base.label}: {labels}")
