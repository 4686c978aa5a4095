"""Streams and events of a card by their handles, and what orders them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sidestream.harness.runtime import Event, Runtime, Stream

EDGES = {
    "cuEventRecord": 2,
    "cuEventRecordWithFlags": 2,
    "cuStreamWaitEvent": 2,
    "cuEventSynchronize": 1,
    "cuEventQuery": 1,
    "cuStreamSynchronize": 1,
    "cuStreamQuery": 1,
    "cuCtxSynchronize": 0,
}
"""Driver calls that order something, with how many arguments matter."""
_GIVEN = 2
"""Handles up to this one are the driver's own: the default stream in its two forms."""


@dataclass(kw_only=True)
class CardStreams:
    """The streams that a call uses.

    Attributes:
        runtime: Knows what is ordered.
        blocking: Tells whether the stream of a handle is a blocking one.
    """

    runtime: Runtime
    blocking: Callable[[int], bool]
    _streams: dict[int, Stream] = field(default_factory=dict)
    _events: dict[int, Event] = field(default_factory=dict)

    @property
    def handles(self) -> list[int]:
        """Handles of the streams that were met."""
        return sorted(self._streams)

    def stream(self, handle: int) -> Stream:
        """Return the stream of a handle."""
        if handle not in self._streams:
            if handle > _GIVEN and self.blocking(handle):
                made = self.runtime.create_stream(blocking=True)
                made.handle = handle
            else:
                made = self.runtime.adopt_stream(handle)
            self._streams[handle] = made
        return self._streams[handle]

    def order(self, name: str, words: tuple[int, ...]) -> None:
        """Take note of one of `EDGES`, which the driver has carried out.

        Args:
            name: Of the driver's function.
            words: As many of its arguments as matter.
        """
        runtime = self.runtime
        match name:
            case "cuEventRecord" | "cuEventRecordWithFlags":
                stream = self.stream(words[1])
                if words[0] not in self._events:
                    self._events[words[0]] = runtime.create_event()
                runtime.record_event(self._events[words[0]], stream)
            case "cuStreamWaitEvent":
                event = self._events.get(words[1])
                if event is not None:
                    runtime.wait_event(self.stream(words[0]), event)
            case "cuEventSynchronize" | "cuEventQuery":
                event = self._events.get(words[0])
                if event is not None:
                    runtime.synchronize_event(event)
            case "cuStreamSynchronize" | "cuStreamQuery":
                runtime.synchronize_stream(self.stream(words[0]))
            case "cuCtxSynchronize":
                runtime.synchronize_device()
