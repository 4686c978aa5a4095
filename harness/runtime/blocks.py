"""Blocks of device memory: segments from the driver, split and joined again.

Sizes and rules are those of torch's caching allocator (c10/cuda,
CUDACachingAllocator) with its default settings; expandable segments are not modelled.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from sidestream.harness.runtime.streams import Stream

ROUNDING = 512
"""Every block is a multiple of this."""
SMALL = 1 << 20
"""Requests up to this come from the small pool."""
SMALL_SEGMENT = 2 << 20
LARGE_SEGMENT = 20 << 20
LARGE_FROM = 10 << 20
"""Requests from this on get a segment of their own size."""
LARGE_ROUNDING = 2 << 20


def rounded(size: int) -> int:
    """Return the bytes of the block for a request."""
    return max(ROUNDING, -(-size // ROUNDING) * ROUNDING)


def segment_size(size: int) -> int:
    """Return the bytes asked of the driver for a block of `size` bytes."""
    if size <= SMALL:
        return SMALL_SEGMENT
    if size < LARGE_FROM:
        return LARGE_SEGMENT
    return -(-size // LARGE_ROUNDING) * LARGE_ROUNDING


@dataclass(eq=False, kw_only=True, slots=True)
class Block:
    """A part of a segment, allocated or free.

    Attributes:
        address: Of its first byte.
        size: Bytes.
        requested: Bytes that the caller asked for.
        stream: The stream whose order its reuse follows.
        pool: The pool it belongs to.
        allocated: Whether a caller has it.
        id: Number of the present allocation.
        label: What reports call it.
        format: Type of the elements it was allocated for, as the caller spells it.
        uses: Other streams that use it, from `record_stream`.
        captured_uses: Those of `uses` that were recorded during a capture.
        events: Events that must pass before a freed block may be reused.
        before: Its neighbour at lower addresses in the segment.
        after: Its neighbour at higher ones.
    """

    address: int
    size: int
    stream: Stream
    pool: Pool = field(repr=False)
    requested: int = 0
    allocated: bool = False
    id: int = 0
    label: str = ""
    format: str = ""
    uses: dict[Stream, None] = field(default_factory=dict)
    captured_uses: dict[Stream, None] = field(default_factory=dict)
    events: int = 0
    before: Block | None = field(default=None, repr=False)
    after: Block | None = field(default=None, repr=False)

    @property
    def whole(self) -> bool:
        """Whether it is a segment to itself."""
        return self.before is None and self.after is None


@dataclass(eq=False, kw_only=True)
class Pool:
    """Free blocks of one size class, for each stream by size and address.

    Attributes:
        device: Its device.
        small: Whether it serves requests up to `SMALL`.
        owner: Number of the private pool it belongs to, or 0.
    """

    device: int
    small: bool
    owner: int = 0
    free: dict[Stream, list[tuple[int, int, Block]]] = field(
        default_factory=dict, repr=False
    )

    def __iter__(self) -> Iterator[Block]:
        for entries in self.free.values():
            for _, _, block in entries:
                yield block

    def take(self, size: int, stream: Stream) -> Block | None:
        """Take the smallest free block of a stream that holds `size` bytes, or None."""
        entries = self.free.get(stream, [])
        index = bisect_left(entries, size, key=lambda entry: entry[0])
        return entries.pop(index)[2] if index < len(entries) else None

    def put(self, block: Block) -> None:
        """Take a free block in, joined with its free neighbours."""
        for neighbour in (block.before, block.after):
            if neighbour is not None and _joinable(neighbour):
                self.remove(neighbour)
                _join(block, neighbour)
        entry = (block.size, block.address, block)
        insort(self.free.setdefault(block.stream, []), entry, key=lambda e: e[:2])

    def remove(self, block: Block) -> None:
        """Take a certain block out."""
        entries = self.free[block.stream]
        at = bisect_left(entries, (block.size, block.address), key=lambda e: e[:2])
        assert entries[at][2] is block
        entries.pop(at)

    def split(self, block: Block, size: int) -> None:
        """Cut what is over `size` off a block and keep it as a free one.

        In the small pool a rest of 512 bytes is enough for that, in the large one it
        has to be more than 1 MiB.
        """
        rest = block.size - size
        if rest < ROUNDING if self.small else rest <= SMALL:
            return
        after = Block(
            address=block.address + size,
            size=rest,
            stream=block.stream,
            pool=self,
            before=block,
            after=block.after,
        )
        if block.after is not None:
            block.after.before = after
        block.after, block.size = after, size
        self.put(after)


def _joinable(block: Block) -> bool:
    return not (block.allocated or block.events or block.uses)


def _join(block: Block, other: Block) -> None:
    """Add a neighbour's bytes to a block; the neighbour is gone."""
    if other is block.before:
        block.address, block.before = other.address, other.before
        if block.before is not None:
            block.before.after = block
    else:
        block.after = other.after
        if block.after is not None:
            block.after.before = block
    block.size += other.size
