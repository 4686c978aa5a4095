"""`sidestream check`, `record` and `replay`: cases, a report, an exit status."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sidestream.harness.commands import console
from sidestream.harness.dsl.chip import CHIPS
from sidestream.harness.errors import UsageError
from sidestream.harness.run.session import Session
from sidestream.harness.run.settings import KERNELS, Settings
from sidestream.reports.known import KnownFormatError, accept
from sidestream.reports.known import read as read_known
from sidestream.reports.write import write
from sidestream.scenarios import catalogue, trace
from sidestream.scenarios.catalogue_each import EACH
from sidestream.scenarios.catalogue_narrow import NARROW
from sidestream.scenarios.catalogue_public import PUBLIC
from sidestream.scenarios.catalogue_scaled import SCALED
from sidestream.scenarios.catalogue_wide import WIDE
from sidestream.scenarios.core import CORE_TAG
from sidestream.scenarios.scenario import Scenario

LAUNCHES = "launches"
"""Folder of recorded launches in the output folder."""
DEFAULT_TRACE = "conv"
EVERYTHING = "all"
"""Scenario name that stands for the whole catalogue."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which scenarios to run.

    Nothing named means the scenarios of the core declaration and a trace, and those
    beyond the interface of our kernels where they are asked for.

    Attributes:
        names: Scenarios of the catalogue, shell patterns of names, or `all`.
        traces: CSV files, or names of the traces that come with the package.
        steps: Steps to replay of each trace.
        beyond: Whether the implementation may serve more than our kernels do.
    """

    names: tuple[str, ...] = ()
    traces: tuple[str, ...] = ()
    steps: int = 24
    beyond: bool = False

    @property
    def asked(self) -> bool:
        """Whether scenarios are named one by one."""
        return any(name != EVERYTHING for name in self.names)

    def scenarios(self) -> list[Scenario]:
        """Return them in the order they are run.

        Raises:
            UsageError: an unknown name, with close matches, or a trace that is not
                readable or has fewer steps.
        """
        if self.steps < 1:
            raise UsageError(f"--steps must be at least 1, not {self.steps}")
        found: list[Scenario] = []
        beyond = PUBLIC if self.beyond else ()
        for name in dict.fromkeys(self.names):
            whole = name == EVERYTHING
            every = catalogue.CATALOGUE + WIDE + (beyond or NARROW + SCALED + EACH)
            found += every if whole else catalogue.matching(name)
        found = list(dict.fromkeys(found))
        traces = self.traces
        if not found and not traces:
            # One declaration, and so one compilation for every case and step.
            found, traces = list(catalogue.with_tags(CORE_TAG)), (DEFAULT_TRACE,)
            found += beyond
        for source in dict.fromkeys(traces):
            path = trace.EXCERPTS.get(source) or Path(source)
            steps = list(trace.steps(path, limit=self.steps))
            if len(steps) < self.steps:
                raise UsageError(
                    f"trace {source} has {len(steps)} steps; {self.steps} were asked"
                )
            found += [step.scenario() for step in steps]
        return found


def settings_for(kernels: Sequence[str], **facts: Any) -> list[Settings]:
    """Return settings for each kernel that was named, or for all of the target.

    Raises:
        UsageError: a value that there is not, or a device that cannot be had.
    """
    impl = str(facts.get("impl", "sidestream"))
    names = list(dict.fromkeys(kernels))
    if not names:
        offered = KERNELS.get(impl, {"": ()})
        arch = facts.get("arch", Settings.arch)
        names = [name for name, at in offered.items() if arch in at] or list(offered)
    made = [Settings(kernel=name, **facts) for name in names]
    if made[0].device == "cuda":
        _require_card(made[0].arch)
    return made


def _require_card(arch: str) -> None:
    from sidestream.harness.run.card_world import card_arch

    found = card_arch()
    if found is None:
        raise UsageError("--device cuda: torch sees no CUDA device; use --device vgpu")
    if found != arch:
        raise UsageError(f"--device cuda: the card is {found}; use --arch {found}")


def prepare_folder(out: Path) -> None:
    """Make the folder of a report before any work is done.

    Raises:
        UsageError: it is a file, lies under one, or cannot be made.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror or error}") from error


def run(
    settings: Sequence[Settings],
    scenarios: Sequence[Scenario],
    *,
    jobs: int,
    out: Path,
    command: str,
    asked: bool,
    known: Path | None = None,
) -> int:
    """Run scenarios, write the report, print it and return the exit status.

    Args:
        settings: One for each kernel.
        scenarios: What to run.
        jobs: Processes.
        out: Folder for the report.
        command: The command line, for the report.
        asked: Whether the scenarios were named one by one, so that one which is
            declined leaves the run incomplete.
        known: List of known findings (see `reports.known`).

    Raises:
        UsageError: the folder cannot be written, or the list not read.
    """
    try:
        entries = read_known(known) if known else ()
    except KnownFormatError as error:
        raise UsageError(f"--known {known}: {error}") from error
    prepare_folder(out)
    reports = []
    for each in settings:
        session = Session(
            settings=each, scenarios=scenarios, jobs=jobs, command=command, asked=asked
        )
        reports.append(session.run(console.watching))
    first, *others = reports
    report = first
    for other in others:
        report = dataclasses.replace(
            report,
            cases=(*report.cases, *other.cases),
            findings=(*report.findings, *other.findings),
            incomplete=(*report.incomplete, *other.incomplete),
            declined=(*report.declined, *other.declined),
            wall_seconds=report.wall_seconds + other.wall_seconds,
        )
    report, gone = accept(report, entries)
    try:
        page = write(report, out)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror or error}") from error
    notes = [f"known, and no longer seen: {entry}" for entry in gone]
    return console.say(report, str(page), notes)


def listing() -> str:
    """Return kernels, archs, traces and scenarios, one a line."""
    lines = ["implementations and kernels:"]
    for impl, kernels in KERNELS.items():
        lines += [f"  {impl} {name}: {', '.join(at)}" for name, at in kernels.items()]
    lines.append("what sidestream serves:")
    support = importlib.import_module("sidestream.kernels.support")
    lines += [f"  {row}" for row in support.table()]
    lines.append("archs:")
    lines += [f"  {arch}: {chip.name}" for arch, chip in CHIPS.items()]
    lines.append("traces:")
    lines += [f"  {name}" for name in trace.EXCERPTS]
    lines.append("scenarios:")
    lines += [f"  {s.name}: {s.description}" for s in catalogue.CATALOGUE]
    lines.append("scenarios of head dims past 128:")
    lines += [f"  {s.name}: {s.description}" for s in WIDE]
    lines.append("scenarios of one-byte inputs:")
    lines += [f"  {s.name}: {s.description}" for s in NARROW]
    lines.append("scenarios of block-scaled inputs:")
    lines += [f"  {s.name}: {s.description}" for s in SCALED]
    lines.append("scenarios of every shape that our kernels are written for:")
    lines += [f"  {s.name}: {s.description}" for s in EACH]
    lines.append("scenarios of public packages:")
    lines += [f"  {s.name}: {s.description}" for s in PUBLIC]
    return "\n".join(lines)
