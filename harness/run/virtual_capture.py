"""An execute call captured on the virtual GPU, and its replays.

Torch operations, fills and launches of the call become nodes of a graph of the device's
runtime, under its rules of what a capture forbids. A replay executes the nodes in their
order, so that whatever the host decided at the call is what it was in the capture.

The capture finds other lengths on the device than its replays do, and a replay finds
cleared outputs: one that equals a call shows that the graph holds the whole call, and
nothing that the host took from the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from sidestream.harness.checks import replay
from sidestream.harness.checks.observation import Execution, Rows
from sidestream.harness.checks.outcome import CheckOutcome, not_run
from sidestream.harness.device.in_order import InOrder
from sidestream.harness.drivers.protocol import Driver, Prepared, Results
from sidestream.harness.dsl.capture import Capture
from sidestream.harness.errors import SidestreamError
from sidestream.harness.exec.machine import Options
from sidestream.harness.launch import Launch
from sidestream.harness.run.card_capture import OTHER, SAME, rearranged
from sidestream.harness.run.problem import problem_of
from sidestream.harness.run.virtual_call import CallRun, VirtualCall
from sidestream.harness.runtime import CudaError, GraphExec
from sidestream.scenarios.scenario import Scenario

CLEARED = 0xA5
"""What every byte of an output is that the call itself has made, before a replay."""


@dataclass(kw_only=True)
class VirtualCapture:
    """A call that was captured, or why it was not.

    Attributes:
        call: Its tensors.
        stream: Handle of the stream that it was captured on.
        lengths: Which lengths its replays find, for messages.
        options: Called before each launch.
        refused: Why it cannot be captured, or "".
        unknown: Why it is not known whether it can be, or "".
        empty: Whether nothing was captured.
    """

    call: VirtualCall
    stream: int
    lengths: str
    options: Callable[[], Options]
    refused: str = ""
    unknown: str = ""
    empty: bool = True
    _results: Results | None = None
    _exec: GraphExec | None = None
    _run: CallRun | None = field(default=None, repr=False)

    @property
    def replayable(self) -> bool:
        """Whether there is something to replay."""
        return self._exec is not None

    def replay(
        self,
        *,
        label: str,
        pattern: str,
        options: Callable[[], Options],
        profile: str | None = None,
    ) -> Execution:
        """Clear the outputs and replay the call on what the tensors hold now.

        Args:
            label: Of the execution.
            pattern: What the workspace holds before.
            options: Called before each launch.
            profile: Under which to look for races, or None not to.

        Raises:
            RuntimeError: nothing was captured.
        """
        call, results = self.call, self._results
        if self._exec is None or results is None:
            raise RuntimeError("a replay without a capture")
        call.reset(pattern)
        for tensor in results.outputs if results.returned else ():
            self._clear(tensor)
        run = CallRun(order=InOrder(table=call.world.table, profile=profile))
        self._run, self.options = run, options
        with _on(call, self.stream), run.order, Capture(self._execute):
            call.world.runtime.launch_graph(self._exec, call.world.world.current())
        self._run = None
        made = call.observed(label, run, results, None, [])
        return replace(made, profile=profile)

    def take(self, prepared: Prepared, *, pattern: str) -> None:
        """Make a call, of which nothing that goes to its stream is executed yet.

        Args:
            prepared: The implementation.
            pattern: What the workspace holds in the capture.

        Raises:
            CudaError: the call does what a capture forbids, by CUDA's name for it.
            SidestreamError: execute refuses, or something has no model.
        """
        call, runtime = self.call, self.call.world.runtime
        stream = call.world.world.current()
        call.reset(pattern)
        runtime.begin_capture(stream)
        try:
            with Capture(self._launched):
                results = prepared.execute(call.tensors, call.scratch())
        except BaseException:
            if stream.capture is not None:
                stream.capture.broken = stream.capture.broken or "the call has raised"
            with suppress(CudaError):  # the first error is the one to tell
                runtime.end_capture(stream)
            raise
        graph = runtime.end_capture(stream)
        self.empty = graph.empty
        self._results, self._exec = results, runtime.instantiate(graph)

    def _launched(self, launch: Launch) -> None:
        """Make a node of a launch; one on a stream that is not captured runs now."""
        runtime = self.call.world.runtime

        def run() -> None:
            if self._run is None:
                with InOrder(table=self.call.world.table) as order:
                    order.run(launch, self.options())
            else:
                self._execute(launch)

        runtime.enqueue(
            kind="launch",
            label=launch.kernel,
            stream=runtime.adopt_stream(launch.stream),
            run=run,
        )

    def _execute(self, launch: Launch) -> None:
        """Execute a launch of the replay under way; none after one that failed."""
        run = self._run
        assert run is not None
        if not run.outcomes or run.outcomes[-1].finished:
            run.order.run(launch, self.options())

    def _clear(self, tensor: torch.Tensor) -> None:
        """Let an output that execute made hold what nobody computed."""
        home = self.call.world.allocation(tensor)
        if home is not None:
            home.data[:] = np.uint8(CLEARED)
            home.forget_writes()

    def check(
        self, base: Execution, replayed: Execution | None, *, rows: Rows, kernel: str
    ) -> CheckOutcome:
        """Judge the capture.

        Args:
            base: A plain call.
            replayed: A replay that finds the same, or None if there was none.
            rows: Live ones are compared.
            kernel: For the findings.
        """
        if self.unknown:
            return not_run(replay.NAME, self.unknown)
        if self.refused:
            return replay.check((), refused=self.refused, kernel=kernel)
        if self.empty and base.launches:
            return replay.check((), refused="", empty=True, kernel=kernel)
        if replayed is None:
            return not_run(replay.NAME, "there was no time for a replay")
        made = replay.Replay(
            plain=base, replayed=replayed, rows=rows, lengths=self.lengths
        )
        return replay.check([made], refused="", kernel=kernel)


def capture(
    driver: Driver,
    scenario: Scenario,
    call: VirtualCall,
    *,
    stream: int,
    options: Callable[[], Options],
) -> VirtualCapture:
    """Capture the first call of a new plan; what hinders that is told in the result.

    Args:
        driver: The implementation.
        scenario: The case.
        call: Its tensors.
        stream: Handle of a stream that can be captured.
        options: Called before each launch that is not part of it.
    """
    other = rearranged(scenario)
    lengths = OTHER if other is not None else SAME
    taken = VirtualCapture(call=call, stream=stream, lengths=lengths, options=options)
    found = call.with_lengths(other) if other is not None else nullcontext()
    try:
        with _on(call, stream), found:
            prepared = driver.prepare(problem_of(scenario), call.world)
            taken.take(prepared, pattern=scenario.scratch)
    except CudaError as error:
        taken.refused = str(error)
    except (SidestreamError, ValueError) as error:
        taken.unknown = f"a captured call raised {error}"
    except Exception as error:
        if type(error) is RuntimeError and "CUDA graph capture" in str(error):
            # What torch itself refuses before it asks CUDA.
            taken.refused = str(error).splitlines()[0]
        else:
            # Not something an implementation says on purpose: it may as well be ours.
            name = type(error).__name__
            taken.unknown = f"a captured call raised {name}: {error}"
    return taken


@contextmanager
def _on(call: VirtualCall, stream: int) -> Iterator[None]:
    """Make a stream the current one inside."""
    before = call.world.stream.cuda_stream
    call.world.choose(stream)
    try:
        yield
    finally:
        call.world.choose(before)
