"""Streams: handles and what they mean, and which streams order each other.

Rules: CUDA Programming Guide, "Streams", "Default Stream", "Implicit Synchronization";
CUDA Runtime API, "Stream synchronization behavior"; torch.cuda.Stream.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sidestream.harness.runtime.cuda_error import CudaError

if TYPE_CHECKING:
    from sidestream.harness.runtime.capture import Capture

DEFAULT = 0
"""Handle 0: the legacy default stream, unless a caller was built per-thread."""
LEGACY = 1
"""`cudaStreamLegacy`: the same stream as 0."""
PER_THREAD = 2
"""`cudaStreamPerThread`: one stream for each host thread; a blocking one."""
POOL = 32
"""Streams that torch keeps for each device and priority; handed out in turn."""
EXTERNAL_ZERO_FIXED = (2, 13)
"""First torch whose `ExternalStream(0)` is the default stream."""
_FIRST_HANDLE = 0x5EA0_0000
_HIGHEST = -5
"""Highest priority, as `cudaDeviceGetStreamPriorityRange` tells; 0 is the lowest."""


@dataclass(eq=False, kw_only=True)
class Stream:
    """One stream of a device.

    Attributes:
        handle: The raw handle; what `cuda_stream` shows in torch.
        device: Index of its device.
        blocking: Whether it and the legacy default stream order each other.
        priority: 0 to -5; lower numbers first.
        name: What reports add to the handle.
        agent: Its number in clocks.
        clock: What happened before its next operation.
        tail: Its last pending operation, by id, or 0.
        capture: The capture it takes part in, or None.
        busy_until: When the device would be done with it, in seconds.
    """

    handle: int
    device: int = 0
    blocking: bool = True
    priority: int = 0
    name: str = ""
    agent: int = 0
    clock: dict[int, int] = field(default_factory=dict, repr=False)
    tail: int = field(default=0, repr=False)
    capture: Capture | None = field(default=None, repr=False)
    busy_until: float = field(default=0.0, repr=False)

    @property
    def legacy(self) -> bool:
        """Whether it is the legacy default stream of its device."""
        return self.handle == DEFAULT

    def __str__(self) -> str:
        name = f" ({self.name})" if self.name else ""
        where = f" of device {self.device}" if self.device else ""
        return f"stream {self.handle:#x}{name}{where}"


class StreamTable:
    """The streams of every device, by handle.

    Args:
        devices: How many devices there are.
        agents: Gives numbers for clocks.
        torch_version: Decides what `ExternalStream(0)` is.
    """

    def __init__(
        self,
        devices: int,
        agents: itertools.count[int],
        torch_version: tuple[int, int] = EXTERNAL_ZERO_FIXED,
    ) -> None:
        self._agents = agents
        self._handles = itertools.count(_FIRST_HANDLE, 0x10)
        self._torch_version = torch_version
        self._by_handle: dict[int, Stream] = {}
        self._destroyed: list[Stream] = []
        self._blocking: list[list[Stream]] = [[] for _ in range(devices)]
        self._per_thread: dict[tuple[int, int], Stream] = {}
        self._pools: dict[tuple[int, int], list[Stream]] = {}
        self._pool_next: dict[tuple[int, int], int] = {}
        self._legacy = [
            Stream(handle=DEFAULT, device=d, name="default", agent=next(agents))
            for d in range(devices)
        ]

    def __iter__(self) -> itertools.chain[Stream]:
        return itertools.chain(
            self._legacy,
            self._per_thread.values(),
            self._by_handle.values(),
            self._destroyed,
        )

    def on(self, device: int) -> list[Stream]:
        """Return every stream of a device.

        Raises:
            CudaError: cudaErrorInvalidDevice.
        """
        self.legacy(device)
        return [s for s in self if s.device == device]

    def legacy(self, device: int = 0) -> Stream:
        """Return the legacy default stream of a device.

        Raises:
            CudaError: cudaErrorInvalidDevice.
        """
        if not 0 <= device < len(self._legacy):
            raise CudaError(
                "cudaErrorInvalidDevice",
                f"device {device} of {len(self._legacy)}",
            )
        return self._legacy[device]

    def implied(self, stream: Stream) -> list[Stream]:
        """Return streams whose work so far comes before a stream's next operation.

        An operation of the legacy default stream waits for all blocking streams of
        its device and they wait for it; non-blocking streams take no part.
        """
        if stream.legacy:
            return self._blocking[stream.device]
        return [self._legacy[stream.device]] if stream.blocking else []

    def find(self, handle: int, *, device: int, thread: int) -> Stream:
        """Return the stream that a raw handle means for a host thread.

        Args:
            handle: 0 and 1 are the legacy default stream, 2 the thread's own.
            device: The current device; decides for handles 0, 1 and 2 only.
            thread: The calling thread.

        Raises:
            CudaError: cudaErrorInvalidResourceHandle for a handle nobody made.
        """
        if handle in (DEFAULT, LEGACY):
            return self.legacy(device)
        if handle == PER_THREAD:
            key = device, thread
            if key not in self._per_thread:
                self.legacy(device)
                made = Stream(
                    handle=PER_THREAD,
                    device=device,
                    name=f"per-thread {len(self._per_thread)}",
                    agent=next(self._agents),
                )
                self._per_thread[key] = made
                self._blocking[device].append(made)
            return self._per_thread[key]
        if handle not in self._by_handle:
            raise CudaError(
                "cudaErrorInvalidResourceHandle", f"{handle:#x} is no stream"
            )
        return self._by_handle[handle]

    def create(
        self, *, device: int, blocking: bool, priority: int = 0, name: str = ""
    ) -> Stream:
        """Make a stream, as `cudaStreamCreateWithPriority` does.

        Args:
            device: Its device.
            blocking: False is the flag `cudaStreamNonBlocking`.
            priority: Numbers outside 0 to -5 become the nearest one.
            name: For reports.
        """
        self.legacy(device)
        made = Stream(
            handle=next(self._handles),
            device=device,
            blocking=blocking,
            priority=min(0, max(priority, _HIGHEST)),
            name=name,
            agent=next(self._agents),
        )
        self._by_handle[made.handle] = made
        if blocking:
            self._blocking[device].append(made)
        return made

    def adopt(self, handle: int, *, device: int, thread: int) -> Stream:
        """Return the stream of a handle; one that is not known is non-blocking."""
        if handle > PER_THREAD and handle not in self._by_handle:
            self._by_handle[handle] = Stream(
                handle=handle, device=device, blocking=False, agent=next(self._agents)
            )
        return self.find(handle, device=device, thread=thread)

    def destroy(self, stream: Stream) -> None:
        """Take a stream's handle out of use; waits for the device still cover it.

        Raises:
            CudaError: cudaErrorInvalidResourceHandle for one that `create` did not
                make, or a second time.
        """
        if self._by_handle.pop(stream.handle, None) is not stream:
            raise CudaError(
                "cudaErrorInvalidResourceHandle", f"{stream} cannot be destroyed"
            )
        self._destroyed.append(stream)

    def pool(self, *, device: int, priority: int = 0) -> Stream:
        """Return the next stream of torch's pool: what `torch.cuda.Stream()` makes.

        The streams are non-blocking. After `POOL` of one priority the first comes
        again, so that two torch streams may be one.
        """
        key = device, min(0, max(priority, _HIGHEST))
        made = self._pools.setdefault(key, [])
        turn = self._pool_next.get(key, 0)
        self._pool_next[key] = (turn + 1) % POOL
        if turn == len(made):
            made.append(self.create(device=device, blocking=False, priority=key[1]))
        return made[turn]

    def external(self, handle: int, *, device: int, thread: int) -> Stream:
        """Return what `torch.cuda.ExternalStream(handle)` stands for.

        Before torch 2.13 a handle of 0 counted as none given and became a stream of
        the pool, which nothing orders after the default stream (public report:
        NVIDIA/cudnn-frontend#1165).
        """
        if handle == DEFAULT and self._torch_version < EXTERNAL_ZERO_FIXED:
            return self.pool(device=device)
        return self.find(handle, device=device, thread=thread)
