"""Byte ranges: what an operation reads and writes, as addresses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple


class Span(NamedTuple):
    """Bytes `start` up to `start + size`; host and device are one address space."""

    start: int
    size: int

    @property
    def end(self) -> int:
        """Address after the last byte."""
        return self.start + self.size

    def __str__(self) -> str:
        return f"{self.size} bytes at {self.start:#x}"


def merge(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the same bytes as sorted spans that neither touch nor overlap."""
    out: list[Span] = []
    for span in sorted(s for s in spans if s.size > 0):
        if out and span.start <= out[-1].end:
            last = out[-1]
            out[-1] = Span(last.start, max(last.end, span.end) - last.start)
        else:
            out.append(span)
    return tuple(out)


def strided(
    address: int, shape: Sequence[int], strides: Sequence[int], itemsize: int
) -> tuple[Span, ...]:
    """Return the bytes of a strided array, exactly: gaps between rows are not in it.

    Args:
        address: Of element (0, ..., 0).
        shape: Extents.
        strides: In elements; negative ones and 0 (broadcast) are allowed.
        itemsize: Bytes of an element.
    """
    if 0 in shape:
        return ()
    dims = sorted(
        (abs(step) * itemsize, extent)
        for extent, step in zip(shape, strides, strict=True)
        if extent > 1 and step
    )
    low = address + sum(
        (extent - 1) * step * itemsize
        for extent, step in zip(shape, strides, strict=True)
        if step < 0
    )
    run = itemsize
    while dims and dims[0][0] <= run:  # this dimension continues the run before it
        step, extent = dims.pop(0)
        run += step * (extent - 1)
    if not dims:
        return (Span(low, run),)
    offsets = (sum(at) for at in product(*(range(0, s * n, s) for s, n in dims)))
    return merge(Span(low + offset, run) for offset in offsets)
