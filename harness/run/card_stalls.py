"""Calls beside stalled streams: what a call puts elsewhere comes too early or late.

A stall is several times as long as the host needed for a call, so that the host is in
time; longer ones follow where it was not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sidestream.harness.checks import streams
from sidestream.harness.checks.observation import Execution, Rows
from sidestream.harness.checks.outcome import CheckOutcome, not_run
from sidestream.harness.cuda.host_sync import NEEDS, RULES
from sidestream.harness.drivers.protocol import Prepared, Results
from sidestream.harness.errors import SidestreamError
from sidestream.harness.finding import Finding, Site
from sidestream.harness.launch import Launch
from sidestream.harness.run.card_call import CardCall

CLOCK = 2e9
"""Cycles a second that no card passes: a stall takes at least as long."""
OWN, AMBIENT = "the call's stream", "the current stream"
_LEAST, _MOST = 1_000_000, 1_000_000_000
"""Cycles that a stream is stalled for; nothing outlasts the last one."""
_TIMES = 4
"""How often a call of the host fits into the first stall."""
_LONGER = 8


@dataclass(frozen=True, kw_only=True)
class Started:
    """A call that may still run on the card.

    Attributes:
        done: Whether its stream was done when the call returned: the host has waited.
        seconds: What the host needed until its results were taken.
        finish: Waits for the card; to be called before the next call.
    """

    done: bool
    seconds: float
    finish: Callable[[], Execution]

    def late(self, cycles: int) -> bool:
        """Whether the host needed half as long as a stall of some cycles, or more."""
        return 2 * self.seconds >= cycles / CLOCK


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
    begin = _on_stalled if stalled == OWN else _beside_stalled
    for cycles in stalls(call.host_seconds):
        if made is not None:
            made.finish()  # perhaps the host was slow
        made = begin(call, prepared, pattern=pattern, stall=cycles)
        if not (made.done if stalled == OWN else made.late(cycles)):
            return made
    # A host that waits for its own stream does so however long that is stalled. What
    # comes late on the current one may have been in time: nothing was shown.
    return made if stalled == OWN else None


def _on_stalled(
    call: CardCall, prepared: Prepared, *, pattern: str, stall: int
) -> Started:
    """Make a call on its own stream, which is stalled before its inputs arrive.

    What the call puts elsewhere finds zeros.
    """
    call.load(pattern)
    card, there = call.card, call.arena.there
    late = there.clone()
    there.zero_()
    card.wait()
    with card.on(card.stream):
        card.stall(stall)
        there.copy_(late)
    launches: list[Launch] = []

    def made() -> Results:
        return call.run(prepared, launches)

    return _snapped(call, made, f"{OWN} stalled", launches)


def _beside_stalled(
    call: CardCall, prepared: Prepared, *, pattern: str, stall: int
) -> Started:
    """Make a call on its own stream while another, stalled one is current.

    What the call puts on the current stream comes after its results were taken, if
    the host is quick.
    """
    call.load(pattern)
    card = call.card
    ambient = card.another_stream()
    launches: list[Launch] = []

    def made() -> Results:
        with card.on(ambient):
            card.stall(stall)
            return call.run(prepared, launches)

    return _snapped(call, made, f"{AMBIENT} stalled", launches)


def _snapped(
    call: CardCall, make: Callable[[], Results], label: str, launches: list[Launch]
) -> Started:
    """Make a call and take its results on its own stream."""
    card, error, results, done = call.card, "", None, False
    call.doing.begin(label, launches)
    began = time.perf_counter()
    try:
        made = make()
        done = bool(card.stream.query())
        with card.on(card.stream):
            lse, amax = (
                kept.clone() if kept is not None else None
                for kept in (made.lse, made.amax)
            )
            results = replace(made, out=made.out.clone(), lse=lse, amax=amax)
    except (SidestreamError, ValueError, RuntimeError) as raised:
        error = call.doing.raised(raised)
    spent = time.perf_counter() - began

    def finish() -> Execution:
        failed = error
        try:
            if not failed:
                card.wait()
        except RuntimeError as raised:
            failed = call.doing.raised(raised, label=label)
        return call.seen(label, results, error=failed or None, launches=launches)

    return Started(done=done, seconds=spent, finish=finish)


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
