"""Whether a value that nothing wrote reaches global memory.

A read of on-chip memory before any write of it is a defect only if the value matters: a
kernel may load what a select then replaces. So the launch is executed again from the
memory that it found, with other bytes in place of the unwritten ones. What it leaves is
the same, whatever they were, or the value reached it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sidestream.harness.cuda.memory import AllocationTable, Snapshot
from sidestream.harness.exec.machine import Options
from sidestream.harness.exec.overlap import Work
from sidestream.harness.exec.result import Result
from sidestream.harness.finding import Finding

SPACES = {
    "tmem-uninit": "tensor memory",
    "smem-uninit": "shared memory",
    "register-uninit": "registers",
}
"""By kind of fault, the memory whose contents are varied."""
_PATTERNS = (0, 0xFFFF_FFFF, 0x3F80_3F80)
"""Zeros, NaN of every float type, and about 1 of bfloat16 and of float32."""
_JUDGED = ("done", "trap", "deadlock", "divergent-sync")
"""Ends of a launch that are its own doing."""
_CUT_SHORT = ("deadline", "prerequisite")
"""Ends of a launch that are not: time ran out, or another launch did not complete."""


@dataclass(frozen=True, kw_only=True)
class Reach:
    """How far values of one memory reach that nothing wrote.

    Attributes:
        differs: Bytes that came out otherwise, by the name of their allocation.
        otherwise: What else went otherwise, or empty.
        unknown: Why it could not be decided, or empty.
        cut_short: Whether that is because a launch was stopped from outside.
    """

    differs: Mapping[str, int]
    otherwise: str = ""
    unknown: str = ""
    cut_short: bool = False

    @property
    def nowhere(self) -> bool:
        """Whether nothing outside of the chip depends on them."""
        return not (self.differs or self.otherwise or self.unknown)

    def told(self) -> str:
        """Say it in a few words."""
        if self.differs:
            parts = [f"{n} bytes of {name}" for name, n in sorted(self.differs.items())]
            return f"other contents change {', '.join(parts)}"
        if self.otherwise:
            return f"with other contents {self.otherwise}"
        return f"it is not known whether the value matters: {self.unknown}"


def findable(works: Sequence[Work], *, watched: bool) -> bool:
    """Whether one of several launches may be told to read what nothing wrote.

    Args:
        works: The launches.
        watched: Whether the race detector watches, which alone knows shared memory
            and registers.
    """
    return any(
        work.program.tensor_memory
        or (watched and work.program.static_smem + work.launch.dynamic_smem > 0)
        or (watched and work.program.undefined.registers)
        for work in works
    )


def suspects(findings: Collection[Finding]) -> frozenset[str]:
    """Kinds of faults among findings that are to be graded."""
    return frozenset(kind for f in findings if (kind := f.extra.get("fault")) in SPACES)


def patterns(kind: str, options: Options) -> tuple[Options, Options]:
    """Return options with two other fills of the memory that a fault is about."""
    plain = replace(options, cost=None)
    if SPACES[kind] == "shared memory":
        first, second = _others(options.smem_fill)
        return replace(plain, smem_fill=first), replace(plain, smem_fill=second)
    usual = options.tensor_fill
    if SPACES[kind] == "registers":
        # Tensor memory is filled like registers, unless it is told otherwise.
        kept = options.register_fill if usual is None else usual
        plain = replace(plain, tensor_fill=kept)
        first, second = _others(options.register_fill)
        return (
            replace(plain, register_fill=first),
            replace(plain, register_fill=second),
        )
    first, second = _others(options.register_fill if usual is None else usual)
    return replace(plain, tensor_fill=first), replace(plain, tensor_fill=second)


def _others(usual: int) -> tuple[int, int]:
    first, second = [pattern for pattern in _PATTERNS if pattern != usual][:2]
    return first, second


@dataclass(frozen=True, kw_only=True)
class Graded:
    """Findings of a launch, by what became of values that nothing wrote.

    Attributes:
        kept: Those whose value matters, with how, and all about something else.
        harmless: Those whose value does not.
        undecided: Reads of which nobody can say: a launch was stopped from outside.
    """

    kept: tuple[Finding, ...]
    harmless: tuple[Finding, ...]
    undecided: tuple[Finding, ...]


def graded(findings: Sequence[Finding], reaches: Mapping[str, Reach]) -> Graded:
    """Grade findings by what was found out about their kind of memory."""
    kept, harmless, unjudged = [], [], []
    for finding in findings:
        reach = reaches.get(finding.extra.get("fault", ""))
        if reach is None:
            kept.append(finding)
        elif reach.nowhere:
            harmless.append(finding)
        elif reach.cut_short:
            unjudged.append(finding)
        else:
            text = f"{finding.message}; {reach.told()}"
            kept.append(replace(finding, message=text))
    return Graded(kept=tuple(kept), harmless=tuple(harmless), undecided=tuple(unjudged))


def reach_of(
    kind: str,
    *,
    results: Sequence[Result],
    again: Callable[[Options], Sequence[Result]],
    table: AllocationTable,
    before: Snapshot,
    options: Options,
) -> Reach:
    """Execute launches again with other bytes where nothing wrote, and compare.

    Args:
        kind: Of the fault, as in `SPACES`.
        results: What the launches gave.
        again: Executes them on the memory of `table`.
        table: Memory as they left it; it is so again afterwards.
        before: Memory as they found it.
        options: How they were executed.
    """
    if any(result.status != "done" for result in results):
        cut_short = any(result.status in _CUT_SHORT for result in results)
        return Reach(differs={}, unknown="the launch did not end", cut_short=cut_short)
    after = table.snapshot()
    differs: Counter[str] = Counter()
    usual = [_doings(result) for result in results]
    try:
        for other in patterns(kind, options):
            table.restore(before)
            ran = again(other)
            stopped = next((r.status for r in ran if r.status != "done"), None)
            if stopped in _JUDGED:
                return Reach(differs={}, otherwise=f"it ends in {stopped}")
            if stopped is not None:
                return Reach(differs={}, unknown=f"executed again: {stopped}")
            if [_doings(result) for result in ran] != usual:
                return Reach(differs={}, otherwise="other defects show")
            for change in table.changed(after):
                name, size = change.allocation.name, change.stop - change.start
                differs[name] += size
            if differs:
                break
    finally:
        table.restore(after)
    return Reach(differs=dict(differs))


def _doings(result: Result) -> frozenset[tuple[str, int]]:
    return frozenset((fault.kind, fault.pc) for fault in result.faults)
