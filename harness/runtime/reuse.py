"""What the allocators need of the runtime to hand memory out again."""

from __future__ import annotations

from collections.abc import Iterable

from sidestream.harness.runtime.allocator import Backing
from sidestream.harness.runtime.clock import join
from sidestream.harness.runtime.events import Record
from sidestream.harness.runtime.op import CallSite, here
from sidestream.harness.runtime.spans import Span
from sidestream.harness.runtime.state import State
from sidestream.harness.runtime.streams import Stream


class ReuseCalls(State):
    """Implements `allocator.Events`: events of the allocators' own."""

    _backing: Backing
    _async: dict[int, int]
    """Live memory of `malloc_async`, with its size."""
    _freed_async: dict[tuple[Stream, int], list[int]]
    """Memory that `free_async` gave back, by stream and size."""

    def _reserve(self, size: int, device: int) -> int:
        """Ask the driver for memory."""
        return self._backing.reserve(size, device)

    def mark(self, stream: Stream) -> Record:
        """Record an event on a stream."""
        site = CallSite(frames=("the caching allocator",))
        op = self._issue("event-record", "allocator event", stream, site=site)
        return Record(
            op=op.id, clock=op.clock, stream=str(stream), handle=stream.handle
        )

    def passed(self, record: Record) -> bool:
        """Whether an event has been reached; lets nothing land."""
        return not self.queue.holds(record.op)

    def finish(self, records: Iterable[Record]) -> None:
        """Wait for events on the host."""
        records = list(records)
        if not records:
            return
        ids = [record.op for record in records]
        self._wait("cudaEventSynchronize", "blocks held back", ids, 0.0, here())
        for record in records:
            join(self.order.host().clock, record.clock)

    def reusable(self, address: int, size: int, record: Record) -> None:
        """Take accesses before an event as ordered before all to come."""
        self.shadow.settle(Span(address, size), record.clock)

    def may_reserve(self, stream: Stream) -> None:
        """Refuse `cudaMalloc` where a capture forbids it; its own streams may."""
        if stream.capture is None:
            self._forbid("cudaMalloc")

    def gone(self, address: int, size: int, device: int) -> None:
        """Wait for the device, as `cudaFree` does, and forget about the memory."""
        streams = self.streams.on(device)
        if self.queue.needed([stream.tail for stream in streams]):
            self._wait_for_device("cudaFree", device, here())
        for stream in streams:
            join(self.order.host().clock, stream.clock)
        self.shadow.forget(Span(address, size))

    def adopt_memory(self, span: Span, owner: str, site: CallSite) -> None:
        """Take note of memory that another allocator handed out, and maybe again.

        Whatever was known to be allocated there was freed before, at a place unknown.

        Args:
            span: The bytes.
            owner: Name of the stream whose order its reuse follows.
            site: Where it was allocated.
        """
        end, freed = span.start + span.size, CallSite(frames=("a place unknown",))
        for held in self.tenancies.live():
            if held.start < end and span.start < held.start + held.size:
                self._end_tenancy(held.start, freed)
        self._begin_tenancy(span.start, span.size, owner, site)

    def _begin_tenancy(
        self, start: int, size: int, owner: str, site: CallSite | None
    ) -> None:
        call = next(self._ids)
        self.tenancies.begin(
            start=start, size=size, owner=owner, call=call, site=site or here()
        )

    def _end_tenancy(self, start: int, site: CallSite | None) -> None:
        self.tenancies.end(start, call=next(self._ids), site=site or here())
