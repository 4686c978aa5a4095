"""An estimate of device time: for event timing and how long a wait would block.

A launch costs the host some microseconds; an operation takes a fixed time and its
bytes at the bandwidth of the memory. It orders nothing and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from sidestream.harness.runtime.spans import Span

CALL = 3e-6
"""Seconds that a call takes on the host."""
_START = 2e-6
LINK_START = 8e-6
"""Seconds before the first byte of a copy crosses to the host or back."""
_DEVICE_BANDWIDTH = 4e12
_LINK_BANDWIDTH = 5e10
"""Bytes a second between host and device."""


def estimate(kind: str, reads: Iterable[Span], writes: Iterable[Span]) -> float:
    """Return the seconds of an operation of which only the bytes are known."""
    if kind in ("event-record", "event-wait", "free", "host", "graph"):
        return 0.0
    size = sum(s.size for s in reads) + sum(s.size for s in writes)
    if kind == "copy":
        return LINK_START + size / _LINK_BANDWIDTH
    return _START + size / _DEVICE_BANDWIDTH
