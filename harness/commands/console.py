"""What a command says on the terminal: progress on stderr, results on stdout."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from sidestream.harness.finding import EXIT_STATUS, Finding, Incomplete, Verdict
from sidestream.reports import cost_text
from sidestream.reports.model import Case, Report, scenarios_of

STYLES = {
    Verdict.CLEAN: "bold green",
    Verdict.REVIEW: "bold blue",
    Verdict.INCOMPLETE: "bold yellow",
    Verdict.FINDINGS: "bold red",
}
_MOST_SHOWN = 20


class Watcher(Protocol):
    """Is told of cases as they start and end."""

    def started(self, name: str) -> None:
        """A case starts."""

    def ended(self, case: Case) -> None:
        """A case has ended."""


@contextmanager
def watching(total: int) -> Iterator[Watcher]:
    """Show progress on stderr: a bar on a terminal, otherwise a line for each case."""
    if sys.stderr.isatty():
        with _bar() as progress:
            yield _Bar(progress, total)
    else:
        yield _Lines(total)


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how many of `total` are done: a bar on a terminal, else nothing."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    with _bar() as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


def _bar() -> Progress:
    return Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=Console(stderr=True),
        transient=True,
    )


class _Bar:
    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=total)

    def started(self, name: str) -> None:
        self._progress.update(self._task, description=name)

    def ended(self, case: Case) -> None:
        self._progress.advance(self._task)
        if case.verdict is not Verdict.CLEAN:
            line = Text(f"{case.verdict.label:>10} ", style=STYLES[case.verdict])
            self._progress.console.print(line + Text(case.scenario))


class _Lines:
    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._began = time.monotonic()

    def started(self, name: str) -> None:
        pass

    def ended(self, case: Case) -> None:
        self._done += 1
        width = len(str(self._total))
        spent = time.monotonic() - self._began
        sys.stderr.write(
            f"{self._done:>{width}}/{self._total} {spent:6.1f} s "
            f"{case.verdict.label:<10} {case.scenario}\n"
        )
        sys.stderr.flush()


def say(report: Report, path: str | None, notes: Sequence[str] = ()) -> int:
    """Print findings, what was not judged and the verdict; return the exit status.

    Args:
        report: What to tell.
        path: Of the HTML report, or None.
        notes: Lines to print before the summary.
    """
    console = Console(highlight=False, soft_wrap=True)
    for finding in report.findings[:_MOST_SHOWN]:
        _finding(console, finding)
    _more(console, len(report.findings), "findings")
    for entry in report.incomplete[:_MOST_SHOWN]:
        _incomplete(console, entry)
    _more(console, len(report.incomplete), "things not judged")
    for note in notes:
        console.print(note, markup=False)
    for case in report.cases:
        _cost(console, case)
    for row in report.compilations[:1]:
        if row.cases > 1:
            times = "once" if row.compiles == 1 else f"{row.compiles} times"
            label = row.code or row.impl
            console.print(f"{row.cases} cases compiled {times}: {label}")
    if len(report.compilations) > 1:
        rest = report.compilations[1:]
        console.print(
            f"{sum(r.cases for r in rest)} cases of {len(rest)} other declarations: "
            f"{sum(r.compiles for r in rest)} compilations"
        )
    rate = report.seconds.get("execute", 0.0)
    done = ""
    if report.warp_instructions:
        done = f"; {report.warp_instructions} warp instructions"
        done += f", {report.warp_instructions / rate / 1e6:.1f} M/s" if rate else ""
    console.print(f"{len(report.cases)} cases in {report.wall_seconds:.1f} s{done}")
    verdict = Text("verdict: ") + Text(
        report.verdict.label, style=STYLES[report.verdict]
    )
    console.print(verdict)
    if path:
        console.print(f"report: {path}", markup=False)
    return EXIT_STATUS[report.verdict]


def _cost(console: Console, case: Case) -> None:
    """Print what the launches of a case cost, if that was counted."""
    if not case.cost:
        return
    head = Text("cost: ", style="bold") + Text(
        f"{case.impl} {case.kernel}, {case.scenario}"
    )
    console.print(head)
    for line in cost_text.lines(case.cost):
        console.print(f"  {line}", markup=False)


def _more(console: Console, number: int, what: str) -> None:
    if number > _MOST_SHOWN:
        console.print(f"... and {number - _MOST_SHOWN} more {what} in the report")


def _finding(console: Console, finding: Finding) -> None:
    """Print a finding: what, where, by which rule, what is needed, how to replay."""
    style = "bold yellow" if finding.known else "bold red"
    head = Text(f"{finding.kind}: ", style=style) + Text(finding.message)
    console.print(head)
    names = scenarios_of(finding)
    lines = []
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        lines.append(("scenario", f"{names[0]}{more}"))
    for site in finding.sites:
        place = [
            site.source or "",
            f"PTX line {site.ptx_line}" if site.ptx_line else "",
        ]
        where = ", ".join(p for p in place if p)
        text = f"{site.agent}: {site.operation}" + (f"  {where}" if where else "")
        lines.append(("site", text))
    lines.append(("rule", f"{finding.rule.id} ({finding.rule.title})"))
    if finding.known:
        told = f" ({finding.known.reference})" if finding.known.reference else ""
        lines.append(("known", finding.known.reason + told))
    if finding.need:
        lines.append(("need", finding.need))
    if finding.replay:
        lines.append(("replay", finding.replay))
    for name, text in lines:
        console.print(Text(f"  {name:>8}: ", style="dim") + Text(text))


def _incomplete(console: Console, entry: Incomplete) -> None:
    where = f" (PTX line {entry.ptx_line})" if entry.ptx_line else ""
    head = Text("not judged: ", style="bold yellow")
    name = f"{entry.scenario}: " if entry.scenario else ""
    console.print(head + Text(f"{name}{entry.reason}{where}"))
