"""Random operators: their numbers are drawn at the call, or at every replay of a graph.

A device has a generator of its own, which a call advances in the order of the program;
what lands late has to have the numbers of its place in that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sidestream.harness.runtime import Stream
from sidestream.harness.runtime.op import Run
from sidestream.harness.vtorch.operator_schema import Operator, replaced, tensors
from sidestream.harness.vtorch.results import put
from sidestream.harness.vtorch.world import World, plain


def drawn(
    world: World,
    op: Operator,
    func: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    into: list[torch.Tensor],
    run: Run,
    stream: Stream,
) -> Run:
    """Return what carries out a random operator with the numbers of its call.

    Args:
        world: The device.
        op: The operator.
        func: Torch's.
        args: Its arguments on raw memory.
        kwargs: The same by name; a generator among them is replaced.
        into: Raw memory of its results.
        run: Carries it out with whatever numbers come next.
        stream: Where it goes.
    """
    generators = world.generators
    if world.runtime.capturing(stream) != "none":

        def replay() -> None:
            with generators.drawing(stream.device):
                run()

        return replay
    read = [t for key, t in tensors(args, kwargs) if key not in op.unread]
    if read:
        if kwargs.get("generator") is not None:
            kwargs["generator"] = _branch(kwargs["generator"])
            return run
        state = generators.branch(stream.device)

        def later() -> None:
            with plain(), generators.drawing_from(state):
                run()

        return later
    changed = [t for key, t in tensors(args, kwargs) if key in op.written]
    blanks = {id(t): torch.empty_like(t) for _, t in tensors(args, kwargs)}
    with plain(), generators.drawing(stream.device):
        got = func(
            *replaced(args, lambda t: blanks[id(t)]),
            **{k: replaced(v, lambda t: blanks[id(t)]) for k, v in kwargs.items()},
        )
    targets = changed or into
    drawn = [blanks[id(t)] for t in changed] or [got]

    def place() -> None:
        with plain():
            for target, value in zip(targets, drawn, strict=True):
                put(target, value)

    return place


def _branch(generator: torch.Generator) -> torch.Generator:
    made = torch.Generator()
    made.set_state(generator.get_state())
    torch.empty(1).uniform_(generator=generator)
    return made
