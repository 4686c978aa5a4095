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
    events: Sequence[HostEvent], *, calls: int, returns_outputs: bool, kernel: str
) -> CheckOutcome:
    """Judge what the host did during execute calls.

    Args:
        events: Everything logged.
        calls: Execute calls that were watched.
        returns_outputs: True for an interface that hands out fresh outputs: then
            allocations are its contract and no finding.
        kernel: For the findings.
    """
    allowed = {"host-alloc"} if returns_outputs else set()
    found: dict[str, Finding] = {}
    for event in events:
        if event.kind not in allowed:
            finding = event.finding(kernel=kernel)
            found.setdefault(finding.id, finding)
    made = sum(event.kind in allowed for event in events)
    note = f", {made} allocations of outputs" if made else ""
    return judged(NAME, list(found.values()), f"{calls} calls watched{note}")
