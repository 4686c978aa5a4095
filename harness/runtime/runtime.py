"""The virtual CUDA runtime: every call, in one object."""

from __future__ import annotations

from sidestream.harness.finding import Finding
from sidestream.harness.runtime import fills
from sidestream.harness.runtime.capture import Capture
from sidestream.harness.runtime.graph_calls import GraphCalls
from sidestream.harness.runtime.landing import Landing
from sidestream.harness.runtime.memory_calls import MemoryCalls
from sidestream.harness.runtime.races import Race
from sidestream.harness.runtime.stream_calls import StreamCalls


class Runtime(StreamCalls, GraphCalls, MemoryCalls):
    """A CUDA runtime that runs operations late and knows what orders them.

    Calls return at once. An operation lands when a wait of the host needs it, or
    earlier if the landing policy says so; then it runs, and what it touched is held
    against what landed before. All calls may come from any thread.
    """

    def drain(self) -> None:
        """Land everything; the end of a program. Orders nothing."""
        with self.lock:
            self.queue.finish(self.queue.all())

    def races(self) -> tuple[Race, ...]:
        """Return the races found so far, one for each pair of calls."""
        return self.race_log.races()

    def findings(self) -> tuple[Finding, ...]:
        """Return the races found so far; `drain` first for all of them."""
        return self.race_log.findings()

    def dead_fills(self) -> tuple[Finding, ...]:
        """Return fills that were overwritten unread, as findings.

        Work for nothing, not a defect by itself: what a program fills itself to be
        safe is its own affair, what a package fills on its execute path is not.
        """
        return tuple(fills.finding(fill) for fill in self.fills.dead())

    def schedule(self) -> Landing:
        """Return the policy that makes every landing of this run again."""
        return self.decisions.made()

    def release_pool(self, pool: int, *, device: int = 0) -> None:
        """Let go of a private pool: its graph is gone."""
        with self.lock:
            self._allocators[device].leave_pool(pool)

    def _drop_pool(self, capture: Capture) -> None:
        self.release_pool(capture.pool, device=capture.origin.device)

    def _begin_pool(self, capture: Capture, pool: int) -> int:
        number = pool or next(self._ids)
        self._allocators[capture.origin.device].use_pool(number)
        return number
