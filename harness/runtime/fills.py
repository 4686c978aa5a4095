"""Fills whose bytes are all overwritten before anyone reads them: work for nothing."""

from __future__ import annotations

from dataclasses import dataclass

from sidestream.harness.finding import Finding, Rule, Site
from sidestream.harness.runtime.op import Op
from sidestream.harness.runtime.shadow import Shadow
from sidestream.harness.runtime.spans import Span

RULE = Rule(
    id="host.dead-fill",
    title="A fill on the execute path is work that some later read depends on",
)


@dataclass(eq=False, kw_only=True, slots=True)
class Fill:
    """One fill that landed.

    Attributes:
        op: The operation.
        left: Bytes that still hold what it wrote.
        read: Whether any of them was read.
        over: The operation that overwrote the first of them, or None.
    """

    op: Op
    left: int
    read: bool = False
    over: Op | None = None


class Fills:
    """Follows what becomes of the bytes that fills wrote."""

    def __init__(self) -> None:
        self._open: dict[int, Fill] = {}
        self._dead: list[Fill] = []

    def read(self, shadow: Shadow, span: Span) -> None:
        """Take note of a read, before the shadow does."""
        if not self._open:
            return
        for cell in shadow.cells(span):
            if cell.write is not None:
                self._open.pop(cell.write.id, None)

    def write(self, shadow: Shadow, span: Span, op: Op) -> None:
        """Take note of a write, before the shadow does."""
        if self._open:
            for cell in shadow.cells(span):
                fill = self._open.get(cell.write.id) if cell.write is not None else None
                if fill is not None and fill.op is not op:
                    fill.left -= cell.end - cell.start
                    fill.over = fill.over or op
                    if fill.left == 0:
                        self._dead.append(self._open.pop(fill.op.id))
        if op.kind == "fill":
            fill = self._open.setdefault(op.id, Fill(op=op, left=0))
            fill.left += span.size

    def dead(self) -> tuple[Fill, ...]:
        """Return the fills that were overwritten wholly and never read."""
        return tuple(self._dead)


def finding(fill: Fill) -> Finding:
    """Return a dead fill as a finding."""
    over = fill.over
    name = over.label if over is not None else "a later operation"
    sites = [
        Site(
            agent=op.where,
            operation=op.label,
            source=op.site.frames[0].split(" in ")[0] if op.site.frames else None,
            detail="\n".join(op.site.frames),
        )
        for op in (fill.op, over)
        if op is not None
    ]
    return Finding(
        kind="hidden-launch",
        rule=RULE,
        message=(
            f"{fill.op.label} on {fill.op.where} fills "
            f"{sum(s.size for s in fill.op.writes)} bytes that {name} overwrites "
            "before anyone reads them"
        ),
        sites=tuple(sites),
        need="nothing: leave the fill out",
        extra={"wrong": "dead fill"},
    )
