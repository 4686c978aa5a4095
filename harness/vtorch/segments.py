"""Memory that segments are cut from, with torch's raw view of it."""

from __future__ import annotations

import ctypes
from bisect import bisect_right, insort
from collections.abc import Callable, Sequence

import torch

from sidestream.harness.runtime.allocator import HostBacking

POISON = 0xFF
"""Byte that fresh device memory holds: NaN in every float format, and -1."""
_LEAD = 4096
"""Bytes before a segment, so that no raw view begins where a user's storage may."""
_MOST_POISONED = 64 << 20
"""A larger segment is left as the system gives it; filling it would take time."""


class Region:
    """An address range that numpy and torch can look at; keeps nothing alive."""

    __slots__ = ("__array_interface__",)

    def __init__(self, address: int, size: int) -> None:
        self.__array_interface__ = {
            "data": (address, False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }


class Segments:
    """Backing of a runtime's allocators; gives tensors that own none of its bytes.

    Args:
        changed: Called after device memory came or went.
    """

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self.changed = changed
        self._memory = HostBacking()
        self._starts: list[int] = []
        self._sizes: dict[int, tuple[int, int]] = {}
        self._views: dict[tuple[int, torch.dtype], torch.Tensor] = {}

    def reserve(self, size: int, device: int) -> int:
        """Return the address of fresh memory; that of a device is poisoned."""
        address = self._memory.reserve(size + _LEAD, device) + _LEAD
        if device >= 0 and size <= _MOST_POISONED:
            ctypes.memset(address, POISON, size)
        insort(self._starts, address)
        self._sizes[address] = size, device
        if device >= 0:
            self.changed()
        return address

    def release(self, address: int) -> None:
        """Give a segment back to the system."""
        self._starts.remove(address)
        _, device = self._sizes.pop(address)
        for key in [key for key in self._views if key[0] == address]:
            del self._views[key]
        self._memory.release(address - _LEAD)
        if device >= 0:
            self.changed()

    def device(self, address: int) -> int | None:
        """Return the device whose memory an address lies in; -1 is pinned memory."""
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        start = self._starts[index]
        size, device = self._sizes[start]
        return device if address < start + size else None

    def ranges(self) -> list[tuple[int, int, int]]:
        """Return (start, end, index of the device) of all device memory."""
        return [
            (start, start + size, device)
            for start, (size, device) in sorted(self._sizes.items())
            if device >= 0
        ]

    def view(
        self,
        address: int,
        dtype: torch.dtype,
        size: Sequence[int],
        stride: Sequence[int],
    ) -> torch.Tensor:
        """Return a tensor over bytes of a segment; frees nothing when it goes.

        Args:
            address: Of element (0, ..., 0).
            dtype: Element type.
            size: Extents.
            stride: In elements.
        """
        start = self._starts[bisect_right(self._starts, address) - 1]
        whole = self._views.get((start, dtype))
        if whole is None:
            whole = memory(start - _LEAD, self._sizes[start][0] + _LEAD).view(dtype)
            self._views[start, dtype] = whole
        offset = (address - start + _LEAD) // dtype.itemsize
        return whole.as_strided(size, stride, offset)


def memory(address: int, size: int) -> torch.Tensor:
    """Return bytes of this process as a tensor that keeps nothing alive."""
    import numpy as np

    return torch.from_numpy(np.asarray(Region(address, size)))
