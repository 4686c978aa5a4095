"""Wall time of a case by phase, and when it was spent."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import TracebackType

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
    _counted: float = 0.0

    def timed(self, name: str, detail: str = "") -> Timed:
        """Count what runs inside as phase `name`, but for what `add` takes out."""
        return Timed(self, name, detail)

    def add(self, name: str, seconds: float) -> None:
        """Count time that was measured elsewhere."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        self._counted += seconds


class Timed:
    """A part of a case while it runs."""

    def __init__(self, phases: Phases, name: str, detail: str) -> None:
        self._phases, self._name, self._detail = phases, name, detail

    def __enter__(self) -> None:
        self._start, self._began = time.time(), time.perf_counter()
        self._inside = self._phases._counted

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        phases, spent = self._phases, time.perf_counter() - self._began
        nested = phases._counted - self._inside
        phases.add(self._name, max(0.0, spent - nested))
        phases.spans.append(
            Span(
                name=self._name,
                start=self._start - phases.origin,
                seconds=spent,
                track=phases.track,
                detail=self._detail,
            )
        )
