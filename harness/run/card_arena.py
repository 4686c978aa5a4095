"""The memory of a call on a card: its tensors between guards, in one allocation.

The card keeps an image of what a call is to find, so that a call starts from it by one
copy on the card; what the call changed is told there too, and only outputs come back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    """What is no more as a call found it.

    Attributes:
        written: By tensor, one flag a byte that changed.
        guards: By tensor, the first byte beside it that changed, counted from its own
            first byte.
    """

    written: Mapping[str, NDArray[np.bool_]]
    guards: Mapping[str, int]


class Arena:
    """Tensors by name, outputs behind all others.

    Args:
        sizes: Bytes of each, the scratch under `SCRATCH`.
        device: Where.
    """

    def __init__(self, sizes: Mapping[str, int], device: torch.device) -> None:
        names = [n for n in sizes if n not in OUTPUTS]
        self._names = [*names, *(n for n in sizes if n in OUTPUTS)]
        self._sizes = dict(sizes)
        self._starts: dict[str, int] = {}
        at, self._tail = GUARD, 0
        for name in self._names:
            if name in OUTPUTS and not self._tail:
                self._tail = at - GUARD
            self._starts[name] = at
            at += -(-sizes[name] // _ALIGNED) * _ALIGNED + GUARD
        self._tail = self._tail or at
        self._host = np.full(at, GUARD_BYTE, np.uint8)
        self._image = torch.from_numpy(self._host).to(device, copy=True)
        self.there = torch.empty(at, dtype=torch.uint8, device=device)

    def part(self, name: str) -> slice:
        """Return where a tensor's bytes lie."""
        start = self._starts[name]
        return slice(start, start + self._sizes[name])

    def put(self, name: str, data: Bytes) -> None:
        """Let calls find these bytes."""
        part = self.part(name)
        if not np.array_equal(self._host[part], data):
            self._host[part] = data
            self._image[part].copy_(torch.from_numpy(self._host[part]))

    def load(self) -> None:
        """Put everything back, guards too."""
        self.there.copy_(self._image)

    def changes(self) -> Changes:
        """Compare with what calls find; the scratch may have changed."""
        differs = self.there[: self._tail] != self._image[: self._tail]
        differs[self.part(SCRATCH)] = False
        back = self.there[self._tail :].cpu().numpy()
        ends = back != self._host[self._tail :]
        elsewhere = bool(differs.any())
        head = differs.cpu().numpy() if elsewhere else None
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
        return Changes(written=written, guards=self._guards(head, ends))

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
