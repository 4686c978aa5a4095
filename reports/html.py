"""`report.html`: one file without external resources, for a person."""

from __future__ import annotations

import functools
import math
from importlib.resources import files
from typing import Any

import jinja2

from sidestream.reports import cost_text
from sidestream.reports.model import FAILED, NOT_RUN, PASSED, Case, Report, scenarios_of

PHASES = ("build", "reference", "compile", "parse", "lower", "execute", "check")
"""Phases in the order they are drawn; others follow."""


def render(report: Report) -> str:
    """Return the report as a self-contained HTML page."""
    names = list(dict.fromkeys(n for case in report.cases for n in case.checks))
    seconds = report.seconds
    phases = [p for p in PHASES if p in seconds]
    phases += [p for p in seconds if p not in phases]
    longest = max((case.wall for case in report.cases), default=0.0)
    execute = seconds.get("execute", 0.0)
    return _template().render(
        report=report,
        verdict=report.verdict.label,
        names=names,
        tally=_tally(report, names),
        phases=[(p, seconds[p]) for p in phases],
        total=sum(seconds.values()) or 1.0,
        longest=longest or 1.0,
        rate=report.warp_instructions / execute if execute else 0.0,
        passed=PASSED,
        failed=FAILED,
        not_run=NOT_RUN,
        scenarios_of=scenarios_of,
        worst=_worst,
        lead=_lead(report),
        cost_text=cost_text,
    )


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["seconds"] = seconds
    environment.filters["count"] = count
    environment.filters["ratio"] = ratio
    source = files("sidestream.reports.templates") / "report.html.j2"
    return environment.from_string(source.read_text(encoding="utf-8"))


def _tally(report: Report, names: list[str]) -> list[dict[str, Any]]:
    """Count outcomes of each check."""
    rows = []
    for name in names:
        outcomes = [c.checks[name].status for c in report.cases if name in c.checks]
        rows.append(
            {
                "name": name,
                "passed": outcomes.count(PASSED),
                "failed": outcomes.count(FAILED),
                "not_run": outcomes.count(NOT_RUN),
                "total": len(outcomes),
            }
        )
    return rows


def _worst(case: Case) -> float | None:
    """Return the largest error of a case in units of its bound."""
    ratios = [error.ratio for error in case.errors.values()]
    return max(ratios) if ratios else None


def _lead(report: Report) -> str:
    """Say in one sentence what the verdict means here."""
    cases = _plural(len(report.cases), "case")
    label = report.verdict.label
    if label == "clean":
        return f"Every check of {cases} passed, and nothing was left unjudged."
    if label == "review":
        return f"{cases} ran; a person should look at what is marked."
    if label == "findings":
        more = (
            f" {_plural(len(report.incomplete), 'thing')} could not be judged."
            if report.incomplete
            else ""
        )
        return f"{_plural(len(report.findings), 'defect')} in {cases}.{more}"
    if not report.cases:
        return "Nothing was checked."
    return (
        f"{_plural(len(report.incomplete), 'thing')} in {cases} could not be judged, "
        "so nothing is said about the whole."
    )


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def seconds(value: float) -> str:
    """Spell a duration with three significant digits."""
    if value >= 100:
        return f"{value:.0f} s"
    if value >= 1:
        return f"{value:.3g} s"
    return f"{value * 1000:.3g} ms"


def count(value: float) -> str:
    """Spell a count with a decimal prefix."""
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            scale = {"G": 1e9, "M": 1e6, "k": 1e3}[letter]
            return f"{value / scale:.3g} {letter}"
    return f"{value:.0f}"


def ratio(value: float | None) -> str:
    """Spell an error in units of its bound."""
    if value is None:
        return "\N{EM DASH}"
    return f"{value:.2f}" if math.isfinite(value) else "\N{INFINITY}"
