"""A call made while another stream is the current one, and nobody waits for anything.

Launches wait on streams there as under `sidestream run`. The inputs arrive on the
stream of the call, which also takes the results: what the call puts elsewhere is
unordered with both, and a race.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

from sidestream.harness.checks import streams
from sidestream.harness.checks.observation import Execution, Rows
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.drivers.protocol import Driver, Results
from sidestream.harness.dsl.activation import Activation
from sidestream.harness.errors import BuildError, SidestreamError, UnsupportedError
from sidestream.harness.exec.machine import Options
from sidestream.harness.finding import Finding, Incomplete
from sidestream.harness.run.card_call import CardCall
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.problem import problem_of
from sidestream.harness.run.virtual_streams import virtual_streams
from sidestream.scenarios.case import CaseInputs

BESIDE = "another stream current"


@dataclass(frozen=True, kw_only=True)
class Unjoined:
    """What the call shows.

    Attributes:
        findings: Races, and what they change.
        incomplete: Why something could not be judged.
    """

    findings: tuple[Finding, ...] = ()
    incomplete: tuple[Incomplete, ...] = ()


def check(
    driver: Driver,
    inputs: CaseInputs,
    *,
    activation: Activation,
    options: Callable[[], Options],
    base: Execution,
    rows: Rows,
    kernel: str,
) -> Unjoined:
    """Make the call and hold it against one that was waited for.

    Args:
        driver: An implementation that is given its stream.
        inputs: The scenario's tensors.
        activation: The virtual device of this process.
        options: Called for the way to execute a launch.
        base: The call that was waited for.
        rows: The live ones are compared.
        kernel: For the findings.

    Raises:
        SidestreamError: the implementation does not serve the scenario.
    """
    pattern = inputs.scenario.scratch
    error, unknown = "", ""
    taken: Results | None = None
    moved: list[Finding] = []
    with virtual_streams(activation, options=options) as there:
        world = there.world
        # Of a world, drivers use the chip, the stream and `upload`.
        prepared = driver.prepare(
            problem_of(cast(Any, inputs.scenario)), cast(VirtualCuda, world)
        )
        call = CardCall(
            world,
            inputs,
            workspace_bytes=prepared.workspace_bytes,
            phases=Phases(origin=0.0, track=""),
        )
        call.load(pattern)
        with world.on(world.stream):
            call.arena.load()
        try:
            with world.on(world.another_stream()):
                made = call.run(prepared)
            with world.on(world.stream):
                taken = replace(made.kept(), returned=True)
            world.wait()
        except (UnsupportedError, BuildError) as raised:
            unknown = str(raised)
        except (SidestreamError, ValueError) as raised:
            error = str(raised).splitlines()[0]
        if error:
            moved = [streams.stopped(beside=BESIDE, error=error, kernel=kernel)]
        elif taken is not None and all(o.finished for o in there.launches.outcomes):
            moved = streams.moved(
                base,
                call.seen(BESIDE, taken),
                rows=rows,
                kernel=kernel,
                stalled="the current stream",
            )
        known = {finding.id for finding in base.findings}
        found = [f for f in there.findings if f.id not in known]
        why = [Incomplete(reason=unknown, kernel=kernel)] if unknown else []
        return Unjoined(findings=(*found, *moved), incomplete=(*why, *there.incomplete))
