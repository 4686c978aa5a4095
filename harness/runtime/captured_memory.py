"""Memory that only captured operations fill: before a replay it holds nothing.

What is made in a capture and kept, such as a workspace that a package clears once, is
cleared by the graph and by nobody else (CUDA Programming Guide, "Creating a Graph Using
Stream Capture": the work "is not enqueued for execution").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sidestream.harness.runtime.op import CallSite, Op
from sidestream.harness.runtime.spans import Span


@dataclass(frozen=True, kw_only=True)
class Unfilled:
    """A read of bytes that only a captured operation fills.

    Attributes:
        op: What reads.
        span: The first such bytes.
        filler: What was captured to fill them.
        captured: Where.
    """

    op: Op
    span: Span
    filler: str
    captured: CallSite


@dataclass(frozen=True, kw_only=True, slots=True)
class _Waiting:
    span: Span
    label: str
    site: CallSite


class CapturedMemory:
    """Bytes that were allocated and filled within captures, until a replay."""

    def __init__(self) -> None:
        self.unfilled: list[Unfilled] = []
        self._made: list[Span] = []
        self._waiting: list[_Waiting] = []

    def allocate(self, span: Span, *, captured: bool) -> None:
        """Take note of an allocation: what lay there before is gone."""
        if self._made or self._waiting:
            self._made = [m for m in self._made if not _common(m, span)]
            self._waiting = list(_without(self._waiting, [span]))
        if captured:
            self._made.append(span)

    def declare(self, writes: Iterable[Span], label: str, site: CallSite) -> None:
        """Take note of what a captured operation will fill."""
        for span in writes:
            for made in self._made:
                part = _common(made, span)
                if part is not None:
                    self._waiting.append(_Waiting(span=part, label=label, site=site))

    def write(self, writes: Sequence[Span]) -> None:
        """Take note of what an operation that landed has written."""
        if self._waiting:
            self._waiting = list(_without(self._waiting, writes))

    def read(self, reads: Iterable[Span], writes: Sequence[Span], op: Op) -> None:
        """Hold the reads of an operation outside of graphs against what is missing.

        What a launch writes itself it may read as well.
        """
        if not self._waiting:
            return
        own = writes if op.kind == "launch" else ()
        for waiting in _without(self._waiting, own):
            for span in reads:
                part = _common(waiting.span, span)
                if part is not None:
                    made = Unfilled(
                        op=op, span=part, filler=waiting.label, captured=waiting.site
                    )
                    self.unfilled.append(made)
                    return


def _common(a: Span, b: Span) -> Span | None:
    start, end = max(a.start, b.start), min(a.end, b.end)
    return Span(start, end - start) if start < end else None


def _without(waiting: Iterable[_Waiting], spans: Sequence[Span]) -> Iterable[_Waiting]:
    """Yield what is left of `waiting` outside of some spans."""
    for one in waiting:
        left = [one.span]
        for span in spans:
            left = [rest for part in left for rest in _outside(part, span)]
        for part in left:
            if part == one.span:
                yield one
            else:
                yield _Waiting(span=part, label=one.label, site=one.site)


def _outside(a: Span, b: Span) -> Iterable[Span]:
    if b.end <= a.start or a.end <= b.start:
        yield a
        return
    if a.start < b.start:
        yield Span(a.start, b.start - a.start)
    if b.end < a.end:
        yield Span(b.end, a.end - b.end)
