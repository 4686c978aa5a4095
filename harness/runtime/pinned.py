"""Pinned host memory: torch's caching host allocator and memory pinned by others.

A freed block is handed out again once the copies that used it asynchronously have
passed: torch records an event for each stream they were on (`torch.Tensor.pin_memory`;
c10/core, CachingHostAllocator). Sizes are rounded up to powers of two.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from sidestream.harness.runtime.allocator import Backing, Events
from sidestream.harness.runtime.cuda_error import CudaError
from sidestream.harness.runtime.events import Record
from sidestream.harness.runtime.streams import Stream

HOST = -1
"""What stands for the host where a `Backing` asks for a device."""


@dataclass(eq=False, kw_only=True, slots=True)
class HostBlock:
    """A range of pinned host memory.

    Attributes:
        address: Of its first byte.
        size: Bytes.
        requested: Bytes that the caller asked for.
        id: Number of the present allocation.
        cached: Whether it is the allocator's; others were pinned where they lay.
        uses: Streams with asynchronous copies from or to it.
        records: Events that must pass before it is reused.
    """

    address: int
    size: int
    requested: int
    id: int = 0
    cached: bool = True
    uses: dict[Stream, None] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)


class PinnedMemory:
    """All pinned host memory.

    Args:
        backing: Where memory comes from.
        events: Events of the runtime.
    """

    def __init__(self, backing: Backing, events: Events) -> None:
        self._backing = backing
        self._events = events
        self._live: dict[int, HostBlock] = {}
        self._starts: list[int] = []
        self._free: dict[int, list[HostBlock]] = {}
        self._waiting: list[HostBlock] = []
        self._deferred: list[HostBlock] = []
        self._last = 0
        self.misses = 0
        """How often the driver was asked."""

    def malloc(self, size: int, *, capturing: int) -> HostBlock:
        """Allocate pinned memory of at least `size` bytes."""
        need = 1 << max(size - 1, 0).bit_length()
        if not capturing:
            self._process_events()
        if self._free.get(need):
            block = self._free[need].pop()
        else:
            address = self._backing.reserve(need, HOST)
            self.misses += 1
            block = HostBlock(address=address, size=need, requested=size)
        block.requested = size
        return self._enter(block)

    def free(self, block: HostBlock, *, capturing: int) -> None:
        """Free it; it is reused when the copies that use it have passed.

        During a capture no events can be recorded: it waits for the captures to end.
        """
        self._leave(block)
        if capturing:
            self._deferred.append(block)
        else:
            self._hold_back(block)

    def empty(self) -> list[HostBlock]:
        """Give what nobody uses back to the driver, and return it."""
        self._process_events()
        unused = [block for blocks in self._free.values() for block in blocks]
        self._free.clear()
        for block in unused:
            self._backing.release(block.address)
        return unused

    def register(self, address: int, size: int) -> HostBlock:
        """Pin memory where it lies: `cudaHostRegister`."""
        block = HostBlock(address=address, size=size, requested=size, cached=False)
        return self._enter(block)

    def unregister(self, address: int) -> HostBlock:
        """Undo `register` and return what was.

        Raises:
            CudaError: cudaErrorInvalidValue where nothing was registered.
        """
        block = self._live.get(address)
        if block is None or block.cached:
            raise CudaError("cudaErrorInvalidValue", f"{address:#x} is not registered")
        self._leave(block)
        return block

    def blocks(self) -> list[HostBlock]:
        """Return what is pinned now."""
        return list(self._live.values())

    def at(self, address: int) -> HostBlock | None:
        """Return the pinned block that holds an address, or None: pageable."""
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        block = self._live[self._starts[index]]
        return block if address < block.address + block.size else None

    def _enter(self, block: HostBlock) -> HostBlock:
        self._last += 1
        block.id = self._last
        self._live[block.address] = block
        index = bisect_right(self._starts, block.address)
        self._starts.insert(index, block.address)
        return block

    def _leave(self, block: HostBlock) -> None:
        del self._live[block.address]
        self._starts.remove(block.address)

    def _hold_back(self, block: HostBlock) -> None:
        block.records = [self._events.mark(stream) for stream in block.uses]
        block.uses.clear()
        self._waiting.append(block)

    def _process_events(self) -> None:
        deferred, self._deferred = self._deferred, []
        for block in deferred:
            self._hold_back(block)
        still = []
        for block in self._waiting:
            if all(self._events.passed(record) for record in block.records):
                for record in block.records:
                    self._events.reusable(block.address, block.size, record)
                block.records = []
                self._free.setdefault(block.size, []).append(block)
            else:
                still.append(block)
        self._waiting = still
