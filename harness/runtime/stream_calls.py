"""Calls on streams and events, and the waits of the host."""

from __future__ import annotations

from collections.abc import Callable

from sidestream.harness.runtime import capture as captures
from sidestream.harness.runtime.clock import join
from sidestream.harness.runtime.cuda_error import CudaError
from sidestream.harness.runtime.events import Event, Record
from sidestream.harness.runtime.op import CallSite, Clock, Op, here
from sidestream.harness.runtime.state import State
from sidestream.harness.runtime.streams import Stream


class StreamCalls(State):
    """Streams, events, host functions and synchronisation."""

    def create_stream(
        self,
        *,
        device: int = 0,
        blocking: bool = False,
        priority: int = 0,
        name: str = "",
    ) -> Stream:
        """Make a stream: `cudaStreamCreateWithPriority`, `cuStreamCreate`.

        Args:
            device: Its device.
            blocking: False is `cudaStreamNonBlocking`, which torch's streams have;
                plain `cudaStreamCreate` makes blocking ones.
            priority: 0 to -5; others become the nearest.
            name: For reports.

        Raises:
            CudaError: cudaErrorInvalidDevice.
        """
        with self.lock:
            return self.streams.create(
                device=device, blocking=blocking, priority=priority, name=name
            )

    def destroy_stream(self, stream: Stream) -> None:
        """Destroy a stream; what is pending on it still lands: `cudaStreamDestroy`.

        Raises:
            CudaError: cudaErrorInvalidResourceHandle for a default stream.
        """
        with self.lock:
            self.streams.destroy(stream)

    def pool_stream(self, *, device: int = 0, priority: int = 0) -> Stream:
        """Return what `torch.cuda.Stream()` makes: the next of 32 non-blocking ones."""
        with self.lock:
            return self.streams.pool(device=device, priority=priority)

    def external_stream(self, handle: int, *, device: int = 0) -> Stream:
        """Return what `torch.cuda.ExternalStream(handle)` stands for in this torch."""
        with self.lock:
            thread = self.order.host().agent
            return self.streams.external(handle, device=device, thread=thread)

    def adopt_stream(self, handle: int, *, device: int = 0) -> Stream:
        """Return the stream of a raw handle, which someone else may have made.

        One that is not known yet counts as non-blocking.
        """
        with self.lock:
            thread = self.order.host().agent
            return self.streams.adopt(handle, device=device, thread=thread)

    def stream(self, handle: int, *, device: int = 0) -> Stream:
        """Return the stream of a raw handle; 0, 1 and 2 by the current `device`.

        Raises:
            CudaError: cudaErrorInvalidResourceHandle for one that nobody made.
        """
        with self.lock:
            thread = self.order.host().agent
            return self.streams.find(handle, device=device, thread=thread)

    def create_event(self, *, device: int = 0, timing: bool = False) -> Event:
        """Make an event that nothing has recorded yet."""
        with self.lock:
            return Event(id=next(self._ids), device=device, timing=timing)

    def record_event(
        self, event: Event, stream: Stream, *, site: CallSite | None = None
    ) -> None:
        """Record an event: it stands for all work of the stream so far.

        Raises:
            CudaError: cudaErrorInvalidResourceHandle for an event of another device,
                or what a broken capture gives.
        """
        with self.lock:
            self._not_in_host_function("cudaEventRecord")
            if event.device != stream.device:
                raise CudaError(
                    "cudaErrorInvalidResourceHandle",
                    f"an event of device {event.device} is recorded on stream "
                    f"{stream.handle:#x} of device {stream.device}",
                )
            if stream.capture is not None:
                captures.check(stream.capture)
                event.record = Record(
                    op=0,
                    clock={},
                    stream=str(stream),
                    handle=stream.handle,
                    capture=stream.capture,
                    nodes=stream.capture.tips[stream],
                )
                return
            op = self._issue(
                "event-record", "event record", stream, site=site or here()
            )
            event.record = Record(
                op=op.id,
                clock=op.clock,
                stream=str(stream),
                handle=stream.handle,
                time=stream.busy_until,
            )

    def wait_event(
        self, stream: Stream, event: Event, *, site: CallSite | None = None
    ) -> None:
        """Let a stream wait for the last recording of an event, if there is one.

        The stream may be of another device. A stream outside a capture that waits
        for an event inside joins the capture.

        Raises:
            CudaError: by the rules of stream capture.
        """
        with self.lock:
            self._not_in_host_function("cudaStreamWaitEvent")
            record = event.record
            if record is None:
                return
            if record.capture is not None or stream.capture is not None:
                captures.wait(stream, record)
                return
            self._issue(
                "event-wait",
                "event wait",
                stream,
                site=site or here(),
                clocks=(record.clock,),
                after=(record.op,),
                start=record.time,
            )

    def wait_stream(
        self, stream: Stream, other: Stream, *, site: CallSite | None = None
    ) -> None:
        """Let a stream wait for all work of another so far: `Stream.wait_stream`."""
        site = site or here()
        with self.lock:
            event = self.create_event(device=other.device)
            self.record_event(event, other, site=site)
            self.wait_event(stream, event, site=site)

    def query_event(self, event: Event) -> bool:
        """Return whether the last recording has been reached; True without one.

        A query that finds it open lets one more operation land, so that a loop of
        queries ends. One that finds it done orders what follows after it.

        Raises:
            CudaError: cudaErrorCapturedEvent, or cudaErrorInvalidValue when its capture
                is over; cudaErrorStreamCaptureUnsupported.
        """
        with self.lock:
            record = self._outside(event, "cudaEventQuery")
            if record is None:
                return True
            return self._query({record.op}, record.clock)

    def query_stream(self, stream: Stream) -> bool:
        """Return whether all work of a stream is done, as `query_event` does.

        Raises:
            CudaError: cudaErrorStreamCaptureUnsupported.
        """
        with self.lock:
            self._not_in_host_function("cudaStreamQuery")
            self._outside_capture(stream, "cudaStreamQuery")
            clock, waits, _ = self._work_of(stream)
            return self._query(waits, clock)

    def synchronize_event(
        self,
        event: Event,
        *,
        call: str = "cudaEventSynchronize",
        site: CallSite | None = None,
    ) -> None:
        """Wait on the host for the last recording of an event.

        Raises:
            CudaError: cudaErrorCapturedEvent, cudaErrorStreamCaptureUnsupported.
        """
        with self.lock:
            record = self._outside(event, "cudaEventSynchronize")
            if record is None:
                return
            target = f"an event on {record.stream}"
            self._wait(call, target, (record.op,), record.time, site or here())
            join(self.order.host().clock, record.clock)

    def synchronize_stream(
        self,
        stream: Stream,
        *,
        call: str = "cudaStreamSynchronize",
        site: CallSite | None = None,
        detail: str = "",
    ) -> None:
        """Wait on the host for all work of a stream.

        Args:
            stream: The stream.
            call: What reports name as the wait, e.g. `aten._local_scalar_dense`.
            site: Where.
            detail: More for the log, e.g. what was read.

        Raises:
            CudaError: cudaErrorStreamCaptureUnsupported.
        """
        with self.lock:
            self._not_in_host_function(call)
            self._outside_capture(stream, call)
            clock, waits, until = self._work_of(stream)
            self._wait(call, str(stream), waits, until, site or here(), detail)
            join(self.order.host().clock, clock)

    def synchronize_device(
        self,
        device: int = 0,
        *,
        call: str = "cudaDeviceSynchronize",
        site: CallSite | None = None,
    ) -> None:
        """Wait on the host for all work of a device.

        Raises:
            CudaError: cudaErrorStreamCaptureUnsupported while one of its streams is
                captured; cudaErrorInvalidDevice.
        """
        with self.lock:
            self._not_in_host_function(call)
            for stream in self.streams.on(device):
                self._outside_capture(stream, call)
            self._wait_for_device(call, device, site or here())

    def elapsed(self, start: Event, end: Event) -> float:
        """Return the milliseconds between two recordings, as estimated.

        Raises:
            CudaError: cudaErrorInvalidResourceHandle where one was never recorded or
                takes no time, cudaErrorNotReady where one has not been reached.
        """
        with self.lock:
            for event in (start, end):
                if event.record is None or not event.timing:
                    raise CudaError(
                        "cudaErrorInvalidResourceHandle",
                        "elapsed time needs two recorded events that take the time",
                    )
            for event in (start, end):
                assert event.record is not None
                if start.device != end.device:
                    raise CudaError(
                        "cudaErrorInvalidResourceHandle",
                        "the two events belong to different devices",
                    )
                if self.queue.holds(event.record.op):
                    raise CudaError("cudaErrorNotReady", "an event was not reached yet")
            assert start.record is not None
            assert end.record is not None
            return (end.record.time - start.record.time) * 1e3

    def launch_host_function(
        self,
        stream: Stream,
        function: Callable[[], None],
        *,
        label: str = "host function",
        site: CallSite | None = None,
    ) -> Op | None:
        """Let a stream call a host function, in its order: `cudaLaunchHostFunc`.

        What it touches through `host_access` counts as done by the stream.
        """

        def run() -> None:
            function()

        return self.enqueue(
            kind="host-function", label=label, stream=stream, run=run, site=site
        )

    def _query(self, targets: set[int], clock: Clock) -> bool:
        needed = self.queue.needed(targets)
        if needed:
            self._not_in_host_function("cudaEventQuery")
            self.queue.step(needed)
            return False
        join(self.order.host().clock, clock)
        return True

    def _outside(self, event: Event, call: str) -> Record | None:
        record = event.record
        if record is not None and record.capture is not None:
            capture = record.capture
            active = capture.origin.capture is capture and not capture.broken
            capture.broken = capture.broken or f"{call} on an event of the capture"
            raise CudaError(
                "cudaErrorCapturedEvent" if active else "cudaErrorInvalidValue",
                f"{call} on an event that was last recorded in a capture",
            )
        self._forbid(call)
        return record

    def _outside_capture(self, stream: Stream, call: str) -> None:
        if stream.capture is not None:
            stream.capture.broken = f"{call} on {stream}"
            raise CudaError(
                "cudaErrorStreamCaptureUnsupported",
                f"{call} waits for {stream}, which is capturing",
            )
        self._forbid(call)
