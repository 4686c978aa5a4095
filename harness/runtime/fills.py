"""Fills of which nobody reads a byte before others overwrite it: work for nothing."""

from __future__ import annotations

from collections.abc import Iterable
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
        over: The first operation that overwrote some, a launch before others, or None.
    """

    op: Op
    left: int
    over: Op | None = None


class Fills:
    """Follows what becomes of the bytes that fills wrote."""

    def __init__(self) -> None:
        self._open: dict[int, Fill] = {}
        self._dead: list[Fill] = []

    def read_all(self, shadow: Shadow, spans: Iterable[Span]) -> None:
        """Take note of reads, before the shadow does."""
        if not self._open:
            return
        for span in spans:
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
                    if fill.over is None or (
                        op.kind == "launch" and fill.over.kind != "launch"
                    ):
                        fill.over = op
                    if fill.left == 0:
                        self._dead.append(self._open.pop(fill.op.id))
        if op.kind == "fill":
            fill = self._open.setdefault(op.id, Fill(op=op, left=0))
            fill.left += span.size

    def dead(self) -> tuple[Fill, ...]:
        """Return the fills that were overwritten and never read.

        Of one that was overwritten in part nobody has read the rest by now: at the end
        of a program nobody will.
        """
        late = (fill for fill in self._open.values() if fill.over is not None)
        return (*self._dead, *late)


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
            f"{sum(s.size for s in fill.op.writes)} bytes that nobody reads before "
            f"{name} overwrites {_how_much(fill)}"
        ),
        sites=tuple(sites),
        need="nothing: leave the fill out",
        extra={"wrong": "dead fill"},
    )


def _how_much(fill: Fill) -> str:
    return f"all but {fill.left} of them" if fill.left else "them"
