"""Shadow memory: the last write and the reads since, of every byte range.

Operations are seen in the order they land, which never goes against what happens
before what. An access is forgotten only for one behind it: of two unordered accesses
either they are told, or one of them and an access behind the other, in whatever order
they landed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
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
    late: dict[tuple[int, str], Op] = field(default_factory=dict)
    """By agent and deed, accesses before the write that it is not ordered after."""


class Shadow:
    """Last accesses of every byte, as a sorted list of ranges."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._cells: list[Cell] = []

    def read(self, span: Span, op: Op) -> list[Conflict]:
        """Take note of a read and return what it conflicts with."""
        return self.read_all((span,), op)

    def read_all(self, spans: Iterable[Span], op: Op) -> list[Conflict]:
        """Take note of reads of one operation and return what they conflict with."""
        found: list[Conflict] = []
        agent, known = op.agent, op.clock.get
        for span in spans:
            for cell in self._over(span, fill=True):
                write = cell.write
                if write is not None and known(write.agent, 0) < write.tick:
                    found.append(_conflict(write, op, cell, "write", "read"))
                if cell.late:
                    for (_, did), other in cell.late.items():
                        if did == "write" and not other.before(op):
                            found.append(_conflict(other, op, cell, did, "read"))
                cell.reads[agent] = op
        return found

    def write(self, span: Span, op: Op) -> list[Conflict]:
        """Take note of a write and return what it conflicts with."""
        if span.size <= 0:
            return []
        found: list[Conflict] = []
        for cell in self._over(span, fill=False):
            before = dict(cell.late)
            before |= {(agent, "read"): read for agent, read in cell.reads.items()}
            if cell.write is not None:
                before[cell.write.agent, "write"] = cell.write
            cell.late = {k: o for k, o in before.items() if not o.before(op)}
            for (_, did), other in cell.late.items():
                found.append(_conflict(other, op, cell, did, "write"))
        if not found:
            self._replace(span, Cell(span.start, span.end, op))
            return found
        for cell in self._over(span, fill=True):
            cell.write, cell.reads = op, {}
        return found

    def settle(self, span: Span, clock: Clock) -> None:
        """Take the accesses that a clock knows of as ordered before all to come."""
        for cell in self._over(span, fill=False):
            if cell.write is not None and _known(cell.write, clock):
                cell.write = None
            cell.reads = {a: r for a, r in cell.reads.items() if not _known(r, clock)}
            cell.late = {k: o for k, o in cell.late.items() if not _known(o, clock)}

    def forget(self, span: Span) -> None:
        """Drop what is known of bytes that were given back to the system."""
        self._over(span, fill=False)
        self._replace(span, None)

    def cells(self, span: Span) -> list[Cell]:
        """Return what is known of a range, cut at its ends."""
        return self._over(span, fill=False)

    def _over(self, span: Span, *, fill: bool) -> list[Cell]:
        """Return the cells inside `span`, cut at its ends; `fill` closes the gaps."""
        start, size = span
        if size <= 0:
            return []
        low = bisect_left(self._starts, start)
        if low < len(self._starts) and self._starts[low] == start:
            cell = self._cells[low]
            if cell.end == start + size:  # as it was accessed before
                return [cell]
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
            reads, late = dict(cell.reads), dict(cell.late)
            rest = Cell(address, cell.end, cell.write, reads, late)
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
