"""CUDA calls on numbers, as both interfaces of `cuda.bindings` make them.

Streams and events are handles, memory is addresses. A call returns its values without
the status and raises `CudaError`.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from sidestream.harness.runtime import (
    CudaError,
    Event,
    Graph,
    GraphExec,
    HostBlock,
    Runtime,
    Span,
    Stream,
)
from sidestream.harness.runtime.contexts import Contexts
from sidestream.harness.runtime.op import Run

NON_BLOCKING = 1
"""`cudaStreamNonBlocking` and `CU_STREAM_NON_BLOCKING`."""
DISABLE_TIMING = 2
"""`cudaEventDisableTiming` and `CU_EVENT_DISABLE_TIMING`."""
MODES = ("global", "thread_local", "relaxed")
_FIRST_HANDLE = 0x5EB0_0000

G = TypeVar("G", Graph, GraphExec)


@dataclass(kw_only=True)
class Calls:
    """The calls of a process.

    Attributes:
        runtime: What they arrive at.
        device: Returns the current device.
        contexts: Current devices and contexts of threads; None for one device that
            every thread has.
    """

    runtime: Runtime
    device: Callable[[], int] = lambda: 0
    contexts: Contexts | None = None
    _numbers: itertools.count[int] = field(
        default_factory=lambda: itertools.count(_FIRST_HANDLE)
    )
    _events: dict[int, Event] = field(default_factory=dict)
    _graphs: dict[int, Graph] = field(default_factory=dict)
    _execs: dict[int, GraphExec] = field(default_factory=dict)
    _pinned: dict[int, HostBlock] = field(default_factory=dict)
    _errors: threading.local = field(default_factory=threading.local)

    @property
    def last_error(self) -> int:
        """Number of the last error of the runtime's calls on this thread, or 0.

        Each host thread has its own: CUDA Runtime API, "Error Handling".
        """
        return getattr(self._errors, "last", 0)

    @last_error.setter
    def last_error(self, number: int) -> None:
        self._errors.last = number

    def stream(self, handle: int) -> Stream:
        """Return the stream of a handle."""
        return self.runtime.stream(handle, device=self.device())

    def event(self, handle: int) -> Event:
        """Return the event of a handle."""
        if handle not in self._events:
            raise CudaError(
                "cudaErrorInvalidResourceHandle", f"{handle:#x} is no event"
            )
        return self._events[handle]

    def stream_create(self, flags: int = 0, priority: int = 0) -> int:
        """Make a stream and return its handle."""
        made = self.runtime.create_stream(
            device=self.device(), blocking=flags != NON_BLOCKING, priority=priority
        )
        return made.handle

    def host_function(
        self, stream: int, function: int, data: int, *, call: str
    ) -> None:
        """Let a stream call a C function, given by address, with one pointer."""
        if not function:
            raise CudaError("cudaErrorInvalidValue", f"{call} of no function")
        there = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)
        self.runtime.launch_host_function(
            self.stream(stream), lambda: there(data), label=call
        )

    def stream_destroy(self, handle: int) -> None:
        """Destroy a stream."""
        self.runtime.destroy_stream(self.stream(handle))

    def stream_query(self, handle: int) -> None:
        """Raise `cudaErrorNotReady` unless all work of a stream is done."""
        _ready(self.runtime.query_stream(self.stream(handle)))

    def event_create(self, flags: int = 0) -> int:
        """Make an event and return its handle."""
        handle = next(self._numbers)
        self._events[handle] = self.runtime.create_event(
            device=self.device(), timing=not flags & DISABLE_TIMING
        )
        return handle

    def event_destroy(self, handle: int) -> None:
        """Destroy an event; what waits for it goes on waiting."""
        self.event(handle)
        del self._events[handle]

    def event_record(self, event: int, stream: int = 0) -> None:
        """Record an event."""
        self.runtime.record_event(self.event(event), self.stream(stream))

    def event_query(self, event: int) -> None:
        """Raise `cudaErrorNotReady` unless an event has been reached."""
        _ready(self.runtime.query_event(self.event(event)))

    def stream_wait_event(self, stream: int, event: int, _flags: int = 0) -> None:
        """Let a stream wait for an event."""
        self.runtime.wait_event(self.stream(stream), self.event(event))

    def elapsed(self, start: int, end: int) -> float:
        """Return the milliseconds between two events."""
        return self.runtime.elapsed(self.event(start), self.event(end))

    def malloc(self, size: int, *, call: str) -> int:
        """Allocate device memory by a call of that name."""
        return self.runtime.cuda_malloc(size, device=self.device(), call=call)

    def host_alloc(self, size: int, *, call: str) -> int:
        """Allocate pinned memory by a call of that name."""
        block = self.runtime.malloc_host(size, call=call)
        self._pinned[block.address] = block
        return block.address

    def host_free(self, address: int) -> None:
        """Free pinned memory."""
        if address not in self._pinned:
            raise CudaError("cudaErrorInvalidValue", f"{address:#x} is not allocated")
        self.runtime.free_host(self._pinned.pop(address))

    def copy(
        self,
        target: int,
        source: int,
        size: int,
        direction: str,
        stream: int = 0,
        *,
        blocking: bool,
        call: str,
    ) -> None:
        """Copy bytes; `direction` is one of `copies.DIRECTIONS`."""
        source_side, target_side = direction.split("2")
        self._inside(source, size, on_device=source_side == "d", call=call)
        self._inside(target, size, on_device=target_side == "d", call=call)

        def take() -> Run:
            data = ctypes.string_at(source, size)

            def run() -> None:
                ctypes.memmove(target, data, size)

            return run

        self.runtime.copy(
            direction=direction,
            reads=[Span(source, size)],
            writes=[Span(target, size)],
            stream=self.stream(stream),
            take=take,
            blocking=blocking,
            label=call,
        )

    def direction(self, target: int, source: int) -> str:
        """Return the direction of a copy as `cudaMemcpyDefault` finds it out."""
        return "2".join(
            "d" if self._on_device(end) else "h" for end in (source, target)
        )

    def _on_device(self, address: int) -> bool:
        known = self.runtime.tenancies.start_of(address) is not None
        return known and self.runtime.pinned_at(address) is None

    def fill(
        self, target: int, value: bytes, count: int, stream: int = 0, *, call: str
    ) -> None:
        """Fill memory with a value, `count` times; never waits."""
        self.fill_rows(target, 0, value, count, 1, stream, call=call)

    def fill_rows(
        self,
        target: int,
        pitch: int,
        value: bytes,
        width: int,
        height: int,
        stream: int = 0,
        *,
        call: str,
    ) -> None:
        """Fill `height` rows of `width` elements that start `pitch` bytes apart."""
        size = len(value) * width
        starts = [target + row * pitch for row in range(height)] if size else []
        if starts:
            self._inside(target, starts[-1] - target + size, on_device=True, call=call)

        def run() -> None:
            for start in starts:
                ctypes.memmove(start, value * width, size)

        self.runtime.enqueue(
            kind="fill",
            label=call,
            stream=self.stream(stream),
            writes=[Span(start, size) for start in starts],
            run=run,
        )

    def _inside(self, address: int, size: int, *, on_device: bool, call: str) -> None:
        """Refuse bytes that one allocation does not hold; pageable memory is not known.

        Raises:
            CudaError: cudaErrorInvalidValue.
        """
        with self.runtime.lock:
            room = self.runtime.room_at(address)
            known = on_device or room or not address
            if size and known and size > room:
                raise CudaError(
                    "cudaErrorInvalidValue",
                    f"{call} of {size} bytes at {address:#x}, where "
                    + (f"{room} are allocated" if room else "nothing is allocated"),
                    kind="out-of-bounds",
                )

    def memory_info(self) -> tuple[int, int]:
        """Return the bytes of the current device that are free, and all of them."""
        return self.runtime.memory_info(self.device())

    def begin_capture(self, stream: int, mode: int) -> None:
        """Begin to capture a stream."""
        self.runtime.begin_capture(self.stream(stream), mode=MODES[mode])

    def end_capture(self, stream: int) -> int:
        """End a capture and return the handle of its graph."""
        graph = self.runtime.end_capture(self.stream(stream))
        handle = next(self._numbers)
        self._graphs[handle] = graph
        return handle

    def instantiate(self, graph: int, _flags: int = 0) -> int:
        """Make a graph executable."""
        handle = next(self._numbers)
        self._execs[handle] = self.runtime.instantiate(_of(self._graphs, graph))
        return handle

    def launch_graph(self, exec: int, stream: int) -> None:
        """Replay a graph."""
        self.runtime.launch_graph(_of(self._execs, exec), self.stream(stream))


def _ready(done: bool) -> None:  # noqa: FBT001 -- what a query says
    if not done:
        raise CudaError("cudaErrorNotReady", "not reached yet")


def _of(graphs: dict[int, G], handle: int) -> G:
    if handle not in graphs:
        raise CudaError("cudaErrorInvalidValue", f"{handle:#x} is no graph")
    return graphs[handle]
