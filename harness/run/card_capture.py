"""One captured call of a case, whose replays stand for calls that differ in data only.

A replay makes the launches of the call again without its host code, so it shows what
the kernels do with other scratch, other neighbours, other lengths, or once more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sidestream.harness.checks import replay
from sidestream.harness.checks.observation import Execution, Rows, rows_of
from sidestream.harness.checks.outcome import CheckOutcome
from sidestream.harness.drivers.protocol import Prepared
from sidestream.harness.errors import SidestreamError
from sidestream.harness.exec.machine import Options
from sidestream.harness.run.card_call import CardCall, Replayed
from sidestream.scenarios.scenario import Scenario


@dataclass(frozen=True, kw_only=True)
class CapturedCall:
    """A call on a stream that can be captured.

    Attributes:
        call: Its tensors, on that stream.
        prepared: What was called.
        graph: The captured call, or None.
        refused: Why it cannot be captured, or "".
    """

    call: CardCall
    prepared: Prepared
    graph: Replayed | None
    refused: str = ""

    def replayed(self, *, label: str, pattern: str) -> Execution | None:
        """Replay the call on what its tensors hold; None if it was not captured."""
        if self.graph is None:
            return None
        return self.call.replay(self.graph, label=label, pattern=pattern)

    def check(
        self, scenario: Scenario, base: Execution, *, kernel: str
    ) -> CheckOutcome:
        """Replay with the lengths of the capture and with others.

        Args:
            scenario: What was captured.
            base: A plain call of it.
            kernel: For the findings.
        """
        made = []
        other = rearranged(scenario)
        if self.graph is not None:
            live = rows_of(scenario.lengths_q, scenario.capacity_q)
            made.append(
                self._replay(scenario, base, live, "the lengths of the capture")
            )
        if self.graph is not None and other is not None:
            with self.call.other_lengths(other):
                plain = self.call.execute(
                    self.prepared,
                    label="a call with other lengths",
                    pattern=scenario.scratch,
                    options=Options,
                )
                live = rows_of(other.lengths_q, scenario.capacity_q)
                made.append(self._replay(scenario, plain, live, "other lengths"))
        return replay.check(made, refused=self.refused, kernel=kernel)

    def _replay(
        self, scenario: Scenario, plain: Execution, rows: Rows, lengths: str
    ) -> replay.Replay:
        assert self.graph is not None
        return replay.Replay(
            plain=plain,
            replayed=self.call.replay(
                self.graph, label=f"a replay with {lengths}", pattern=scenario.scratch
            ),
            rows=rows,
            lengths=lengths,
        )


def capture(call: CardCall, prepared: Prepared, *, pattern: str) -> CapturedCall:
    """Capture a call on the stream of `call`, which must not be the default one."""
    try:
        graph = call.capture(prepared, pattern=pattern)
    except (SidestreamError, ValueError, RuntimeError) as error:
        first = str(error).splitlines()[0]
        return CapturedCall(call=call, prepared=prepared, graph=None, refused=first)
    return CapturedCall(call=call, prepared=prepared, graph=graph)


def rearranged(scenario: Scenario) -> Scenario | None:
    """Return a scenario with other lengths in the same room, or None."""

    def changed(turn: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Scenario | None:
        turned = turn(scenario.lengths_q), turn(scenario.lengths_kv)
        if turned == (scenario.lengths_q, scenario.lengths_kv):
            return None
        return replace(scenario, lengths_q=turned[0], lengths_kv=turned[1])

    return changed(lambda lengths: lengths[::-1]) or changed(_thinned)


def _thinned(lengths: tuple[int, ...]) -> tuple[int, ...]:
    """Empty every second sequence; halve one that is alone."""
    if len(lengths) == 1:
        return (lengths[0] // 2,)
    return tuple(n if at % 2 == 0 else 0 for at, n in enumerate(lengths))
