"""An estimate of device time: for event timing and how long a wait would block.

A launch costs the host some microseconds; an operation takes a fixed time and its
bytes at the bandwidth of the memory. It orders nothing and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sidestream.harness.runtime.spans import Span

CALL = 3e-6
"""Seconds that a call takes on the host."""
_START = 2e-6
LINK_START = 8e-6
"""Seconds before the first byte of a copy crosses to the host or back."""
_DEVICE_BANDWIDTH = 4e12
_LINK_BANDWIDTH = 5e10
"""Bytes a second between host and device."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """When something takes place by estimate, in seconds since the program began.

    Attributes:
        name: The operation, or the call that waits.
        track: The stream, or `host`.
        start: When it begins; an operation of a stream not before it was called.
        seconds: How long it takes.
        called: When the host called it.
        place: Where.
        id: Of the operation; 0 for a wait of the host.
        after: Operations of other streams that an event makes it wait for.
    """

    name: str
    track: str
    start: float
    seconds: float
    called: float
    place: str
    id: int = 0
    after: tuple[int, ...] = ()


def estimate(kind: str, reads: Iterable[Span], writes: Iterable[Span]) -> float:
    """Return the seconds of an operation of which only the bytes are known."""
    if kind in ("event-record", "event-wait", "free", "host", "graph"):
        return 0.0
    size = sum(s.size for s in reads) + sum(s.size for s in writes)
    if kind == "copy":
        return LINK_START + size / _LINK_BANDWIDTH
    return _START + size / _DEVICE_BANDWIDTH
