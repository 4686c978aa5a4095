"""Capture: a call can be captured, and its replays read what the device holds then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sidestream.harness.checks.observation import Execution, Rows, difference, place
from sidestream.harness.checks.outcome import CheckOutcome, judged, not_run
from sidestream.harness.finding import Finding, Rule, Site

NAME = "capture"
CAPTURED = Rule(
    id="host.capture",
    title="CUDA Programming Guide: CUDA Graphs; an execute call can be captured",
)
BAKED = Rule(
    id="host.capture-values",
    title="CUDA Programming Guide: CUDA Graphs; a replay repeats the arguments of the "
    "capture, so lengths must be read from device memory",
)
EMPTY = Rule(
    id="host.capture.empty",
    title="A capture records the work of its own stream (pytorch/helion#2817)",
)


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A replay and the plain call that it must equal.

    Attributes:
        plain: The call, made anew on the same tensors.
        replayed: The replay.
        rows: Rows of the lengths that both found; the live ones are compared.
        lengths: What lengths they are, for messages.
    """

    plain: Execution
    replayed: Execution
    rows: Rows
    lengths: str


def check(
    replays: Sequence[Replay], *, refused: str, kernel: str, empty: bool = False
) -> CheckOutcome:
    """Judge a captured call by its replays.

    Args:
        replays: In order.
        refused: Why the call could not be captured, or "".
        kernel: For the findings.
        empty: Whether the graph of a call that launches something holds nothing.
    """
    if refused:
        finding = Finding(
            kind="capture",
            rule=CAPTURED,
            message=f"execute cannot be captured in a CUDA graph: {refused}",
            kernel=kernel,
            sites=(Site(agent="host", operation="execute in a capture"),),
            need="no wait, no read of device data and no pageable copy in execute",
        )
        return judged(NAME, [finding], "")
    if empty:
        finding = Finding(
            kind="capture",
            rule=EMPTY,
            message="the graph of a captured execute is empty: a replay does nothing",
            kernel=kernel,
            sites=(Site(agent="host", operation="execute in a capture"),),
            need="every fill, copy and launch of execute on the stream it is given",
        )
        return judged(NAME, [finding], "")
    for replay in replays:
        for run in (replay.plain, replay.replayed):
            if not run.finished:
                why = run.error or "it was not finished"
                return not_run(NAME, f"the call with {run.label}: {why}")
        off = difference(replay.plain, replay.replayed, replay.rows.live)
        if off is not None:
            finding = Finding(
                kind="capture",
                rule=BAKED,
                message=(
                    f"a replay with {replay.lengths} gives other bits than a call: "
                    f"{place(off, replay.rows)}; {off.number} elements differ"
                ),
                kernel=kernel,
                sites=(Site(agent="graph", operation=f"replay: {replay.lengths}"),),
                need="lengths read by the kernels, not by the host at the call",
            )
            return judged(NAME, [finding], "")
    said = ", ".join(replay.lengths for replay in replays)
    return judged(NAME, [], f"replays equal calls: {said}")
