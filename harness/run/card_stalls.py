"""Calls beside stalled streams: what a call puts elsewhere comes too early or late.

A stall is several times as long as the host needed for a call, so that the host is in
time; longer ones follow where it was not.
"""

from __future__ import annotations

from collections.abc import Iterator

from sidestream.harness.checks import streams
from sidestream.harness.checks.observation import Execution, Rows
from sidestream.harness.checks.outcome import CheckOutcome, not_run
from sidestream.harness.cuda.host_sync import NEEDS, RULES
from sidestream.harness.drivers.protocol import Prepared
from sidestream.harness.finding import Finding, Site
from sidestream.harness.run.card_call import CLOCK, CardCall, Started

OWN, AMBIENT = "the call's stream", "the current stream"
_LEAST, _MOST = 1_000_000, 1_000_000_000
"""Cycles that a stream is stalled for; nothing outlasts the last one."""
_TIMES = 4
"""How often a call of the host fits into the first stall."""
_LONGER = 8


def stalls(seconds: float) -> Iterator[int]:
    """Yield cycles to stall for, where a call took the host some seconds."""
    cycles = max(_LEAST, int(_TIMES * seconds * CLOCK))
    while cycles < _MOST:
        yield cycles
        cycles *= _LONGER
    yield _MOST


def start(
    call: CardCall, prepared: Prepared, *, stalled: str, pattern: str
) -> Started | None:
    """Make a call beside a stalled stream; None if the host was never in time.

    Args:
        call: Its tensors.
        prepared: What is called.
        stalled: `OWN` or `AMBIENT`.
        pattern: What the scratch holds.
    """
    made = None
    begin = call.start_on_stalled if stalled == OWN else call.start_beside_stalled
    for cycles in stalls(call.host_seconds):
        if made is not None:
            made.finish()  # perhaps the host was slow
        made = begin(
            prepared, label=f"{stalled} stalled", pattern=pattern, stall=cycles
        )
        if not (made.done if stalled == OWN else made.late(cycles)):
            return made
    # A host that waits for its own stream does so however long that is stalled. What
    # comes late on the current one may have been in time: nothing was shown.
    return made if stalled == OWN else None


def check(
    base: Execution,
    *,
    own: tuple[Started, Execution] | None,
    beside: Execution | None,
    stream: int,
    rows: Rows,
    kernel: str,
) -> CheckOutcome:
    """Judge the streams of launches, and calls beside stalled streams.

    Args:
        base: The call with nothing stalled.
        own: The call on its own stalled stream, how it began and what it gave.
        beside: The call while the current stream was stalled.
        stream: Handle of the call's stream.
        rows: Rows to compare are the live ones.
        kernel: For the findings.
    """
    if own is None or beside is None:
        return not_run(streams.NAME, "the host was slower than the longest stall")
    found: list[Finding] = []
    for run, which in ((own[1], OWN), (beside, AMBIENT)):
        if not run.finished:
            return not_run(streams.NAME, f"with {which} stalled: {run.error}")
        found += streams.moved(base, run, rows=rows, kernel=kernel, stalled=which)
    if own[0].done:
        found.append(_waited(kernel))
    return streams.check(base, stream=stream, stalled=found)


def _waited(kernel: str) -> Finding:
    return Finding(
        kind="host-sync",
        rule=RULES["host-sync"],
        message="execute returns only when the stalled stream of the call is done",
        kernel=kernel,
        sites=(Site(agent="host", operation="execute on a stalled stream"),),
        need=NEEDS["host-sync"],
    )
