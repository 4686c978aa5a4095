"""What the calls of a series find on a card: one image of the memory for each.

Every image is that of the first call but for one change. What the changes need is sent
to the card at once, before any call: a copy from pageable memory waits for the stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sidestream.harness.checks.observation import rows_of
from sidestream.harness.run.card_arena import SCRATCH
from sidestream.harness.run.card_call import CardCall
from sidestream.scenarios.case import declared_lengths
from sidestream.scenarios.scenario import Scenario

SIGNED = {1: torch.int8, 2: torch.int16, 4: torch.int32}
"""By bytes of an element, the integers that stand for its bits."""
_LENGTHS = ("lengths_q", "lengths_kv")
_APART = 16
"""Bytes that what is sent is a multiple of, so that every type can lie there."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """How the memory that a call finds differs from that of the first one.

    Attributes:
        pattern: What the scratch holds; "" for what it held then.
        flipped: Sequences whose Q and V have the other sign.
        lengths: Scenario whose lengths are declared instead, in the same room.
    """

    pattern: str = ""
    flipped: frozenset[int] = frozenset()
    lengths: Scenario | None = None


@dataclass(frozen=True, kw_only=True)
class Images:
    """What some calls find, in the order of the calls.

    Attributes:
        call: Whose memory it is.
        found: (calls, bytes of the arena) uint8.
        free: Calls with flipped sequences, and the rows (capacity_q,) that these have.
    """

    call: CardCall
    found: torch.Tensor
    free: Sequence[tuple[slice, torch.Tensor]]

    def forgive(self, off: torch.Tensor) -> None:
        """Take out what no call is held to: scratch, and rows of flipped sequences.

        Args:
            off: (calls, bytes of the arena) uint8, 0 where a call did as it should.
        """
        inputs, arena = self.call.inputs, self.call.arena
        off[:, arena.part(SCRATCH)] = 0
        for calls, rows in self.free:
            for view in (inputs.out, inputs.lse):
                if view is None:
                    continue
                size = inputs.slabs[view.slab].itemsize
                start = arena.part(view.slab).start // size + view.offset
                elements = _elements(off, calls, view.shape, view.strides, size, start)
                elements.masked_fill_(rows.reshape(-1, *[1] * (len(view.shape) - 1)), 0)


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A part of a change: of what kind, in which calls, and what the card must know."""

    kind: str
    calls: slice
    value: NDArray[Any]


def images(call: CardCall, changes: Sequence[Change]) -> Images:
    """Make images on the current stream; the arena's own is that of the first call."""
    parts = list(_parts(call, changes))
    found = call.arena.image.repeat(len(changes), 1)
    free = []
    for part, sent in zip(parts, _sent(parts, call.card.device), strict=True):
        if part.kind == "free":
            free.append((part.calls, sent.view(torch.bool)))
        elif part.kind in ("q", "v"):
            tensor: torch.Tensor = getattr(call.tensors, part.kind)
            size, start = tensor.element_size(), int(tensor.storage_offset())
            bits = _elements(
                found, part.calls, tensor.shape, tensor.stride(), size, start
            )
            bits.bitwise_xor_(sent.view(SIGNED[size])[:, None, None])
        else:
            found[part.calls, call.arena.part(part.kind)] = sent
    return Images(call=call, found=found, free=free)


def _parts(call: CardCall, changes: Sequence[Change]) -> Iterator[_Part]:
    scenario, at = call.inputs.scenario, 0
    rows_q = rows_of(scenario.lengths_q, scenario.capacity_q)
    rows_kv = rows_of(scenario.lengths_kv, scenario.capacity_kv)
    for change, same in groupby(changes):
        calls = slice(at, at + len(list(same)))
        at = calls.stop
        if change.pattern and change.pattern != scenario.scratch:
            held = call.scratch_of(change.pattern)
            yield _Part(kind=SCRATCH, calls=calls, value=held)
        if change.flipped:
            rows, keys = rows_q.of(change.flipped), rows_kv.of(change.flipped)
            bits = np.dtype(f"i{call.tensors.q.element_size()}")
            sign = np.array(np.iinfo(bits).min, bits)
            yield _Part(kind="q", calls=calls, value=rows.astype(bits) * sign)
            yield _Part(kind="v", calls=calls, value=keys.astype(bits) * sign)
            yield _Part(kind="free", calls=calls, value=rows)
        if change.lengths is not None:
            declared = declared_lengths(change.lengths)
            for kind, value in zip(_LENGTHS, declared, strict=True):
                yield _Part(kind=kind, calls=calls, value=value)


def _elements(
    held: torch.Tensor,
    calls: slice,
    shape: Sequence[int],
    strides: Sequence[int],
    size: int,
    start: int,
) -> torch.Tensor:
    """Return the elements of a tensor of the arena in some rows of bytes.

    Args:
        held: (calls, bytes of the arena) uint8.
        calls: Which rows.
        shape: Of the tensor.
        strides: Of the tensor, in elements.
        size: Bytes of an element.
        start: The first element, counted in elements from the arena's first byte.
    """
    flat = held.view(SIGNED[size])
    width = flat.shape[1]
    first = calls.start * width + start
    return flat.as_strided((calls.stop - calls.start, *shape), (width, *strides), first)


def _sent(parts: Sequence[_Part], device: torch.device) -> list[torch.Tensor]:
    """Send what the card must know in one copy; return the bytes of each part."""
    at, places = 0, []
    for part in parts:
        places.append(slice(at, at + part.value.nbytes))
        at += -(-part.value.nbytes // _APART) * _APART
    host = np.empty(at, np.uint8)
    for part, place in zip(parts, places, strict=True):
        host[place] = part.value.view(np.uint8)
    there = torch.from_numpy(host).to(device, non_blocking=True)
    return [there[place] for place in places]
