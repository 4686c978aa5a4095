"""Shadow memory: the last write and the reads since, of every byte range.

Operations are seen in the order they land, which never goes against what happens
before what. So the first access that conflicts with an unordered one is found, in
whatever order the two landed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from sidestream.harness.runtime.op import Clock, Op
from sidestream.harness.runtime.spans import Span


class Conflict(NamedTuple):
    """Two accesses to the same bytes, one a write, that nothing orders."""

    first: Op
    second: Op
    span: Span
    did: str
    """What the first did: `read` or `write`."""
    does: str
    """What the second does."""


@dataclass(eq=False, slots=True)
class Cell:
    """A byte range that was accessed alike: `start` up to `end`."""

    start: int
    end: int
    write: Op | None = None
    reads: dict[int, Op] = field(default_factory=dict)
    """By agent, its last read since the write."""


class Shadow:
    """Last accesses of every byte, as a sorted list of ranges."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._cells: list[Cell] = []

    def read(self, span: Span, op: Op) -> list[Conflict]:
        """Take note of a read and return what it conflicts with."""
        found: list[Conflict] = []
        for cell in self._over(span, fill=True):
            write = cell.write
            if write is not None and not write.before(op):
                found.append(_conflict(write, op, cell, "write", "read"))
            cell.reads[op.agent] = op
        return found

    def write(self, span: Span, op: Op) -> list[Conflict]:
        """Take note of a write and return what it conflicts with."""
        found: list[Conflict] = []
        if span.size <= 0:
            return found
        for cell in self._over(span, fill=False):
            write = cell.write
            if write is not None and not write.before(op):
                found.append(_conflict(write, op, cell, "write", "write"))
            for read in cell.reads.values():
                if not read.before(op):
                    found.append(_conflict(read, op, cell, "read", "write"))
        self._replace(span, Cell(span.start, span.end, op))
        return found

    def settle(self, span: Span, clock: Clock) -> None:
        """Take the accesses that a clock knows of as ordered before all to come."""
        for cell in self._over(span, fill=False):
            if cell.write is not None and _known(cell.write, clock):
                cell.write = None
            cell.reads = {a: r for a, r in cell.reads.items() if not _known(r, clock)}

    def forget(self, span: Span) -> None:
        """Drop what is known of bytes that were given back to the system."""
        self._over(span, fill=False)
        self._replace(span, None)

    def cells(self, span: Span) -> list[Cell]:
        """Return what is known of a range, cut at its ends."""
        return self._over(span, fill=False)

    def _over(self, span: Span, *, fill: bool) -> list[Cell]:
        """Return the cells inside `span`, cut at its ends; `fill` closes the gaps."""
        if span.size <= 0:
            return []
        self._cut_at(span.start)
        self._cut_at(span.end)
        low = bisect_left(self._starts, span.start)
        high = bisect_left(self._starts, span.end)
        inside = self._cells[low:high]
        if not fill:
            return inside
        whole: list[Cell] = []
        at = span.start
        for cell in inside:
            if at < cell.start:
                whole.append(Cell(at, cell.start))
            whole.append(cell)
            at = cell.end
        if at < span.end:
            whole.append(Cell(at, span.end))
        if len(whole) != len(inside):
            self._cells[low:high] = whole
            self._starts[low:high] = [c.start for c in whole]
        return whole

    def _cut_at(self, address: int) -> None:
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return
        cell = self._cells[index]
        if cell.start < address < cell.end:
            rest = Cell(address, cell.end, cell.write, dict(cell.reads))
            cell.end = address
            self._cells.insert(index + 1, rest)
            self._starts.insert(index + 1, address)

    def _replace(self, span: Span, cell: Cell | None) -> None:
        low = bisect_left(self._starts, span.start)
        high = bisect_left(self._starts, span.end)
        self._cells[low:high] = [cell] if cell is not None else []
        self._starts[low:high] = [cell.start] if cell is not None else []


def _known(op: Op, clock: Clock) -> bool:
    return clock.get(op.agent, 0) >= op.tick


def _conflict(first: Op, second: Op, cell: Cell, did: str, does: str) -> Conflict:
    span = Span(cell.start, cell.end - cell.start)
    return Conflict(first=first, second=second, span=span, did=did, does=does)
