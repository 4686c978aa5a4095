"""What the CUDA runtime refuses a script, and captures that hold nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from sidestream.harness.finding import Finding, Rule, Site
from sidestream.harness.run.launch_contracts import Foreign
from sidestream.harness.run.script_checks import by_package
from sidestream.harness.runtime import CallSite
from sidestream.harness.runtime.captured_memory import Unfilled
from sidestream.harness.runtime.contexts import Change
from sidestream.harness.runtime.state import Refusal

CAPTURE_RULE = Rule(
    id="host.capture.forbidden",
    title="CUDA Programming Guide, Prohibited and Unhandled Operations",
)
"""NVIDIA/cudnn-frontend#354, #1151."""
EMPTY_RULE = Rule(
    id="host.capture.empty",
    title="A capture records the work of its own stream (pytorch/helion#2817)",
)
FIRST_RULE = Rule(
    id="host.capture.first",
    title="CUDA Programming Guide, Creating a Graph Using Stream Capture: captured "
    "work is not enqueued for execution",
)
DEVICE_RULE = Rule(
    id="host.device",
    title="CUDA Programming Guide, Stream and Event Behavior of multiple devices",
)
CONTEXT_RULE = Rule(
    id="host.context",
    title="CUDA Driver API, Context Management: a thread has a current context before "
    "calls that need one",
)
BOUNDS_RULE = Rule(
    id="host.bounds",
    title="CUDA Driver API, Memory Management: what is copied or filled lies in one "
    "allocation",
)
_RULES = {
    "cudaErrorInvalidResourceHandle": ("contract", DEVICE_RULE),
    "cudaErrorDeviceUninitialized": ("contract", CONTEXT_RULE),
    "cudaErrorCapturedEvent": ("capture", CAPTURE_RULE),
}
_NEEDS = {
    CAPTURE_RULE.id: "the call before the capture or after it",
    DEVICE_RULE.id: "streams, events and memory of the device that is current",
    BOUNDS_RULE.id: "an address and a size within the allocation",
    CONTEXT_RULE.id: "cuCtxSetCurrent, or a call of the runtime, in this thread first",
}
_CONSEQUENCE = "cudaErrorStreamCaptureInvalidated"
"""Told of a capture that an earlier call broke: that one counts."""


def refused(seen: Sequence[Refusal]) -> tuple[Finding, ...]:
    """Return refused calls as findings, where they are mistakes of the program.

    A query that says no or memory that is spent is none.
    """
    found = []
    for refusal in seen:
        kind, rule = _RULES.get(refusal.name, ("", CAPTURE_RULE))
        if refusal.kind:
            kind, rule = refusal.kind, BOUNDS_RULE
        if refusal.name.startswith("cudaErrorStreamCapture"):
            kind = "" if refusal.name == _CONSEQUENCE else "capture"
        if kind:
            text = f"{refusal.name}: {refusal.message}"
            need = _NEEDS[rule.id]
            found.append(_finding(kind, rule, text, refusal.name, refusal.site, need))
    return tuple(found)


def empty(seen: Sequence[CallSite]) -> tuple[Finding, ...]:
    """Return captures that captured nothing as findings."""
    text = "the graph is empty: what it was to hold went to other streams"
    need = "launches on the stream that is captured, asked for at the call"
    return tuple(
        _finding("capture", EMPTY_RULE, text, "end of capture", site, need)
        for site in seen
    )


def unfilled(seen: Sequence[Unfilled]) -> tuple[Finding, ...]:
    """Return reads of what only a captured operation fills as findings."""
    return tuple(
        Finding(
            kind="capture",
            rule=FIRST_RULE,
            message=(
                f"{one.op.label} on {one.op.where} reads {one.span}, which "
                f"{one.filler} of a capture is to fill: no replay has done so yet"
            ),
            sites=(
                _site(one.op.where, one.op.label, one.op.site),
                _site("capture", one.filler, one.captured),
            ),
            need="filled before the capture, or by a replay first",
        )
        for one in seen
    )


def foreign(seen: Sequence[Foreign]) -> tuple[Finding, ...]:
    """Return launches for memory of another device as findings."""
    return tuple(
        _finding(
            "contract",
            DEVICE_RULE,
            f"{one.kernel} is launched on device {one.device}; parameter "
            f"{one.parameter} is memory of device {one.memory}",
            "launch",
            one.site,
            _NEEDS[DEVICE_RULE.id],
        )
        for one in seen
    )


def left_changed(
    changes: Mapping[int, Change], worked: Collection[int], home: Path
) -> tuple[Finding, ...]:
    """Return calls of packages that leave another current device behind.

    Those that put no work on a device may be there to choose one.
    """
    return tuple(
        _finding(
            "contract",
            DEVICE_RULE,
            f"the call leaves device {change.after} current, which was "
            f"{change.before} before it",
            "cudaSetDevice",
            change.site,
            "the device that was current, put back",
        )
        for call, change in changes.items()
        if change.before != change.after
        and call in worked
        and by_package(change.site, home)
    )


def _finding(
    kind: str, rule: Rule, message: str, operation: str, site: CallSite, need: str
) -> Finding:
    sites = (_site("host", operation, site),)
    return Finding(kind=kind, rule=rule, message=message, sites=sites, need=need)


def _site(agent: str, operation: str, site: CallSite) -> Site:
    return Site(
        agent=agent,
        operation=operation,
        source=site.frames[0].split(" in ")[0] if site.frames else None,
        detail="\n".join(site.frames),
    )
