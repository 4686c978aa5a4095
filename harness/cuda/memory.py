"""Global memory of the virtual device: named allocations and what lies around them."""

from __future__ import annotations

import ctypes
import itertools
import mmap
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from sidestream.harness.errors import ContractError, UsageError
from sidestream.harness.exec import abi

REDZONE = 4096
"""Bytes kept free on each side of an allocation that the table makes."""
ALIGNMENT = 256
"""Alignment of the base addresses, that of `cudaMalloc`."""
_MAP_NORESERVE = 0x4000
"""Of Linux; `mmap` names it from Python 3.13 on."""
REDZONE_BYTE = 0xC7
"""What redzones hold; a different byte there was written by the host."""

Bytes = NDArray[np.uint8]


@dataclass(eq=False, kw_only=True)
class Allocation:
    """A range of device addresses and the host memory that backs it.

    Attributes:
        id: Number of the allocation, unique in its table.
        name: What reports call it, e.g. `q` or `workspace`.
        va: Device address of the first byte.
        size: Size in bytes.
        data: The bytes, as a view of host memory.
        writable: False makes a write by a kernel a finding.
        freed: True once freed; the bytes stay, so that the addresses are not reused.
        init: One byte per byte of `data`, 1 where it was written, or None when all
            of it counts as written.
        reserved: Whether only pages that are touched take memory.
    """

    id: int
    name: str
    va: int
    size: int
    data: Bytes
    writable: bool = True
    freed: bool = False
    init: Bytes | None = None
    reserved: bool = False
    _owner: object = field(default=None, repr=False)
    _slab: Bytes | None = field(default=None, repr=False)

    @property
    def host(self) -> int:
        """Host address of the first byte."""
        return int(self.data.ctypes.data)

    @property
    def end(self) -> int:
        """Device address after the last byte."""
        return self.va + self.size

    def tensor(
        self,
        dtype: torch.dtype,
        shape: Sequence[int],
        stride: Sequence[int] | None = None,
        *,
        byte_offset: int = 0,
    ) -> torch.Tensor:
        """Return a tensor over these bytes; it shares and keeps them alive.

        Args:
            dtype: Element type.
            shape: Extents.
            stride: Strides in elements; contiguous if absent.
            byte_offset: Where element 0 lies.

        Raises:
            ContractError: if the tensor does not fit, or its offset is not a
                multiple of the element size.
        """
        item = dtype.itemsize
        strides = tuple(stride) if stride is not None else contiguous(shape)
        span = 0
        if 0 not in shape:
            reach = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
            span = (reach + 1) * item
        # Nothing lies anywhere, as torch has it: V of a pair without keys starts behind
        # the K of a token that there is not.
        outside = span > 0 and byte_offset + span > self.size
        if byte_offset % item or outside:
            raise ContractError(
                f"a {tuple(shape)} tensor of {dtype} at byte {byte_offset} does not "
                f"fit the {self.size} bytes of {self.name}"
            )
        data = self.data[: self.size // item * item]
        if not self.size and self._slab is not None:
            # An empty array has no address; a view at ours keeps the tensor's home.
            offset = self.va - int(self._slab.ctypes.data)
            data = self._slab[offset : offset + ALIGNMENT]
        whole = torch.from_numpy(data).view(dtype)
        return whole.as_strided(tuple(shape), strides, byte_offset // item)

    def poison(self, pattern: bytes) -> None:
        """Overwrite all bytes with a repeated pattern, as leftovers of other work."""
        repeats = -(-self.size // len(pattern)) if self.size else 0
        self.data[:] = np.frombuffer(pattern * repeats, np.uint8)[: self.size]

    def forget_writes(self) -> None:
        """Count every byte as unwritten from now on."""
        self.init = np.zeros(self.size, np.uint8)


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense row-major tensor, in elements."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * max(extent, 1))
    return tuple(reversed(strides))[: len(shape)] if shape else ()


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Every live allocation at one moment, by allocation id.

    Attributes:
        data: Its bytes.
        written: Which of them had been written, where that is tracked.
    """

    data: Mapping[int, Bytes]
    written: Mapping[int, Bytes]


@dataclass(frozen=True, kw_only=True)
class ChangedRange:
    """Bytes `start` to `stop` of an allocation that differ from a snapshot."""

    allocation: Allocation
    start: int
    stop: int


class AllocationTable:
    """The allocations of one virtual device, live ones and freed ones.

    Freed allocations stay in quarantine: their addresses are never handed out again,
    so that an access after the free is told as such.
    """

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._by_va: list[Allocation] = []
        self._starts: list[int] = []

    def __iter__(self) -> Iterator[Allocation]:
        return iter(self._by_va)

    def __len__(self) -> int:
        return len(self._by_va)

    def allocate(
        self,
        size: int,
        name: str,
        *,
        fill: bytes = b"\xa5",
        writable: bool = True,
        track_init: bool = False,
    ) -> Allocation:
        """Make an allocation between two redzones.

        Args:
            size: Bytes; 0 gives an address that no access may use.
            name: Its name in reports.
            fill: Pattern that the bytes start with.
            writable: False makes a write by a kernel a finding.
            track_init: True counts every byte as unwritten, so that reading one
                before it was written is a finding.

        Raises:
            UsageError: for a negative size or an empty fill.
        """
        if size < 0 or not fill:
            raise UsageError(f"{name}: size {size} or fill {fill!r} is not usable")
        slab = np.full(size + 2 * REDZONE + ALIGNMENT, REDZONE_BYTE, np.uint8)
        start = -(-(slab.ctypes.data + REDZONE) // ALIGNMENT) * ALIGNMENT
        offset = start - slab.ctypes.data
        made = Allocation(
            id=next(self._ids),
            name=name,
            va=start,
            size=size,
            data=slab[offset : offset + size],
            writable=writable,
            _slab=slab,
        )
        made.poison(fill)
        if track_init:
            made.forget_writes()
        return self._insert(made)

    def reserve(self, size: int, name: str, *, writable: bool = True) -> Allocation:
        """Make an allocation of zeros that takes memory only where it is touched.

        For operands whose offsets pass 2^31 while few of their rows are used. No
        snapshot can be taken as long as there is one.

        Raises:
            UsageError: for a size that is not positive.
            OSError: the address space has no room.
        """
        if size <= 0:
            raise UsageError(f"{name}: size {size} is not usable")
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        pages = mmap.mmap(-1, size + 2 * mmap.PAGESIZE, flags=flags)
        data = np.frombuffer(pages, np.uint8)[mmap.PAGESIZE : mmap.PAGESIZE + size]
        return self._insert(
            Allocation(
                id=next(self._ids),
                name=name,
                va=int(data.ctypes.data),
                size=size,
                data=data,
                writable=writable,
                reserved=True,
                _owner=pages,
            )
        )

    def adopt(
        self, tensor: torch.Tensor, name: str, *, writable: bool = True
    ) -> Allocation:
        """Register the whole storage of a CPU tensor that someone else made.

        A storage that is registered already gives its allocation. There is no
        redzone: its neighbours in memory are whatever the host allocator put there.

        Raises:
            UsageError: if the tensor is not on the CPU or its storage overlaps
                another allocation.
        """
        if tensor.device.type != "cpu":
            raise UsageError(f"{name} is on {tensor.device}, not in host memory")
        storage = tensor.untyped_storage()
        va, size = storage.data_ptr(), storage.nbytes()
        same = self.at(va)
        if same is not None and (same.va, same.size) == (va, size) and not same.freed:
            return same
        view = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (size,), (1,))
        data = view.numpy() if size else np.zeros(0, np.uint8)
        return self._insert(
            Allocation(
                id=next(self._ids),
                name=name,
                va=va,
                size=size,
                data=data,
                writable=writable,
                _owner=storage,
            )
        )

    def cover(self, *, va: int, size: int, name: str) -> Allocation:
        """Register memory of this process that someone else keeps, where it lies.

        Until `uncover`; whoever keeps it has to keep it that long.

        Raises:
            UsageError: if the range overlaps another allocation.
        """
        # An empty range may lie anywhere: nothing is looked at.
        memory = (ctypes.c_uint8 * size).from_address(va)
        data = np.ctypeslib.as_array(memory) if size else np.zeros(0, np.uint8)
        return self._insert(
            Allocation(id=next(self._ids), name=name, va=va, size=size, data=data)
        )

    def uncover(self, allocation: Allocation) -> None:
        """Forget what `cover` registered; the addresses may come again."""
        self._remove(allocation)

    def map(
        self, *, va: int, data: bytes | Bytes, name: str, id: int, writable: bool
    ) -> Allocation:
        """Back the device range that starts at `va` by a copy of `data`.

        For replaying: device addresses are those of the recording, host addresses new.

        Raises:
            UsageError: if the range overlaps another allocation.
        """
        copy = np.frombuffer(bytes(data), np.uint8).copy()
        return self._insert(
            Allocation(
                id=id, name=name, va=va, size=len(copy), data=copy, writable=writable
            )
        )

    def free(self, allocation: Allocation) -> None:
        """Mark an allocation freed.

        Raises:
            ContractError: for a second free.
        """
        if allocation.freed:
            raise ContractError(f"{allocation.name} is freed a second time")
        allocation.freed = True

    def at(self, address: int) -> Allocation | None:
        """Return the allocation, live or freed, that holds a device address.

        An allocation of no bytes holds the address it starts at.
        """
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        found = self._by_va[index]
        return found if address < found.end or address == found.va else None

    def by_id(self, id: int) -> Allocation:
        """Return an allocation by its number.

        Raises:
            KeyError: if there is none.
        """
        for allocation in self._by_va:
            if allocation.id == id:
                return allocation
        raise KeyError(id)

    def describe(self, address: int) -> str:
        """Say where an address lies in terms of the nearest allocation."""
        inside = self.at(address)
        if inside is not None and inside.size:
            state = " (freed)" if inside.freed else ""
            return f"byte {address - inside.va} of {inside.name}{state}"
        index = bisect_right(self._starts, address) - 1
        near = self._by_va[max(index, 0) : index + 2]
        if not near:
            return f"{address:#x}, where nothing is allocated"

        def distance(a: Allocation) -> int:
            return a.va - address if address < a.va else address - a.end + 1

        best = min(near, key=distance)
        if address < best.va:
            return f"{best.va - address} bytes before {best.name}"
        return f"{address - best.end} bytes past the end of {best.name}"

    def entries(self) -> NDArray[np.void]:
        """Return `ALLOC_DTYPE` rows, sorted by address, for the execution core.

        The rows hold raw addresses: keep the table alive while they are in use.
        """
        shown = [a for a in self._by_va if a.size]
        rows = np.zeros(len(shown), abi.ALLOC_DTYPE)
        for row, a in zip(rows, shown, strict=True):
            flags = abi.ALLOC_READ | (abi.ALLOC_WRITE if a.writable else 0)
            row["va"], row["size"], row["id"] = a.va, a.size, a.id
            if a.freed:
                row["flags"] = flags | abi.ALLOC_FREED
                continue
            row["flags"], row["host"] = flags, a.host
            row["init"] = a.init.ctypes.data if a.init is not None else 0
        return rows

    def snapshot(self) -> Snapshot:
        """Copy the bytes of every live allocation, and which have been written.

        Raises:
            UsageError: some allocation is reserved, and as good as too large.
        """
        for a in self._by_va:
            if a.reserved and not a.freed:
                raise UsageError(f"{a.name} is reserved: {a.size} bytes are not copied")
        live = [a for a in self._by_va if not a.freed]
        return Snapshot(
            data={a.id: a.data.copy() for a in live},
            written={a.id: a.init.copy() for a in live if a.init is not None},
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Put back a snapshot; allocations made since keep what they have."""
        for a in self._by_va:
            if a.id in snapshot.data:
                a.data[:] = snapshot.data[a.id]
            if a.init is not None and a.id in snapshot.written:
                a.init[:] = snapshot.written[a.id]

    def changed(self, snapshot: Snapshot) -> tuple[ChangedRange, ...]:
        """Return the ranges that differ from a snapshot, in order of address."""
        ranges: list[ChangedRange] = []
        for a in self._by_va:
            before = snapshot.data.get(a.id)
            if before is None:
                continue
            differs = np.flatnonzero(before != a.data)
            if not len(differs):
                continue
            for run in np.split(differs, np.flatnonzero(np.diff(differs) > 1) + 1):
                ranges.append(
                    ChangedRange(allocation=a, start=int(run[0]), stop=int(run[-1]) + 1)
                )
        return tuple(ranges)

    def broken_redzones(self) -> tuple[tuple[Allocation, int], ...]:
        """Return allocations whose redzone was written, with the byte offset.

        The offset counts from the allocation's start: negative before it. Kernels
        cannot reach a redzone on the virtual device; host code can.
        """
        broken = []
        for a in self._by_va:
            if a._slab is None:
                continue
            start = a.host - int(a._slab.ctypes.data)
            wrong = np.flatnonzero(a._slab != REDZONE_BYTE)
            outside = wrong[(wrong < start) | (wrong >= start + a.size)]
            if len(outside):
                broken.append((a, int(outside[0]) - start))
        return tuple(broken)

    def _insert(self, new: Allocation) -> Allocation:
        index = bisect_right(self._starts, new.va)
        before = self._by_va[index - 1] if index else None
        after = self._by_va[index] if index < len(self._by_va) else None
        for other in (before, after):
            if other is not None and new.va < other.end and other.va < new.end:
                if other.freed and other._slab is None:
                    # Host memory that was given back and handed out again.
                    self._remove(other)
                    return self._insert(new)
                raise UsageError(
                    f"{new.name} at {new.va:#x} overlaps {other.name} at {other.va:#x}"
                )
        self._by_va.insert(index, new)
        self._starts.insert(index, new.va)
        return new

    def _remove(self, allocation: Allocation) -> None:
        index = self._by_va.index(allocation)
        del self._by_va[index]
        del self._starts[index]
