"""What executing one launch showed, as findings and what could not be judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device import faults
from sidestream.harness.exec.program import Program
from sidestream.harness.exec.result import Result
from sidestream.harness.finding import Finding, Incomplete
from sidestream.harness.launch import Launch

PREREQUISITE = "a launch that it depends on did not complete"
"""Why a launch was not executed."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What executing one launch showed.

    Attributes:
        kernel: Name of the entry.
        stream: Handle it was launched on.
        findings: Defects, one for each faulty instruction and kind.
        incomplete: Why the launch, or what it did, could not be judged.
        finished: Whether it ran to its end.
        warp_instructions: Executed.
        seconds: Wall time by phase: `parse`, `lower`, `execute`.
        counted: Program and result of a launch that ran with the cost model.
        relaxed: How often each relaxation of the ordering profile decided something.
        made: Decisions of the scheduler, as `Result.made`.
        harmless: Reads of what nothing wrote whose values reach no global memory.
    """

    kernel: str
    stream: int
    findings: tuple[Finding, ...] = ()
    incomplete: tuple[Incomplete, ...] = ()
    finished: bool = False
    warp_instructions: int = 0
    seconds: dict[str, float]
    counted: tuple[Program, Result] | None = None
    relaxed: Mapping[str, int] = field(default_factory=dict)
    made: bytes = b""
    harmless: tuple[Finding, ...] = ()


def no_time() -> dict[str, float]:
    """Return no seconds for each phase."""
    return dict.fromkeys(("parse", "lower", "execute"), 0.0)


def judge(
    launch: Launch,
    program: Program,
    table: AllocationTable,
    result: Result,
    seconds: dict[str, float],
) -> Outcome:
    """Turn what the core reports into findings and what could not be judged."""
    found = [faults.finding_of(fault, program, table) for fault in result.faults]
    unjudged: list[Incomplete] = []
    if result.dropped_faults:
        unjudged.append(
            reason_of(launch, f"{result.dropped_faults} more faults were not recorded")
        )
    status = result.status
    if status in ("deadlock", "divergent-sync"):
        # Imports networkx, which nothing else needs.
        from sidestream.harness.device import waits

        found.append(waits.finding_of(result, program))
    elif status == "unsupported":
        ins = program.instruction(result.stop_pc)
        text = next(
            (why for line, why in program.unsupported if ins and line == ins.line),
            "an instruction without semantics",
        )
        unjudged.append(reason_of(launch, text, ins.line if ins else None))
    elif status == "budget":
        unjudged.append(
            reason_of(launch, f"budget spent: {result.warp_instructions} instructions")
        )
    elif status == "deadline":
        unjudged.append(reason_of(launch, f"deadline passed: {result.seconds:.1f} s"))
    elif status == "prerequisite":
        unjudged.append(reason_of(launch, PREREQUISITE))
    elif status not in ("done", "trap"):
        unjudged.append(reason_of(launch, f"the core stopped: {status}"))
    return Outcome(
        kernel=launch.kernel,
        stream=launch.stream,
        findings=tuple(found),
        incomplete=tuple(unjudged),
        finished=status == "done",
        warp_instructions=result.warp_instructions,
        seconds=seconds,
        counted=(program, result) if result.costs is not None else None,
        made=result.made,
    )


def reason_of(launch: Launch, reason: str, line: int | None = None) -> Incomplete:
    """Say why a launch could not be judged."""
    return Incomplete(reason=reason, kernel=launch.kernel, ptx_line=line)


def failed(
    launch: Launch, reason: str, seconds: dict[str, float], line: int | None = None
) -> Outcome:
    """Return the outcome of a launch that could not be executed at all."""
    return Outcome(
        kernel=launch.kernel,
        stream=launch.stream,
        incomplete=(reason_of(launch, reason, line),),
        seconds=seconds,
    )


def tagged(outcome: Outcome, *, scenario: str, replay: str) -> Outcome:
    """Return the outcome with its findings placed in a scenario."""
    return replace(
        outcome,
        findings=tuple(
            replace(f, scenario=scenario, replay=replay) for f in outcome.findings
        ),
        incomplete=tuple(replace(i, scenario=scenario) for i in outcome.incomplete),
    )
