"""Wall time of a case by phase, and when it was spent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sidestream.reports.model import Span


@dataclass(kw_only=True)
class Phases:
    """A stopwatch with one hand a phase.

    Attributes:
        origin: `time.time()` at the start of the run, shared by all its processes.
        track: Name of this process on the time line.
        seconds: Time by phase.
        spans: When it was spent.
    """

    origin: float
    track: str
    seconds: dict[str, float] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)

    @contextmanager
    def timed(self, name: str, detail: str = "") -> Iterator[None]:
        """Count what runs inside as phase `name`, but for what `add` takes out."""
        start, began = time.time() - self.origin, time.perf_counter()
        inside = sum(self.seconds.values())
        try:
            yield
        finally:
            spent = time.perf_counter() - began
            nested = sum(self.seconds.values()) - inside
            self.add(name, max(0.0, spent - nested))
            self.spans.append(
                Span(
                    name=name,
                    start=start,
                    seconds=spent,
                    track=self.track,
                    detail=detail,
                )
            )

    def add(self, name: str, seconds: float) -> None:
        """Count time that was measured elsewhere."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
