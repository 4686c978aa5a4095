"""Calls on memory of the devices: allocation, and whose an address is."""

from __future__ import annotations

from collections.abc import Iterator

from sidestream.harness.runtime.allocator import (
    Allocator,
    Backing,
    HostBacking,
    Statistics,
)
from sidestream.harness.runtime.blocks import Block
from sidestream.harness.runtime.copy_calls import CopyCalls
from sidestream.harness.runtime.cuda_error import CudaError
from sidestream.harness.runtime.landing import Landing
from sidestream.harness.runtime.op import CallSite, here
from sidestream.harness.runtime.pinned import PinnedMemory
from sidestream.harness.runtime.spans import Span
from sidestream.harness.runtime.state import DEPTH
from sidestream.harness.runtime.stream_memory import StreamMemoryCalls
from sidestream.harness.runtime.streams import Stream


class MemoryCalls(StreamMemoryCalls, CopyCalls):
    """Memory of the devices and of the host.

    Args:
        devices: How many devices there are.
        landing: When operations land.
        torch_version: Decides what `ExternalStream(0)` is.
        depth: Operations that may be pending.
        memory_bytes: Memory of each device.
        backing: Where segments come from; memory of this process if absent.
    """

    def __init__(
        self,
        *,
        devices: int = 1,
        landing: Landing | None = None,
        torch_version: tuple[int, int] = (2, 13),
        depth: int = DEPTH,
        memory_bytes: int = 180 << 30,
        backing: Backing | None = None,
    ) -> None:
        super().__init__(
            devices=devices, landing=landing, torch_version=torch_version, depth=depth
        )
        self._backing = backing or HostBacking()
        self._allocators = [
            Allocator(
                device=d, capacity=memory_bytes, backing=self._backing, events=self
            )
            for d in range(devices)
        ]
        self._pinned = PinnedMemory(self._backing, self)
        self._async, self._freed_async = {}, {}
        self._raw: dict[int, tuple[int, int]] = {}

    def malloc(
        self,
        size: int,
        *,
        stream: Stream,
        label: str = "",
        site: CallSite | None = None,
    ) -> Block:
        """Allocate device memory from the caching allocator, for a stream.

        On a stream that is capturing the block comes from the capture's pool.

        Raises:
            CudaError: cudaErrorMemoryAllocation; cudaErrorStreamCaptureUnsupported
                where a new segment is needed on a stream outside of a capture that
                forbids it.
        """
        with self.lock:
            capture, allocator = stream.capture, self._allocators[stream.device]
            misses, site = allocator.misses, site or here()
            block = allocator.malloc(
                size,
                stream,
                owner=capture.pool if capture is not None else 0,
                capturing=len(self._captures),
                label=label,
            )
            if allocator.misses > misses and capture is None:
                cache = stream.device
                self.reservations.missed("cudaMalloc", size, site, cache=cache)
            self._begin_tenancy(block.address, block.size, str(stream), site)
            self.captured.allocate(
                Span(block.address, block.size), captured=capture is not None
            )
            return block

    def free(self, block: Block, *, site: CallSite | None = None) -> None:
        """Give a block back to the allocator, at the moment its last user lets go.

        May be called by finalizers: within another call it is done at its end.

        Operations that are pending on it go on: later ones of its stream come after
        them, wherever the block is reused.
        """
        site = site or here()

        def work() -> None:
            self._end_tenancy(block.address, site)
            allocator = self._allocators[block.stream.device]
            allocator.free(block, capturing=len(self._captures))

        self.lock.at_the_end(work)

    def record_stream(self, block: Block, stream: Stream) -> None:
        """Keep a block back, once freed, until work of a stream so far is done."""
        with self.lock:
            self._allocators[block.stream.device].record_stream(
                block, stream, capturing=len(self._captures)
            )

    def block_at(self, address: int, *, device: int = 0) -> Block | None:
        """Return the allocated block that starts at an address, or None."""
        return self._allocators[device].at(address)

    def format_at(self, address: int, *, device: int = 0) -> str:
        """Return the element type of the block that holds an address, or ""."""
        with self.lock:
            start = self.tenancies.start_of(address)
            block = self._allocators[device].at(start) if start is not None else None
            return block.format if block is not None else ""

    def device_at(self, address: int) -> int | None:
        """Return the device whose memory holds an address; None if none does."""
        with self.lock:
            start = self.tenancies.start_of(address)
            if start is None:
                return None
            if start in self._raw:
                return self._raw[start][0]
            found = (a.device for a in self._allocators if a.at(start) is not None)
            return next(found, None)

    def room_at(self, address: int) -> int:
        """Return the bytes from an address to the end of its allocation, or 0.

        Allocations are those of devices and of pinned memory; of one only what was
        asked for counts.
        """
        with self.lock:
            start = self.tenancies.start_of(address)
            pinned = self._pinned.at(address)
            if pinned is not None:
                return max(0, pinned.address + pinned.requested - address)
            if start is None:
                return 0
            if start in self._raw:
                size = self._raw[start][1]
            else:
                found = (a.at(start) for a in self._allocators)
                block = next((b for b in found if b is not None), None)
                size = block.requested if block is not None else self._async[start]
            return max(0, start + size - address)

    def blocks(self, device: int = 0) -> Iterator[Block]:
        """Return the allocated blocks of a device."""
        return self._allocators[device].blocks()

    def memory(self, device: int = 0) -> list[tuple[int, int, str]]:
        """Return address, bytes and name of all memory that a kernel may use now.

        Of a block only what was asked for counts: what rounding adds belongs to nobody.
        """
        with self.lock:  # no finalizer frees in between
            blocks, raw = self._allocators[device].blocks(), self._raw.items()
            return [
                *((b.address, b.requested, b.label or "memory") for b in blocks),
                *((a, n, "cudaMalloc") for a, (d, n) in raw if d == device),
                *((a, n, "cudaMallocAsync") for a, n in self._async.items()),
                *((p.address, p.requested, "pinned") for p in self._pinned.blocks()),
            ]

    def memory_stats(self, device: int = 0) -> Statistics:
        """Return bytes and counts of a device's allocator."""
        return self._allocators[device].stats

    def memory_info(self, device: int = 0) -> tuple[int, int]:
        """Return the bytes of a device that are free, and all of them."""
        with self.lock:
            raw = sum(size for home, size in self._raw.values() if home == device)
            allocator = self._allocators[device]
            free = allocator.capacity - allocator.stats.reserved - raw
            return free, allocator.capacity

    def empty_cache(self, device: int = 0, *, site: CallSite | None = None) -> None:
        """Give unused segments back to the driver: `torch.cuda.empty_cache`.

        Raises:
            CudaError: cudaErrorStreamCaptureUnsupported during a capture.
        """
        with self.lock:
            self._forbid("cudaFree")
            stats = self._allocators[device].stats
            before = stats.reserved
            self._allocators[device].empty()
            given_back = before - stats.reserved
            self.reservations.emptied(given_back, site or here(), cache=device)

    def cuda_malloc(
        self,
        size: int,
        *,
        device: int = 0,
        site: CallSite | None = None,
        call: str = "cudaMalloc",
    ) -> int:
        """Allocate device memory from the driver: `cudaMalloc`, `cuMemAlloc`.

        Raises:
            CudaError: cudaErrorStreamCaptureUnsupported during a capture.
        """
        with self.lock:
            self._not_in_host_function(call)
            self._forbid(call)
            address = self._backing.reserve(size, device)
            self._raw[address] = device, size
            self.reservations.asked(call, size, site or here())
            self._begin_tenancy(address, size, f"device {device}", site)
            return address

    def cuda_free(self, address: int, *, site: CallSite | None = None) -> None:
        """Free what `cuda_malloc` gave: `cudaFree`; waits for the device.

        Raises:
            CudaError: cudaErrorInvalidValue for an address it did not give;
                cudaErrorStreamCaptureUnsupported during a capture.
        """
        with self.lock:
            if address not in self._raw:
                raise CudaError(
                    "cudaErrorInvalidValue", f"cudaFree of {address:#x}, not allocated"
                )
            self._not_in_host_function("cudaFree")
            self._forbid("cudaFree")
            device, size = self._raw.pop(address)
            self._end_tenancy(address, site)
            self._wait_for_device("cudaFree", device, site or here())
            self.shadow.forget(Span(address, size))
            self._backing.release(address)
