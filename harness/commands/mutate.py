"""`sidestream mutate`: every synchronisation of recorded launches, one at a time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console

from sidestream.harness.commands import console
from sidestream.harness.commands.check import prepare_folder
from sidestream.harness.device.sites import source_text
from sidestream.harness.dsl.chip import CHIPS
from sidestream.harness.dsl.record import RecordedLaunch, read_launch
from sidestream.harness.errors import PtxError, UsageError
from sidestream.harness.exec.machine import Options
from sidestream.harness.finding import Incomplete, Verdict
from sidestream.harness.mutate import judge, mutants
from sidestream.harness.mutate.sites import CLASSES
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.parser import parse
from sidestream.harness.run.environment import environment, version
from sidestream.harness.run.settings import Settings
from sidestream.reports.model import Case, Mutant, Report
from sidestream.reports.write import write


@dataclass(frozen=True, kw_only=True)
class _Bench:
    """What a worker needs to judge mutants: folders and how to run them."""

    folders: tuple[Path, ...]
    settings: Settings
    only: frozenset[str]
    known: bool


def launch_folders(given: Sequence[Path]) -> tuple[Path, ...]:
    """Return the recorded launches at or below the folders given.

    Raises:
        UsageError: there is none in one of them.
    """
    found: list[Path] = []
    for folder in given:
        below = sorted(path.parent for path in folder.rglob("launch.json"))
        if not below:
            raise UsageError(f"{folder} holds no recorded launch: no launch.json")
        found += [path for path in below if path not in found]
    return tuple(found)


def run(
    given: Sequence[Path],
    *,
    only: Sequence[str],
    jobs: int,
    settings: Settings,
    out: Path | None,
    command: str,
    known: bool = False,
) -> int:
    """Judge the mutants of recorded launches, report, return the exit status.

    Launches of one text and kernel are judged together: a mutant is caught if any of
    them catches it. With `known` they may have findings as they are, and a mutant is
    caught by one that it adds.

    Raises:
        UsageError: no launch, an unknown class, or a launch that is not clean as it
            is; nothing was written.
    """
    unknown = sorted(set(only) - set(CLASSES))
    if unknown:
        raise UsageError(f"no class {unknown[0]!r}; there are {', '.join(CLASSES)}")
    kernels = _kernels(launch_folders(given))
    if out is not None:
        prepare_folder(out)
    began, started = time.time(), datetime.now(UTC)
    rows: list[Mutant] = []
    cases: list[Case] = []
    left: list[Incomplete] = []
    interrupted = False
    for folders in kernels:
        bench = _Bench(
            folders=folders, settings=settings, only=frozenset(only), known=known
        )
        spent = time.time()
        try:
            for row in _judged(bench, jobs):
                rows.append(row)
        except KeyboardInterrupt:
            interrupted = True
        cases.append(_case(folders, time.time() - spent, done=not interrupted))
        if interrupted:
            reason = f"interrupted: {len(rows)} mutants judged, the rest not run"
            left.append(Incomplete(reason=reason, kernel=cases[-1].kernel))
            break
    if not rows and not interrupted:
        wanted = f" of class {', '.join(only)}" if only else ""
        reason = f"no synchronisation{wanted} is executed: nothing was judged"
        left.append(Incomplete(reason=reason, kernel=cases[-1].kernel))
    rows.sort(key=lambda row: (row.kernel, row.line))
    report = Report(
        command=command,
        version=version(),
        device="vgpu",
        arch=read_launch(kernels[0][0]).arch,
        profile=settings.profile,
        seed=settings.seed,
        cases=tuple(cases),
        mutants=tuple(rows),
        incomplete=tuple(left),
        environment=environment(),
        wall_seconds=time.time() - began,
        started=started.isoformat(timespec="seconds"),
    )
    page = write(report, out) if out is not None else None
    return console.say(report, str(page) if page else None, notes=list(_notes(rows)))


def _kernels(folders: Sequence[Path]) -> list[tuple[Path, ...]]:
    """Group launches by text and kernel."""

    def key(folder: Path) -> tuple[str, str]:
        launch = read_launch(folder).launch
        return launch.kernel, launch.ptx

    keyed = sorted((key(folder), folder) for folder in folders)
    return [tuple(f for _, f in group) for _, group in groupby(keyed, lambda e: e[0])]


def _options(settings: Settings, arch: str) -> Options:
    # A mutant writes what the kernel writes, in another order: what it reads too early
    # shows as a race or in its results, and need not be executed twice more.
    return Options(
        budget=settings.budget,
        deadline=settings.deadline,
        sms=settings.sms,
        max_smem=CHIPS[arch].smem_per_block,
        shared_memory_check=False,
        register_check=False,
    )


class _Worker:
    """The court of one process, and the mutants that it numbers like all others."""

    def __init__(self, bench: _Bench) -> None:
        launches = [read_launch(folder) for folder in bench.folders]
        first: RecordedLaunch = launches[0]
        try:
            function = decode(parse(first.launch.ptx), first.launch.kernel)
        except PtxError as error:
            raise UsageError(f"{bench.folders[0]}: {error}") from error
        if first.arch not in CHIPS:
            raise UsageError(f"{bench.folders[0]}: unknown target {first.arch!r}")
        self.kernel = first.launch.kernel
        self.court = judge.Court(
            launches=launches,
            function=function,
            options=_options(bench.settings, first.arch),
            profile=bench.settings.profile,
            known=bench.known,
        )
        found = mutants.mutants_of(
            function, only=bench.only, executed=self.court.executed
        )
        # The changes of one site belong together: the first tells of the others.
        self.sites = [
            list(group) for _, group in groupby(found, lambda mutant: mutant.site.index)
        ]

    def rows(self, number: int) -> list[Mutant]:
        """Judge the mutants of a site."""
        return [
            self._row(mutant, self.court.judge(mutant)) for mutant in self.sites[number]
        ]

    def _row(self, mutant: mutants.Mutant, verdict: judge.Verdict) -> Mutant:
        ins = mutant.site.instruction
        return Mutant(
            kernel=self.kernel,
            line=ins.line,
            source=source_text(ins.source),
            operation=ins.spelling,
            group=mutant.site.kind,
            change=mutant.change,
            status=verdict.status,
            by=verdict.by,
            reason=verdict.reason,
        )


_worker: _Worker | None = None


def _begin(bench: _Bench) -> None:
    global _worker
    _worker = _Worker(bench)


def _site(number: int) -> list[Mutant]:
    assert _worker is not None
    return _worker.rows(number)


def _judged(bench: _Bench, jobs: int) -> Iterator[Mutant]:
    """Judge every site, in this process or in `jobs`, and show how far it is."""
    own = _Worker(bench)
    total = len(own.sites)
    shown = Console(stderr=True)
    done = 0

    def tell(rows: Sequence[Mutant]) -> None:
        for row in rows:
            if row.status != judge.CAUGHT:
                shown.print(
                    f"{done}/{total} {row.status}: PTX line {row.line} "
                    f"{row.operation}, {row.change}",
                    markup=False,
                    highlight=False,
                    soft_wrap=True,
                )

    if jobs == 1:
        for number in range(total):
            rows = own.rows(number)
            done += 1
            tell(rows)
            yield from rows
        return
    with ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=_begin, initargs=(bench,)
    ) as pool:
        left: set[Future[list[Mutant]]] = {
            pool.submit(_site, number) for number in range(total)
        }
        try:
            while left:
                ready, left = wait(left, return_when=FIRST_COMPLETED)
                for future in ready:
                    rows = future.result()
                    done += 1
                    tell(rows)
                    yield from rows
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _case(folders: Sequence[Path], seconds: float, *, done: bool) -> Case:
    launch = read_launch(folders[0]).launch
    names = ", ".join(folder.name for folder in folders)
    return Case(
        impl="launch",
        kernel=launch.kernel,
        scenario=names,
        description=f"{len(folders)} recorded launches.",
        verdict=Verdict.CLEAN if done else Verdict.INCOMPLETE,
        checks={},
        launches=len(folders),
        warp_instructions=0,
        seconds={"execute": seconds},
        findings=(),
        replay="",
    )


def _notes(rows: Sequence[Mutant]) -> Iterator[str]:
    """Give the table by class, then what survived."""
    groups = [name for name in CLASSES if any(row.group == name for row in rows)]
    for name in groups:
        counts = Counter(row.status for row in rows if row.group == name)
        yield f"{name}: " + ", ".join(
            f"{counts[status]} {status}"
            for status in (judge.CAUGHT, judge.EQUIVALENT, judge.SURVIVED)
            if counts[status]
        )
    for row in rows:
        if row.status == judge.SURVIVED:
            where = row.source or f"PTX line {row.line}"
            yield f"survived: {where} {row.operation}, {row.change}: {row.reason}"
