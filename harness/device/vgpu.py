"""The virtual GPU: a launch executed on the CPU, and what it says of the launch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from sidestream.harness.cuda.memory import AllocationTable, Snapshot
from sidestream.harness.device import faults, races, unwritten
from sidestream.harness.device.outcome import (
    Outcome,
    failed,
    judge,
    no_time,
    reason_of,
)
from sidestream.harness.device.programs import CACHE
from sidestream.harness.errors import PtxError, UnsupportedError
from sidestream.harness.exec.machine import Options, execute
from sidestream.harness.exec.overlap import Work
from sidestream.harness.exec.program import Program
from sidestream.harness.exec.result import Result
from sidestream.harness.finding import Incomplete
from sidestream.harness.launch import Launch
from sidestream.harness.ptx import ir
from sidestream.harness.race.unjudged import unjudged
from sidestream.harness.race.watcher import Watcher


@dataclass(frozen=True, kw_only=True)
class Watched:
    """A launch executed under the eyes of the race detector.

    Attributes:
        outcome: Findings of races included.
        digest: Of what every agent knew at each access; 0 unless asked for.
        executed: Indices of the function's instructions that were executed.
        unfinished: Mbarriers that CTAs left in the middle of a phase.
    """

    outcome: Outcome
    digest: int = 0
    executed: frozenset[int] = frozenset()
    unfinished: int = 0


def run_launch(
    launch: Launch,
    table: AllocationTable,
    options: Options,
    progress: Callable[[int], None] | None = None,
    profile: str | None = None,
) -> Outcome:
    """Execute a launch on the memory of `table`.

    With a `profile` (`practice` or `isa`) races are looked for as well.

    A defect of the kernel is a finding, and whatever keeps the launch from being
    judged is `incomplete`; neither raises.

    Raises:
        UsageError: the launch does not fit its kernel: geometry or parameters.
    """
    return watch_launch(
        launch, table, options, progress=progress, profile=profile
    ).outcome


def watch_launch(
    launch: Launch,
    table: AllocationTable,
    options: Options,
    *,
    progress: Callable[[int], None] | None = None,
    profile: str | None = None,
    weak: Collection[int] = (),
    digest: bool = False,
    code: ir.Function | None = None,
    past: Collection[int] = (),
) -> Watched:
    """Execute a launch as `run_launch` does, and tell more of it.

    Args:
        launch: The launch.
        table: Its memory.
        options: Schedule and budgets.
        progress: Called with warp instructions done.
        profile: Under which to look for races, or None not to.
        weak: Instructions, by index, that are taken to order nothing.
        digest: Whether to keep a digest of what was known at every access.
        code: The kernel to execute in place of what the launch's text says.
        past: Of that, waits for loads of tensor memory that no first read ends at.

    Raises:
        UsageError: the launch does not fit its kernel: geometry or parameters.
    """
    seconds = no_time()
    try:
        prepared = CACHE.get(launch, table, code, past)
        program = prepared.program
        seconds["parse"], seconds["lower"] = (
            prepared.parse_seconds,
            prepared.lower_seconds,
        )
        work = Work(program=program, launch=launch)
        watched = profile is not None
        findable = unwritten.findable([work], watched=watched)
        before = table.snapshot() if findable else None

        def again(other: Options) -> tuple[Result, ...]:
            return (execute(program, launch, table.entries(), other),)

        if profile is None:
            result = execute(program, launch, table.entries(), options, progress)
            seconds["execute"] = result.seconds
            outcome = judge(launch, program, table, result, seconds)
            (outcome,) = with_reach(
                [outcome], [result], again, table=table, before=before, options=options
            )
            return Watched(outcome=outcome)
        with Watcher(
            program,
            profile=profile,
            weak=weak,
            digest=digest,
            unwritten=options.shared_memory_check,
            undefined=options.register_check,
        ) as watcher:
            entries = table.entries()
            result = execute(program, launch, entries, options, progress, watcher)
            seconds["execute"] = result.seconds
            outcome = judge(launch, program, table, result, seconds)
            outcome = with_races(outcome, watcher, work, table, result)
            (outcome,) = with_reach(
                [outcome], [result], again, table=table, before=before, options=options
            )
            return Watched(
                outcome=outcome,
                digest=watcher.digest,
                executed=_executed(program, result),
                unfinished=result.unfinished,
            )
    except PtxError as error:
        text = f"PTX cannot be read: {error}"
        return Watched(outcome=failed(launch, text, seconds, error.line))
    except (UnsupportedError, MemoryError) as error:
        text = str(error) or "out of memory"
        return Watched(outcome=failed(launch, text, seconds))


def _executed(program: Program, result: Result) -> frozenset[int]:
    """Indices of the function's instructions that were executed."""
    return frozenset(program.origin[result.counts > 0].tolist()) - {-1}


def with_races(
    outcome: Outcome,
    watcher: Watcher,
    work: Work,
    table: AllocationTable,
    result: Result,
) -> Outcome:
    """Add to an outcome what the race detector saw, and what it does not model."""
    launch, program = work.launch, work.program
    missed = [
        reason_of(launch, unknown.reason, unknown.line)
        for unknown in unjudged(program, _executed(program, result), watcher.profile)
    ]
    if watcher.lost:
        reason = f"{watcher.lost} accesses or races were not kept by the race detector"
        missed.append(reason_of(launch, reason))
    told = watcher.races()
    found = [races.finding_of(race, program, launch, table) for race in told]
    # What a racing read finds is a matter of order, and the race says of which.
    racing = {s.pc for r in told if r.space == "shared" for s in (r.earlier, r.later)}
    found += [
        faults.finding_of(read, program, table)
        for read in watcher.unwritten()
        if read.pc not in racing
    ]
    return replace(
        outcome,
        findings=(*outcome.findings, *found),
        incomplete=(*outcome.incomplete, *missed),
        relaxed=watcher.relaxed,
    )


def with_reach(
    outcomes: Sequence[Outcome],
    results: Sequence[Result],
    again: Callable[[Options], Sequence[Result]],
    *,
    table: AllocationTable,
    before: Snapshot | None,
    options: Options,
) -> list[Outcome]:
    """Tell reads of what nothing wrote that matter from those that do not.

    Args:
        outcomes: Of launches that were executed together.
        results: Theirs.
        again: Executes the launches again, on the memory of `table`.
        table: Memory, as they left it.
        before: As they found it; None where no such read can be told.
        options: How they were executed.
    """
    kinds = unwritten.suspects([f for o in outcomes for f in o.findings])
    if before is None or not kinds:
        return list(outcomes)
    reaches = {
        kind: unwritten.reach_of(
            kind,
            results=results,
            again=again,
            table=table,
            before=before,
            options=options,
        )
        for kind in sorted(kinds)
    }
    made = []
    for outcome in outcomes:
        grades = unwritten.graded(outcome.findings, reaches)
        missed = tuple(
            Incomplete(
                reason=f"{finding.message}; {reaches[finding.extra['fault']].told()}",
                kernel=outcome.kernel,
                ptx_line=finding.sites[0].ptx_line,
            )
            for finding in grades.undecided
        )
        made.append(
            replace(
                outcome,
                findings=grades.kept,
                harmless=grades.harmless,
                incomplete=(*outcome.incomplete, *missed),
            )
        )
    return made
