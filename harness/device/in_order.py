"""Launches of a stream, one behind the other or overlapping, each with its outcome.

CUDA, Programmatic Dependent Launch and Synchronization: a launch with the attribute for
programmatic stream serialization may start before the one in front of it has completed.
It is known to have the attribute only when that one has been executed already; so that
one is executed again, together with it, from the memory that it found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Protocol

from sidestream.harness.cuda.memory import Allocation, AllocationTable, Snapshot
from sidestream.harness.device import between_launches, unwritten
from sidestream.harness.device.outcome import (
    PREREQUISITE,
    Outcome,
    failed,
    judge,
    no_time,
    reason_of,
)
from sidestream.harness.device.programs import CACHE
from sidestream.harness.device.vgpu import with_races, with_reach
from sidestream.harness.errors import PtxError, UnsupportedError
from sidestream.harness.exec.machine import Options, execute
from sidestream.harness.exec.observer import Observer
from sidestream.harness.exec.overlap import Work, execute_overlapped
from sidestream.harness.exec.result import Result
from sidestream.harness.launch import Launch
from sidestream.harness.race.watcher import Watcher

_TRIGGER = "griddepcontrol.launch_dependents"
_IN_FLIGHT = (
    "it hands over to a dependent launch through global memory while both run, which "
    "the race check does not model"
)
Progress = Callable[[int], None]


class Seen(Observer, AbstractContextManager["Seen"], Protocol):
    """One more observer of a launch, for as long as its outcomes are kept."""


@dataclass(frozen=True, kw_only=True)
class _Done:
    """A launch that was executed, and who watched it."""

    work: Work
    watcher: Watcher | None
    outcome: Outcome
    seen: Seen | None


def run_dependent(
    launches: Sequence[Launch],
    table: AllocationTable,
    options: Options,
    progress: Progress | None = None,
    profile: str | None = None,
) -> tuple[Outcome, ...]:
    """Execute launches of one stream that may overlap, each as `run_launch` does.

    Each but the first is a programmatic dependent of the one before it (see
    `execute_overlapped`). After one that cannot be executed, the rest is incomplete.

    Raises:
        UsageError: a launch does not fit its kernel: geometry or parameters.
    """
    launches = [
        replace(launch, pdl=number > 0) for number, launch in enumerate(launches)
    ]
    with ExitStack() as stack:
        done, rest = _execute(launches, table, options, progress, profile, None, stack)
        return (*_judged_together(done, table), *rest)  # each with those before it


@dataclass(kw_only=True)
class InOrder:
    """Executes the launches of one call in their order; a context manager.

    Attributes:
        table: Global memory.
        profile: Under which to look for races, or None not to.
        watch: Makes one more observer for each execution of a launch, or None.
        outcomes: One for each launch so far.
    """

    table: AllocationTable
    profile: str | None = None
    watch: Callable[[], Seen] | None = None
    outcomes: list[Outcome] = field(default_factory=list)
    _done: list[_Done] = field(default_factory=list)
    _chain: list[Launch] = field(default_factory=list)
    _before: Snapshot | None = None
    _after: Snapshot | None = None
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> InOrder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def run(
        self, launch: Launch, options: Options, progress: Progress | None = None
    ) -> tuple[Outcome, ...]:
        """Execute one more launch; its outcome comes last in `outcomes`.

        Where it may overlap with those before it, they are executed again and get new
        outcomes.

        Returns:
            The new outcomes.

        Raises:
            UsageError: the launch does not fit its kernel: geometry or parameters.
        """
        revived: list[Allocation] = []
        if self._follows_closely(launch):
            assert self._before is not None
            self.table.restore(self._before)
            revived = [a for a in self.table if a.freed and a.id in self._before.data]
            again = len(self._chain)
            del self.outcomes[-again:], self._done[-again:]
            self._chain.append(launch)
        else:
            # What cannot let others start early need not be executed again.
            self._before = self.table.snapshot() if _TRIGGER in launch.ptx else None
            self._chain = [launch]
        for allocation in revived:  # given back behind launches that still run
            allocation.freed = False
        try:
            done, rest = _execute(
                self._chain,
                self.table,
                options,
                progress,
                self.profile,
                self.watch,
                self._stack,
            )
        finally:
            for allocation in revived:
                allocation.freed = True
        known = len(self._done)
        self._done += done
        made = (*_judged_together(self._done, self.table, known), *rest)
        self.outcomes += made
        self._after = self.table.snapshot() if self._before else None
        return made

    @property
    def seen(self) -> Seen | None:
        """What `watch` made for the last launch that was executed."""
        return self._done[-1].seen if self._done else None

    def _follows_closely(self, launch: Launch) -> bool:
        """Whether it is the dependent of what ran last, with nothing in between."""
        return (
            launch.pdl
            and self._after is not None
            and self._chain[-1].stream == launch.stream
            and self.outcomes[-1].finished
            and not self.table.changed(self._after)
            # Memory that was handed out again cannot be as they found it.
            and self._before is not None
            and set(self._before.data) <= {a.id for a in self.table}
        )


def _execute(
    launches: Sequence[Launch],
    table: AllocationTable,
    options: Options,
    progress: Progress | None,
    profile: str | None,
    watch: Callable[[], Seen] | None,
    stack: ExitStack,
) -> tuple[list[_Done], list[Outcome]]:
    """Execute a chain; what was executed, and outcomes of what could not be."""
    works: list[Work] = []
    times: list[dict[str, float]] = []
    rest: list[Outcome] = []
    for launch in launches:
        times.append(no_time())
        try:
            made = CACHE.get(launch, table)
        except PtxError as error:
            reason = f"PTX cannot be read: {error}"
            rest.append(failed(launch, reason, times[-1], error.line))
            break
        except UnsupportedError as error:
            rest.append(failed(launch, str(error), times[-1]))
            break
        times[-1] |= {"parse": made.parse_seconds, "lower": made.lower_seconds}
        works.append(Work(program=made.program, launch=launch))
    watchers = [
        stack.enter_context(
            Watcher(
                work.program,
                profile=profile,
                dependent=work.launch.pdl,
                unwritten=options.shared_memory_check,
                undefined=options.register_check,
            )
        )
        for work in works
        if profile is not None
    ]
    seen = [stack.enter_context(watch()) for _ in works] if watch is not None else []
    told = [
        (*watchers[k : k + 1], *seen[k : k + 1]) for k in range(len(works))
    ]  # by launch
    watched = profile is not None
    findable = unwritten.findable(works, watched=watched)
    before = table.snapshot() if findable else None
    try:
        results = _results(works, table, options, progress, told)
    except MemoryError as error:
        reason = str(error) or "out of memory"
        return [], [failed(launch, reason, no_time()) for launch in launches]
    outcomes = []
    for number, (work, result) in enumerate(zip(works, results, strict=True)):
        seconds = times[number] | {"execute": result.seconds}
        outcome = judge(work.launch, work.program, table, result, seconds)
        watcher = watchers[number] if watchers else None
        if watcher is not None:
            outcome = with_races(outcome, watcher, work, table, result)
        outcomes.append(outcome)
    outcomes = with_reach(
        outcomes,
        results,
        lambda other: _results(works, table, other, None, ()),
        table=table,
        before=before,
        options=options,
    )
    done = [
        _Done(
            work=work,
            watcher=watchers[k] if watchers else None,
            outcome=outcome,
            seen=seen[k] if seen else None,
        )
        for k, (work, outcome) in enumerate(zip(works, outcomes, strict=True))
    ]
    rest += [
        failed(launch, PREREQUISITE, no_time())
        for launch in launches[len(done) + len(rest) :]
    ]
    return done, rest


def _results(
    works: Sequence[Work],
    table: AllocationTable,
    options: Options,
    progress: Progress | None,
    observers: Sequence[Sequence[Observer]],
) -> tuple[Result, ...]:
    entries = table.entries()
    if len(works) != 1:
        return execute_overlapped(works, entries, options, progress, observers)
    program, launch = works[0].program, works[0].launch
    own = observers[0] if observers else ()
    return (execute(program, launch, entries, options, progress, own),)


def _judged_together(
    done: Sequence[_Done], table: AllocationTable, known: int = 0
) -> list[Outcome]:
    """Outcomes from number `known` on, with races with what was launched before."""
    outcomes = []
    for number in range(known, len(done)):
        outcome = done[number].outcome
        for at in range(number):
            outcome = _against(outcome, done, at, number, table)
        outcomes.append(outcome)
    return outcomes


def _against(
    outcome: Outcome,
    done: Sequence[_Done],
    at: int,
    number: int,
    table: AllocationTable,
) -> Outcome:
    first, second = done[at], done[number]
    if (
        first.watcher is None
        or second.watcher is None
        or first.work.launch.stream != second.work.launch.stream
    ):
        return outcome
    overlapping = second.work.launch.pdl and all(
        between.work.launch.pdl and between.watcher and between.watcher.untimely
        for between in done[at + 1 : number]
    )
    found = second.watcher.after(first.watcher, overlapping=overlapping)
    if found and second.watcher.met_in_flight(first.watcher):
        reason = reason_of(first.work.launch, _IN_FLIGHT)
        return replace(outcome, incomplete=(*outcome.incomplete, reason))
    told = [
        between_launches.finding_of(race, first.work, second.work, table)
        for race in found
    ]
    return replace(outcome, findings=(*outcome.findings, *told))
