"""Events: markers in a stream that streams and the host can wait for.

Rules: CUDA Programming Guide, "Events"; CUDA Runtime API, "Event Management". A wait
takes the record that was the last when the wait was called; a later record does not
move it. Waiting for an event that was never recorded does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sidestream.harness.runtime.op import Clock

if TYPE_CHECKING:
    from sidestream.harness.runtime.capture import Capture


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One recording of an event.

    Attributes:
        op: Number of the operation that records.
        clock: What happened before it.
        stream: Where it was recorded, for reports.
        agent: Of that stream.
        handle: Of that stream.
        time: When the device would reach it, in seconds.
        capture: The capture it was recorded in, or None.
        nodes: The nodes of that capture it stands behind.
    """

    op: int
    clock: Clock
    stream: str
    handle: int
    time: float = 0.0
    capture: Capture | None = None
    nodes: frozenset[int] = frozenset()


@dataclass(eq=False, kw_only=True)
class Event:
    """One event.

    Attributes:
        id: Its number; stands for the handle.
        device: Index of its device.
        timing: Whether it takes the time.
        record: The last recording, or None.
    """

    id: int
    device: int = 0
    timing: bool = False
    record: Record | None = field(default=None, repr=False)
