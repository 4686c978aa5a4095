"""The memory of a call on a card: its tensors between guards, in one allocation.

The card keeps an image of what a call is to find, so that a call starts from it by one
copy on the card; what the call changed is told there too, and only outputs come back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sidestream.harness.run.card_world import GUARD, GUARD_BYTE
from sidestream.harness.run.virtual_call import OUTPUTS

Bytes = NDArray[np.uint8]
_ALIGNED = 256
SCRATCH = "workspace"


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What is no more as a call found it, and what its outputs hold.

    Attributes:
        written: By tensor, one flag a byte that changed.
        guards: By tensor, the first byte beside it that changed, counted from its own
            first byte.
        tail: The bytes from `start` on, where the outputs lie.
        start: Where they begin, counted from the first byte of all.
    """

    written: Mapping[str, NDArray[np.bool_]]
    guards: Mapping[str, int]
    tail: Bytes
    start: int

    def bits(
        self,
        dtype: np.dtype[Any],
        *,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        at: int,
    ) -> NDArray[Any]:
        """Copy elements of an output out.

        Args:
            dtype: Of the elements.
            shape: Elements along each axis.
            strides: In elements.
            at: The first element's byte, counted from the first byte of all.
        """
        begin = at - self.start
        end = begin + (len(self.tail) - begin) // dtype.itemsize * dtype.itemsize
        steps = tuple(s * dtype.itemsize for s in strides)
        whole = self.tail[begin:end].view(dtype)
        return np.array(np.lib.stride_tricks.as_strided(whole, shape, steps))


class Arena:
    """Tensors by name, outputs behind all others.

    Args:
        data: What calls find in each, the scratch under `SCRATCH`.
        device: Where.
    """

    def __init__(self, data: Mapping[str, Bytes], device: torch.device) -> None:
        names = [n for n in data if n not in OUTPUTS]
        self._names = [*names, *(n for n in data if n in OUTPUTS)]
        self._sizes = {name: len(given) for name, given in data.items()}
        self._starts: dict[str, int] = {}
        at, self._tail = GUARD, 0
        for name in self._names:
            if name in OUTPUTS and not self._tail:
                self._tail = at - GUARD
            self._starts[name] = at
            at += -(-self._sizes[name] // _ALIGNED) * _ALIGNED + GUARD
        self._tail = self._tail or at
        self._host = np.full(at, GUARD_BYTE, np.uint8)
        for name, given in data.items():
            self._host[self.part(name)] = given
        self.image = torch.from_numpy(self._host).to(device, copy=True)
        """What calls are to find, on the card."""
        self.there = torch.empty(at, dtype=torch.uint8, device=device)
        """What calls read and write: as many bytes, where the tensors lie."""

    def part(self, name: str) -> slice:
        """Return where a tensor's bytes lie."""
        start = self._starts[name]
        return slice(start, start + self._sizes[name])

    def put(self, name: str, data: Bytes) -> None:
        """Let calls find these bytes."""
        part = self.part(name)
        if not np.array_equal(self._host[part], data):
            self._host[part] = data
            self.image[part].copy_(torch.from_numpy(self._host[part]))

    def load(self) -> None:
        """Put everything back, guards too, behind the current stream's work."""
        self.there.copy_(self.image)

    def offset(self, tensor: torch.Tensor) -> int | None:
        """Return where an output's tensor begins in these bytes; None if elsewhere."""
        at = tensor.data_ptr() - self.there.data_ptr()
        return at if self._tail <= at < len(self._host) else None

    def changes(self, state: torch.Tensor | None = None) -> Changes:
        """Compare with what calls find; the scratch may have changed.

        Args:
            state: What a call left behind, if another one has begun since.
        """
        state = self.there if state is None else state
        differs = state[: self._tail] != self.image[: self._tail]
        differs[self.part(SCRATCH)] = False
        elsewhere = differs.any()
        back = state[self._tail :].cpu().numpy()
        ends = back != self._host[self._tail :]
        head = differs.cpu().numpy() if bool(elsewhere) else None
        written: dict[str, NDArray[np.bool_]] = {}
        for name in self._names:
            part = self.part(name)
            if name in OUTPUTS:
                shift = slice(part.start - self._tail, part.stop - self._tail)
                written[name] = ends[shift].copy()
                ends[shift] = False
            elif name != SCRATCH:
                size = self._sizes[name]
                written[name] = np.zeros(size, np.bool_) if head is None else head[part]
        guards = self._guards(head, ends)
        return Changes(written=written, guards=guards, tail=back, start=self._tail)

    def _guards(
        self, head: NDArray[np.bool_] | None, ends: NDArray[np.bool_]
    ) -> dict[str, int]:
        found: dict[str, int] = {}
        if head is None and not ends.any():
            return found
        first = head if head is not None else np.zeros(self._tail, np.bool_)
        outside = np.concatenate((first, ends))
        for name in self._names:
            outside[self.part(name)] = False
        for at in np.flatnonzero(outside).tolist():
            name = min(self._names, key=lambda n: self._distance(n, at))
            found.setdefault(name, at - self._starts[name])
        return found

    def _distance(self, name: str, at: int) -> int:
        part = self.part(name)
        return int(part.start - at if at < part.start else at - part.stop + 1)
