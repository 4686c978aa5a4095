"""Calls on memory: device and pinned allocation, copies, accesses of the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sidestream.harness.runtime import copies
from sidestream.harness.runtime.allocator import (
    Allocator,
    Backing,
    HostBacking,
    Statistics,
)
from sidestream.harness.runtime.blocks import Block
from sidestream.harness.runtime.clock import join
from sidestream.harness.runtime.cuda_error import CudaError
from sidestream.harness.runtime.landing import Landing
from sidestream.harness.runtime.op import CallSite, Op, Run, here
from sidestream.harness.runtime.pinned import HOST, HostBlock, PinnedMemory
from sidestream.harness.runtime.spans import Span, merge
from sidestream.harness.runtime.state import DEPTH
from sidestream.harness.runtime.stream_memory import StreamMemoryCalls
from sidestream.harness.runtime.streams import Stream


class MemoryCalls(StreamMemoryCalls):
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

    def malloc_host(
        self, size: int, *, call: str = "", site: CallSite | None = None
    ) -> HostBlock:
        """Allocate pinned host memory from torch's caching host allocator.

        Args:
            size: Bytes.
            call: What the program asks the driver with, where it does so itself.
            site: Where.
        """
        with self.lock:
            misses, site = self._pinned.misses, site or here()
            block = self._pinned.malloc(size, capturing=len(self._captures))
            if call:
                self.reservations.asked(call, size, site)
            elif self._pinned.misses > misses:
                self.reservations.missed("cudaHostAlloc", size, site, cache=HOST)
            self._begin_tenancy(block.address, block.size, "host", site)
            return block

    def free_host(self, block: HostBlock, *, site: CallSite | None = None) -> None:
        """Free pinned host memory; it is reused after the copies that use it."""
        site = site or here()

        def work() -> None:
            self._end_tenancy(block.address, site)
            self._pinned.free(block, capturing=len(self._captures))

        self.lock.at_the_end(work)

    def empty_host_cache(self, *, site: CallSite | None = None) -> None:
        """Give unused pinned memory back to the driver: `torch._C._host_emptyCache`."""
        with self.lock:
            size = 0
            for block in self._pinned.empty():
                self.shadow.forget(Span(block.address, block.size))
                size += block.size
            self.reservations.emptied(size, site or here(), cache=HOST)

    def register_host(self, address: int, size: int) -> HostBlock:
        """Pin host memory where it lies: `cudaHostRegister`."""
        with self.lock:
            self.reservations.asked("cudaHostRegister", size, here())
            return self._pinned.register(address, size)

    def unregister_host(self, address: int) -> None:
        """Undo `register_host`.

        Raises:
            CudaError: cudaErrorInvalidValue.
        """
        with self.lock:
            block = self._pinned.unregister(address)
            self.shadow.forget(Span(block.address, block.size))

    def pinned_at(self, address: int) -> HostBlock | None:
        """Return the pinned block that holds a host address, or None."""
        with self.lock:
            return self._pinned.at(address)

    def copy(
        self,
        *,
        direction: str,
        reads: Sequence[Span],
        writes: Sequence[Span],
        stream: Stream,
        take: Callable[[], Run],
        blocking: bool = False,
        label: str = "",
        site: CallSite | None = None,
    ) -> Op | None:
        """Copy between host and device, or within one of them.

        Whether host memory is pinned is looked up by its address.

        Args:
            direction: `h2d`, `d2h`, `d2d` or `h2h`.
            reads: The source.
            writes: The destination.
            stream: Where the copy goes.
            take: Returns what does the copy. Called within this call where a pageable
                source is staged, so it must keep the bytes by then; else called when
                the copy lands.
            blocking: False is `cudaMemcpyAsync`, True `cudaMemcpy`. A blocking copy
                of torch is an asynchronous one and then a wait for the stream.
            label: What reports call it.
            site: Where host code asked for it.

        On a stream that is capturing the copy becomes a node like any other, which
        reads pageable memory when it is replayed; torch refuses to capture such a one.

        Raises:
            CudaError: as `enqueue`; cudaErrorStreamCaptureUnsupported for a blocking
                copy on a stream that is capturing.
        """
        site = site or here()
        label = label or f"copy {direction}"
        host = (reads if direction[0] == "h" else writes)[:1]
        with self.lock:
            block = self._pinned.at(host[0].start) if host else None
            pinned = block is not None
            if not pinned:
                # Pageable memory is read or complete within the call: nothing races
                # with it, and its addresses come and go unseen.
                reads = () if direction[0] == "h" else reads
                writes = () if direction[2] == "h" else writes
            rule = copies.rule(direction, pinned=pinned, blocking=blocking)
            captured = stream.capture is not None
            if blocking and captured:
                raise CudaError(
                    "cudaErrorStreamCaptureUnsupported",
                    f"{label} blocks on {stream}, which is capturing",
                )
            if rule.waits_before:
                clock, waits, until = self._work_of(stream)
                self._wait(label, str(stream), waits, until, site)
                join(self.order.host().clock, clock)
            if block is not None and direction != "d2d":
                block.uses[stream] = None
            if rule.staged and not captured:
                run = take()
            else:

                def run() -> None:
                    take()()

            op = self.enqueue(
                kind="copy",
                label=label,
                stream=stream,
                reads=reads,
                writes=writes,
                run=run,
                site=site,
            )
            if rule.waits and op is not None:
                self._wait(label, str(stream), (op.id,), stream.busy_until, site)
                join(self.order.host().clock, op.clock)
            return op

    def host_access(
        self,
        span: Span,
        *,
        write: bool,
        label: str = "",
        site: CallSite | None = None,
    ) -> None:
        """Tell that host code touches memory that the device may touch as well.

        Of interest is pinned and managed memory. Within an operation that lands (a
        host function) the access counts as that operation's.

        Args:
            span: The bytes.
            write: Whether it writes them.
            label: What reports call it; `host read` or `host write` if absent.
            site: Where.
        """
        reads, writes = ((), (span,)) if write else ((span,), ())
        label = label or ("host write" if write else "host read")
        with self.lock:
            if self._landing_op is not None:
                self._touch(self._landing_op, reads, writes)
            else:
                self._touch_by_host(reads, writes, label, site or here())

    def _touch_by_host(
        self, reads: Sequence[Span], writes: Sequence[Span], label: str, site: CallSite
    ) -> None:
        host = self.order.host()
        op = self._op(
            "host",
            label,
            host.agent,
            dict(host.clock),
            merge(reads),
            merge(writes),
            site=site,
            where=host.name,
        )
        self._touch(op, op.reads, op.writes)
