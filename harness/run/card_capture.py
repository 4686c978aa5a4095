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
from sidestream.harness.drivers.protocol import Prepared, Results
from sidestream.harness.errors import SidestreamError
from sidestream.harness.run.card_call import CardCall
from sidestream.harness.run.card_images import Change
from sidestream.harness.run.card_series import Series
from sidestream.scenarios.scenario import Scenario

SAME, OTHER = "the lengths of the capture", "other lengths"


@dataclass(frozen=True, kw_only=True)
class CapturedCall:
    """A call on a stream that can be captured.

    Attributes:
        call: Its tensors, on that stream.
        prepared: What was called.
        graph: Replays the captured call on the current stream and returns the tensors
            that it writes; None if the call cannot be captured.
        other: The scenario with other lengths in the same room, or None.
        refused: Why it cannot be captured, or "".
    """

    call: CardCall
    prepared: Prepared
    graph: Callable[[], Results] | None
    other: Scenario | None
    refused: str = ""

    def replay_into(self, series: Series) -> None:
        """Replay with the lengths of the capture and with others.

        A replay with other lengths follows a plain call with them.
        """
        if self.graph is None:
            return
        series.add(f"a replay with {SAME}", self.graph)
        if self.other is None:
            return
        series.add_pair(
            ("a call with other lengths", f"a replay with {OTHER}"),
            (lambda: self.call.run(self.prepared), self.graph),
            Change(lengths=self.other),
        )

    def check(
        self, base: Execution, replays: list[Execution], *, rows: Rows, kernel: str
    ) -> CheckOutcome:
        """Judge the replays of `replay_into`.

        Args:
            base: A plain call of what was captured.
            replays: Executions in the order of the calls.
            rows: Rows of its sequences.
            kernel: For the findings.
        """
        made = []
        if replays:
            made.append(
                replay.Replay(plain=base, replayed=replays[0], rows=rows, lengths=SAME)
            )
        if len(replays) > 1 and self.other is not None:
            live = rows_of(self.other.lengths_q, self.other.capacity_q)
            made.append(
                replay.Replay(
                    plain=replays[1], replayed=replays[2], rows=live, lengths=OTHER
                )
            )
        return replay.check(made, refused=self.refused, kernel=kernel)


def capture(call: CardCall, prepared: Prepared) -> CapturedCall:
    """Capture a call on the stream of `call`, which must not be the default one.

    Raises:
        RuntimeError: the card failed, and can do no more.
    """
    other = rearranged(call.inputs.scenario)
    call.doing.begin("a capture")
    try:
        graph, results = call.card.capture(lambda: call.run(prepared))
    except (SidestreamError, ValueError, RuntimeError) as error:
        if call.card.complaint():  # that is no refusal of a capture
            raise
        first = (str(error).splitlines() or [type(error).__name__])[0]
        return CapturedCall(
            call=call, prepared=prepared, graph=None, other=other, refused=first
        )

    def again() -> Results:
        graph()
        return results

    return CapturedCall(call=call, prepared=prepared, graph=again, other=other)


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
