"""Kernel launches as operations of a runtime's streams: executed when they land."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field

from sidestream.harness.cuda.memory import Allocation, AllocationTable
from sidestream.harness.device.programs import CACHE
from sidestream.harness.device.vgpu import (
    Outcome,
    failed,
    judge,
    no_time,
    with_races,
    with_reach,
)
from sidestream.harness.errors import PtxError, UnsupportedError
from sidestream.harness.exec.machine import Options, execute
from sidestream.harness.exec.overlap import Work
from sidestream.harness.footprint.footprint import Footprint, Range
from sidestream.harness.launch import Launch
from sidestream.harness.race.watcher import Watcher
from sidestream.harness.runtime import Effects, Runtime, Span, here

Place = tuple[int, int, str]
"""Address, bytes and name of memory that a launch may use."""


@dataclass(kw_only=True)
class StreamLaunches:
    """Puts launches on the streams of a runtime; what the capture calls.

    A launch sees the memory that was allocated when it was called, and is held
    against other operations by the bytes that it really reads and writes.

    Attributes:
        runtime: Streams and memory.
        options: Called for the way to execute a launch.
        device: Called for the current device.
        profile: Under which to look for races inside launches, or None not to.
        outcomes: What each launch that landed showed, in the order of landing.
    """

    runtime: Runtime
    options: Callable[[], Options]
    device: Callable[[], int] = lambda: 0
    profile: str | None = None
    outcomes: list[Outcome] = field(default_factory=list)
    _table: AllocationTable = field(default_factory=AllocationTable)

    def __call__(self, launch: Launch) -> None:
        """Put a launch on the stream of its handle.

        Raises:
            CudaError: cudaErrorInvalidResourceHandle for a handle nobody made, or one
                of another device; what a capture forbids.
        """
        runtime, device = self.runtime, self.device()
        memory = runtime.memory(device)
        runtime.enqueue(
            kind="launch",
            label=launch.kernel,
            stream=runtime.stream(launch.stream, device=device),
            run=lambda: self._run(launch, memory),
            site=here(),
            device=device,
        )

    def _run(self, launch: Launch, memory: Iterable[Place]) -> Effects:
        table = self._table
        with ExitStack() as stack:
            for address, size, name in memory:
                covered = table.cover(va=address, size=size, name=name)
                stack.callback(table.uncover, covered)
            seen = stack.enter_context(Footprint())
            outcome = self._execute(launch, seen, stack)
            self.outcomes.append(outcome)
            reasons = [entry.reason for entry in outcome.incomplete]
            if seen.lost:
                reasons.append(f"{seen.lost} accesses could not be kept")
            return Effects(
                reads=_inside(seen.reads, table),
                writes=_inside(seen.writes, table),
                incomplete=tuple(reasons),
            )

    def _execute(self, launch: Launch, seen: Footprint, stack: ExitStack) -> Outcome:
        table, seconds = self._table, no_time()
        try:
            made = CACHE.get(launch, table)
            before = table.snapshot() if made.program.tensor_memory else None
            entries, options = table.entries(), self.options()
            watcher = None
            if self.profile is not None:
                watcher = stack.enter_context(
                    Watcher(made.program, profile=self.profile)
                )
            observers = (seen, watcher) if watcher else (seen,)
            result = execute(made.program, launch, entries, options, observer=observers)
        except PtxError as error:
            reason = f"PTX cannot be read: {error}"
            return failed(launch, reason, seconds, error.line)
        except (UnsupportedError, MemoryError) as error:
            return failed(launch, str(error) or "out of memory", seconds)
        seconds |= {"parse": made.parse_seconds, "lower": made.lower_seconds}
        seconds["execute"] = result.seconds
        outcome = judge(launch, made.program, table, result, seconds)
        if watcher is not None:
            work = Work(program=made.program, launch=launch)
            outcome = with_races(outcome, watcher, work, table, result)
        (outcome,) = with_reach(
            [outcome],
            [result],
            lambda other: (execute(made.program, launch, entries, other),),
            table=table,
            before=before,
            options=options,
        )
        return outcome


def _inside(ranges: Iterable[Range], table: AllocationTable) -> tuple[Span, ...]:
    """Return ranges as spans, without what lies in no allocation: that is a fault."""
    spans = []
    for start, end in ranges:
        at = start
        while at < end:
            home: Allocation | None = table.at(at)
            if home is None:
                break
            stop = min(end, home.end)
            spans.append(Span(at, stop - at))
            at = stop
    return tuple(spans)
