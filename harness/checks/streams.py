"""Stream: every launch of a call is ordered on the call's own stream."""

from __future__ import annotations

from sidestream.harness.checks.observation import Execution
from sidestream.harness.checks.outcome import CheckOutcome, judged, not_run
from sidestream.harness.finding import Finding, Rule, Site

NAME = "stream"
RULE = Rule(
    id="host.stream", title="Every operation of a call is ordered on the call's stream"
)


def check(base: Execution, *, stream: int) -> CheckOutcome:
    """Compare the stream of each launch with the handle that the caller gave."""
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
    return judged(NAME, findings, f"{len(base.launches)} launches on {stream:#x}")
