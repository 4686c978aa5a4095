"""`torch.cuda.Stream`, `ExternalStream` and `Event` over the runtime's."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch

from sidestream.harness.runtime import Event as RuntimeEvent
from sidestream.harness.runtime import Stream as RuntimeStream
from sidestream.harness.vtorch.world import World

_CUDA_TYPE = 1
"""Number of CUDA among torch's device types."""


class Stream:
    """A stream as torch shows it. Two objects over one stream are equal.

    Without arguments it is the next stream of torch's pool.
    """

    world: World
    """The device; set on the subclass that a program sees."""

    def __init__(
        self,
        device: object = None,
        priority: int = 0,
        *,
        stream_id: int | None = None,
        device_index: int | None = None,
        device_type: int | None = None,
        stream_ptr: int | None = None,
    ) -> None:
        index = self.world.device_index(
            device_index if device_index is not None else device
        )
        runtime = self.world.runtime
        self._handle: int | None = None
        if stream_ptr is not None:
            self.stream = runtime.external_stream(stream_ptr, device=index)
            # 1 names the default stream as 0 does, and is shown as it was given.
            self._handle = stream_ptr or None
        elif stream_id is not None:
            self.stream = runtime.stream(stream_id, device=index)
        else:
            self.stream = runtime.pool_stream(device=index, priority=priority)

    @classmethod
    def over(cls, stream: RuntimeStream, handle: int | None = None) -> Stream:
        """Return the torch object of a stream of the runtime, named by a handle."""
        made = cls.__new__(cls)
        made.stream, made._handle = stream, handle
        return made

    stream: RuntimeStream

    @property
    def cuda_stream(self) -> int:
        """The raw handle."""
        return self.stream.handle if self._handle is None else self._handle

    @property
    def stream_id(self) -> int:
        """What `torch.cuda.Stream(stream_id=...)` takes back."""
        return self.stream.handle

    native_handle = cuda_stream

    @property
    def device(self) -> torch.device:
        """The device it is on."""
        return torch.device("cuda", self.stream.device)

    @property
    def device_index(self) -> int:
        """Index of the device."""
        return self.stream.device

    @property
    def device_type(self) -> int:
        """Number of the kind of device."""
        return _CUDA_TYPE

    @property
    def priority(self) -> int:
        """0, or lower for a stream that goes first."""
        return self.stream.priority

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Lowest and highest priority."""
        return 0, -5

    def wait_event(self, event: Event) -> None:
        """Let later work wait for the last recording of an event."""
        self.world.runtime.wait_event(self.stream, event.event)

    def wait_stream(self, stream: Stream) -> None:
        """Let later work wait for all work of another stream so far."""
        self.world.runtime.wait_stream(self.stream, stream.stream)

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event, a new one if none is given, and return it."""
        if event is None:
            event = type("Event", (Event,), {"world": self.world})()
        event.record(self)
        return event

    def query(self) -> bool:
        """Whether all work so far is done."""
        return self.world.runtime.query_stream(self.stream)

    def synchronize(self) -> None:
        """Wait for all work so far."""
        self.world.runtime.synchronize_stream(
            self.stream, call="torch.cuda.Stream.synchronize"
        )

    def is_capturing(self) -> bool:
        """Whether the stream takes part in a capture."""
        return self.world.runtime.capturing(self.stream) != "none"

    def __enter__(self) -> Stream:
        world, device = self.world, self.stream.device
        self._device = world.device()
        self._before = world.chosen(device), world.chosen_handle(device)
        world.set_device(device)
        world.choose(self.stream, handle=self.cuda_stream)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stream, handle = self._before
        self.world.choose(stream, handle=handle)
        self.world.set_device(self._device)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.stream is self.stream

    def __hash__(self) -> int:
        return hash((self.stream.handle, self.stream.device))

    def __repr__(self) -> str:
        handle = f"{self.cuda_stream:#x}"
        return f"<torch.cuda.Stream device={self.device} cuda_stream={handle}>"

    @property
    def _as_parameter_(self) -> Any:
        import ctypes

        return ctypes.c_void_p(self.cuda_stream)

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the protocol's version and the handle."""
        return 0, self.cuda_stream


class ExternalStream(Stream):
    """A stream by a raw handle that someone else made."""

    def __init__(self, stream_ptr: int, device: object = None, **kwargs: Any) -> None:
        super().__init__(device=device, stream_ptr=int(stream_ptr))


class Event:
    """An event as torch shows it."""

    world: World
    """The device; set on the subclass that a program sees."""

    def __init__(
        self,
        enable_timing: bool = False,  # noqa: FBT001, FBT002 -- the signature of torch
        blocking: bool = False,  # noqa: FBT001, FBT002 -- as above
        interprocess: bool = False,  # noqa: FBT001, FBT002 -- as above
        external: bool = False,  # noqa: FBT001, FBT002 -- as above
    ) -> None:
        if interprocess:
            self.world.runtime.not_modelled("an event for other processes")
        if external:
            self.world.runtime.not_modelled("an external event of graphs")
        self.event: RuntimeEvent = self.world.runtime.create_event(timing=enable_timing)
        self._made = False
        """Whether it has a device: that of the stream it is recorded on first."""

    @property
    def device(self) -> torch.device | None:
        """The device of the stream that it was recorded on first; None before that."""
        return torch.device("cuda", self.event.device) if self._made else None

    @property
    def cuda_event(self) -> int:
        """The raw handle."""
        return self.event.id

    event_id = cuda_event

    def record(self, stream: Stream | None = None) -> None:
        """Record it on a stream, the current one if none is given.

        Raises:
            RuntimeError: for a stream of another device than it was recorded on first.
        """
        world = self.world
        on = stream.stream if stream is not None else world.current()
        if not self._made:
            self.event.device, self._made = on.device, True
        if self.event.device != on.device:
            message = (
                f"Event device {self.event.device} does not match recording stream's "
                f"device {on.device}."
            )
            world.runtime.refuse("cudaErrorInvalidResourceHandle", message)
            raise RuntimeError(message)
        world.runtime.record_event(self.event, on)

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream, the current one if none is given, wait for it."""
        world = self.world
        on = stream.stream if stream is not None else world.current()
        world.runtime.wait_event(on, self.event)

    def query(self) -> bool:
        """Whether the last recording has been reached."""
        return self.world.runtime.query_event(self.event)

    def synchronize(self) -> None:
        """Wait for the last recording."""
        self.world.runtime.synchronize_event(
            self.event, call="torch.cuda.Event.synchronize"
        )

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds between two recordings, as estimated."""
        return self.world.runtime.elapsed(self.event, end_event.event)

    def ipc_handle(self) -> bytes:
        """Refuse.

        Raises:
            UnsupportedError: always.
        """
        self.world.runtime.not_modelled("an event for other processes")

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {self.event.id:#x}>"
