"""Host sync: execute reads nothing back, waits for nothing and makes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sidestream.harness.checks.outcome import CheckOutcome, judged
from sidestream.harness.finding import Finding

if TYPE_CHECKING:
    from sidestream.harness.cuda.host_sync import HostEvent

NAME = "host-sync"


def check(
    events: Sequence[HostEvent],
    *,
    calls: int,
    returns_outputs: bool,
    callers: frozenset[str],
    kernel: str,
    scratch: tuple[str, int] | None = None,
) -> CheckOutcome:
    """Judge what the host did during execute calls.

    Args:
        events: Everything logged.
        calls: Execute calls that were watched.
        returns_outputs: True for an interface that hands out fresh outputs: then
            allocating and filling memory of its own is its contract and no finding.
        callers: Names of the tensors that the caller owns.
        kernel: For the findings.
        scratch: Name of the lent workspace and handle of the call's stream, for a
            package whose contract lets it fill that memory: a fill which the driver
            puts on that stream is a launch of its own like its kernels. None where
            the kernels alone may write.
    """
    found: dict[str, Finding] = {}
    own = fills = 0
    for event in events:
        if scratch is not None and (event.detail, event.stream) == scratch:
            fills += 1
            continue
        if returns_outputs and _on_own_memory(event, callers):
            own += 1
            continue
        finding = event.finding(kernel=kernel)
        found.setdefault(finding.id, finding)
    note = f", {own} operations on outputs of its own" if own else ""
    if fills:
        note += f", {fills} fills of lent scratch on its stream"
    return judged(NAME, list(found.values()), f"{calls} calls watched{note}")


def _on_own_memory(event: HostEvent, callers: frozenset[str]) -> bool:
    """Whether an event makes or fills memory that is not the caller's."""
    if event.kind == "hidden-launch":
        return callers.isdisjoint(event.detail.split(", "))
    return event.kind == "host-alloc"
