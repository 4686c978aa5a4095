"""The caching allocator of one device, with the reuse rules of torch's.

A freed block is handed out again at once, to requests for the stream that it was
allocated on: their operations come after its old ones in the order of that stream.
Nothing orders them after operations of other streams; `record_stream` does, by
keeping a freed block back until events recorded on those streams at the free have
passed (torch.Tensor.record_stream; "CUDA semantics: Memory management").
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sidestream.harness.runtime.blocks import SMALL as SMALL_REQUEST
from sidestream.harness.runtime.blocks import Block, Pool, rounded, segment_size
from sidestream.harness.runtime.cuda_error import CudaError
from sidestream.harness.runtime.events import Record
from sidestream.harness.runtime.streams import Stream

_ALIGNMENT = 4096


class Backing(Protocol):
    """Where segments come from."""

    def reserve(self, size: int, device: int) -> int:
        """Return the address of fresh memory of `size` bytes, 512-byte aligned."""

    def release(self, address: int) -> None:
        """Give a segment back."""


class HostBacking:
    """Segments in the memory of this process."""

    def __init__(self) -> None:
        self._held: dict[int, NDArray[np.uint8]] = {}

    def reserve(self, size: int, device: int) -> int:
        """Return the address of fresh memory; pages are taken when they are touched."""
        slab = np.empty(size + _ALIGNMENT, np.uint8)
        address = -(-int(slab.ctypes.data) // _ALIGNMENT) * _ALIGNMENT
        self._held[address] = slab
        return address

    def release(self, address: int) -> None:
        """Give a segment back to the system."""
        del self._held[address]


class Events(Protocol):
    """What the allocator needs of the runtime: events of its own."""

    def mark(self, stream: Stream) -> Record:
        """Record an event on a stream."""

    def passed(self, record: Record) -> bool:
        """Whether it has been reached; does not wait."""

    def finish(self, records: list[Record]) -> None:
        """Wait for events on the host."""

    def reusable(self, address: int, size: int, record: Record) -> None:
        """Take note that what is done with memory from now on comes after an event."""

    def may_reserve(self, stream: Stream) -> None:
        """Refuse to ask the driver for memory where a capture forbids it."""

    def gone(self, address: int, size: int, device: int) -> None:
        """Take note that memory goes back to the driver."""


@dataclass(kw_only=True)
class Statistics:
    """Bytes and counts, as `torch.cuda.memory_stats` tells them."""

    allocated: int = 0
    allocated_peak: int = 0
    requested: int = 0
    reserved: int = 0
    reserved_peak: int = 0
    allocations: int = 0
    frees: int = 0
    segments: int = 0
    retries: int = 0
    out_of_memory: int = 0


@dataclass(eq=False, kw_only=True)
class PrivatePool:
    """Memory of one or more captures; blocks of it serve nobody else.

    Attributes:
        small: Its small blocks.
        large: Its large blocks.
        users: Captures and graphs that hold it; at 0 its memory may be given back.
    """

    small: Pool
    large: Pool
    users: int = 1


@dataclass(eq=False, kw_only=True)
class Allocator:
    """Blocks of one device.

    Attributes:
        device: Index of the device.
        capacity: Bytes of device memory.
        backing: Where segments come from.
        events: Events of the runtime.
        stats: Bytes and counts.
    """

    device: int
    capacity: int
    backing: Backing
    events: Events
    stats: Statistics = field(default_factory=Statistics)

    def __post_init__(self) -> None:
        self._small = Pool(device=self.device, small=True)
        self._large = Pool(device=self.device, small=False)
        self._private: dict[int, PrivatePool] = {}
        self._live: dict[int, Block] = {}
        self._open: dict[Stream, deque[tuple[Record, Block]]] = {}
        self._deferred: list[Block] = []
        self._numbers = itertools.count(1)
        self.misses = 0
        """How often the driver was asked for a segment."""

    def blocks(self) -> Iterator[Block]:
        """Return the allocated blocks."""
        return iter(self._live.values())

    def at(self, address: int) -> Block | None:
        """Return the allocated block that starts at an address."""
        return self._live.get(address)

    def malloc(
        self, size: int, stream: Stream, *, owner: int, capturing: int, label: str = ""
    ) -> Block:
        """Allocate a block for a stream.

        Args:
            size: Bytes.
            stream: Whose order reuse follows.
            owner: Private pool to take it from, or 0.
            capturing: How many captures are under way; events are not looked at then,
                and nothing is given back to the driver.
            label: What reports call the block.

        Raises:
            CudaError: cudaErrorMemoryAllocation when the device has no more.
        """
        if not capturing:
            self.process_events()
        need = rounded(size)
        pool = self._pool(need, owner)
        block = pool.take(need, stream) or self._segment(need, stream, pool)
        if block is None and not capturing:
            self.stats.retries += 1
            self.empty()
            block = self._segment(need, stream, pool)
        if block is None:
            self.stats.out_of_memory += 1
            raise CudaError(
                "cudaErrorMemoryAllocation",
                f"{size} bytes asked of device {self.device}: "
                f"{self.stats.reserved} of {self.capacity} are reserved, "
                f"{self.stats.allocated} allocated",
            )
        block.allocated, block.requested, block.label = True, size, label
        block.format = ""
        pool.split(block, need)
        block.id = next(self._numbers)
        self._live[block.address] = block
        stats = self.stats
        stats.allocations += 1
        stats.requested += size
        stats.allocated += block.size
        stats.allocated_peak = max(stats.allocated_peak, stats.allocated)
        return block

    def free(self, block: Block, *, capturing: int) -> None:
        """Free a block; other streams that use it keep it back until they are done.

        While a capture is under way no events can be recorded for them: the block
        stays back until the captures have ended.
        """
        block.allocated = False
        del self._live[block.address]
        self.stats.frees += 1
        self.stats.requested -= block.requested
        self.stats.allocated -= block.size
        if not block.uses:
            block.pool.put(block)
        elif capturing:
            self._deferred.append(block)
        else:
            self._hold_back(block)

    def record_stream(self, block: Block, stream: Stream, *, capturing: int) -> None:
        """Take note that a stream uses a block of another one."""
        if stream is not block.stream:
            block.uses[stream] = None
            if capturing:
                block.captured_uses[stream] = None

    def process_events(self) -> None:
        """Make blocks reusable whose events have passed; not during a capture."""
        for waiting in self._open.values():
            while waiting and self.events.passed(waiting[0][0]):
                self._passed(*waiting.popleft())
        # An event that is recorded now has not passed before the next call.
        self._take_deferred()

    def empty(self) -> None:
        """Wait for all held-back blocks, then give unused segments to the driver."""
        self._take_deferred()
        records = [record for waiting in self._open.values() for record, _ in waiting]
        self.events.finish(records)
        for waiting in self._open.values():
            while waiting:
                self._passed(*waiting.popleft())
        unused = [p for p in self._private.values() if not p.users]
        for pool in (self._small, self._large, *(q for p in unused for q in _both(p))):
            for block in [b for b in pool if b.whole]:
                pool.remove(block)
                self.events.gone(block.address, block.size, self.device)
                self.backing.release(block.address)
                self.stats.reserved -= block.size
                self.stats.segments -= 1

    def use_pool(self, owner: int) -> None:
        """Let one more capture or graph hold a private pool."""
        if owner in self._private:
            self._private[owner].users += 1
        else:
            self._private[owner] = PrivatePool(
                small=Pool(device=self.device, small=True, owner=owner),
                large=Pool(device=self.device, small=False, owner=owner),
            )

    def leave_pool(self, owner: int) -> None:
        """Take back a `use_pool`; memory nobody holds can be given back by `empty`."""
        self._private[owner].users -= 1

    def _pool(self, size: int, owner: int) -> Pool:
        small, large = self._small, self._large
        if owner:
            if owner not in self._private:  # a capture that spans devices
                self.use_pool(owner)
            small, large = _both(self._private[owner])
        return small if size <= SMALL_REQUEST else large

    def _segment(self, need: int, stream: Stream, pool: Pool) -> Block | None:
        size = segment_size(need)
        if self.stats.reserved + size > self.capacity:
            return None
        self.events.may_reserve(stream)
        address = self.backing.reserve(size, self.device)
        self.misses += 1
        self.stats.reserved += size
        self.stats.reserved_peak = max(self.stats.reserved_peak, self.stats.reserved)
        self.stats.segments += 1
        return Block(address=address, size=size, stream=stream, pool=pool)

    def _take_deferred(self) -> None:
        """Record the events of frees that had to wait for the end of the captures.

        Streams that a block was recorded on within a capture have joined it again:
        what they did is behind the block's stream in the graph and needs no event.
        """
        deferred, self._deferred = self._deferred, []
        for block in deferred:
            for stream in block.captured_uses:
                block.uses.pop(stream, None)
            self._hold_back(block)
            if not block.events:
                block.pool.put(block)

    def _hold_back(self, block: Block) -> None:
        for stream in block.uses:
            record = self.events.mark(stream)
            block.events += 1
            self._open.setdefault(stream, deque()).append((record, block))
        block.uses.clear()
        block.captured_uses.clear()

    def _passed(self, record: Record, block: Block) -> None:
        self.events.reusable(block.address, block.size, record)
        block.events -= 1
        if not block.events:
            block.pool.put(block)


def _both(private: PrivatePool) -> tuple[Pool, Pool]:
    return private.small, private.large
