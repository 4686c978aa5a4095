"""The virtual GPU with streams and graphs, in the terms of a card.

`VirtualCuda` executes launches when they are called. Here they are operations of a
runtime's streams instead, as under `sidestream run`, so that a call can be captured and
whatever its streams leave unordered is a race.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch

from sidestream.harness.bindings.calls import Calls
from sidestream.harness.bindings.interfaces import answers
from sidestream.harness.bindings.refusals import refusals
from sidestream.harness.cuda.driver_calls import driver_answers
from sidestream.harness.dsl.activation import Activation
from sidestream.harness.dsl.capture import Capture
from sidestream.harness.exec.machine import Options
from sidestream.harness.finding import Finding, Incomplete
from sidestream.harness.run.card_world import Card, CardWorld
from sidestream.harness.run.stream_launches import StreamLaunches
from sidestream.harness.runtime import Landing, Runtime
from sidestream.harness.vtorch import VirtualTorch


@dataclass(frozen=True, kw_only=True)
class VirtualStreams:
    """A virtual card whose launches wait on streams.

    Attributes:
        world: For calls; its stream is one of torch's pool.
        runtime: Streams and memory.
        launches: What was launched.
    """

    world: CardWorld
    runtime: Runtime
    launches: StreamLaunches

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Races between operations, and defects of launches that landed."""
        defects = (f for o in self.launches.outcomes for f in o.findings)
        return (*self.runtime.findings(), *defects)

    @property
    def incomplete(self) -> tuple[Incomplete, ...]:
        """Why something that was called could not be judged."""
        told = [entry for o in self.launches.outcomes for entry in o.incomplete]
        reasons = {entry.reason for entry in told}
        told += [i for i in self.runtime.incomplete() if i.reason not in reasons]
        return tuple(told)


@contextmanager
def virtual_streams(
    activation: Activation, *, options: Callable[[], Options]
) -> Iterator[VirtualStreams]:
    """Make torch, CuTe DSL and `cuda.bindings` see such a card inside.

    Of what may land, that which was called last does: a missing edge shows in values.

    Args:
        activation: The virtual device of this process.
        options: Called for the way to execute a launch.
    """
    chip = activation.chip
    device = VirtualTorch(chip, landing=Landing.parse("latest"), activation=activation)
    runtime = device.runtime
    contexts = device.contexts
    launches = StreamLaunches(runtime=runtime, options=options, device=contexts.device)
    with ExitStack() as stack:
        stack.enter_context(device)
        for owner, name, value in (
            *refusals(runtime.not_modelled),
            *driver_answers(lambda: chip, runtime.not_modelled),
            *answers(Calls(runtime=runtime, device=contexts.device, contexts=contexts)),
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        stack.enter_context(Capture(launches))
        stack.callback(launches.close)
        world = CardWorld(
            device=torch.device("cuda", 0),
            stream=_new_stream(),
            chip=Card(arch=chip.arch, sms=chip.sms),
        )
        yield VirtualStreams(world=world, runtime=runtime, launches=launches)


def _new_stream() -> Any:
    make: Any = torch.cuda.Stream
    return make()
