"""Scratch: results do not depend on what the workspace held before."""

from __future__ import annotations

from collections.abc import Sequence

from sidestream.harness.checks.observation import Execution, Rows, difference, place
from sidestream.harness.checks.outcome import CheckOutcome, judged, not_run
from sidestream.harness.finding import Finding, Rule, Site

NAME = "scratch"
RULE = Rule(
    id="scratch.contents",
    title="Results do not depend on what workspace and on-chip memory held before",
)
FEWEST_PATTERNS = 3


def told(harmless: Sequence[Finding]) -> str:
    """Say, after what was looked at, which reads of unwritten bytes do not matter."""
    places: dict[str, None] = {}
    for finding in harmless:
        site = finding.sites[0]
        line = f"line {site.ptx_line}" if site.ptx_line is not None else ""
        places.setdefault(f"{finding.message} ({site.source or line})")
    if not places:
        return ""
    first, more = next(iter(places)), len(places) - 1
    rest = f", and {more} more such reads" if more else ""
    return f"; no result depends on what {first}{rest}"


def check(
    runs: Sequence[Execution], *, workspace_bytes: int, rows: Rows, kernel: str
) -> CheckOutcome:
    """Compare runs that differ in the pattern that scratch was filled with.

    A read of a byte that nothing had written is a finding of the device, with its
    reader; it counts here.

    Args:
        runs: One for each pattern; the first is what the others must equal.
        workspace_bytes: Size of the caller's workspace; 0 if there is none.
        rows: Rows to compare are the live ones.
        kernel: For the findings.
    """
    findings = [f for run in runs for f in run.findings if f.kind == "uninit-read"]
    findings = list({f.id: f for f in reversed(findings)}.values())
    if not findings and len(runs) < FEWEST_PATTERNS:
        return not_run(NAME, f"{len(runs)} of {FEWEST_PATTERNS} patterns were run")
    broken = next((run for run in runs if not run.finished), None)
    if broken is not None and not findings:
        return not_run(NAME, f"the call with {broken.label} was not finished")
    base = runs[0]
    for run in runs[1:] if broken is None else ():
        off = difference(base, run, rows.live)
        if off is not None:
            findings.append(
                Finding(
                    kind="uninit-read",
                    rule=RULE,
                    message=(
                        f"{place(off, rows)} differs between {base.label} and "
                        f"{run.label}; {off.number} elements differ"
                    ),
                    kernel=kernel,
                    sites=(Site(agent="kernel", operation=f"result {off.output}"),),
                    need="every byte of scratch is written before it is read",
                )
            )
            break
    what = f"{len(runs)} patterns, {workspace_bytes} bytes of workspace"
    what += told([f for run in runs for f in run.harmless])
    return judged(NAME, findings, what)
