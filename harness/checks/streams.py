"""Stream: every launch of a call is ordered on the call's own stream."""

from __future__ import annotations

from collections.abc import Sequence

from sidestream.harness.checks.observation import Execution, Rows, difference, place
from sidestream.harness.checks.outcome import CheckOutcome, judged, not_run
from sidestream.harness.finding import Finding, Rule, Site

NAME = "stream"
RULE = Rule(
    id="host.stream", title="Every operation of a call is ordered on the call's stream"
)


STALLED = Rule(
    id="host.stream-stalled",
    title="CUDA Programming Guide: Streams; only the call's stream orders a call",
)


def check(
    base: Execution, *, stream: int, stalled: Sequence[Finding] = ()
) -> CheckOutcome:
    """Compare the stream of each launch with the handle that the caller gave.

    Args:
        base: A call.
        stream: The handle.
        stalled: What calls beside stalled streams showed, by `moved`.
    """
    if not base.launches and base.error:
        return not_run(NAME, "the call failed before it launched anything")
    findings = [
        Finding(
            kind="stream-race",
            rule=RULE,
            message=(
                f"{seen.kernel} is launched on stream {seen.stream:#x}, the call was "
                f"given {stream:#x}: nothing orders it after the caller's work"
            ),
            kernel=seen.kernel,
            sites=(
                Site(agent=f"stream {seen.stream:#x}", operation="launch"),
                Site(agent=f"stream {stream:#x}", operation="the caller's work"),
            ),
            need="the caller's handle at the launch, or events that join the streams",
        )
        for seen in base.launches
        if seen.stream != stream
    ]
    findings += stalled
    return judged(NAME, findings, f"{len(base.launches)} launches on {stream:#x}")


def moved(
    base: Execution, run: Execution, *, rows: Rows, kernel: str, stalled: str
) -> list[Finding]:
    """Judge a call that was made while one stream was stalled.

    Args:
        base: The same call with nothing stalled.
        run: The call.
        rows: Rows to compare are the live ones.
        kernel: For the finding.
        stalled: Which stream was: `the call's stream` or `the current stream`.
    """
    off = difference(base, run, rows.live)
    if off is None:
        return []
    late = "does not wait for it" if "call" in stalled else "is put on it"
    return [
        Finding(
            kind="stream-race",
            rule=STALLED,
            message=(
                f"with {stalled} stalled {place(off, rows)} and {off.number} elements "
                f"are others: something that the call does {late}"
            ),
            kernel=kernel,
            sites=(
                Site(agent=stalled, operation="stalled"),
                Site(agent="the call", operation="its work"),
            ),
            need="every fill, copy and launch of the call on the caller's stream",
        )
    ]


def stopped(*, beside: str, error: str, kernel: str) -> Finding:
    """Tell of a call that fails only while another stream is the current one."""
    return Finding(
        kind="stream-race",
        rule=STALLED,
        message=f"with {beside} the call fails: {error}",
        kernel=kernel,
        sites=(
            Site(agent="the current stream", operation="beside the call"),
            Site(agent="the call", operation="its work"),
        ),
        need="every fill, copy and launch of the call on the caller's stream",
    )
