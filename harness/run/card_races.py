"""The order of one call's operations on a card, with what its launches touch."""

from __future__ import annotations

from collections.abc import Callable

from sidestream.harness.checks import races
from sidestream.harness.checks.outcome import CheckOutcome, not_run
from sidestream.harness.cuda.card_order import CardOrder
from sidestream.harness.exec.machine import Options
from sidestream.harness.launch import Launch
from sidestream.harness.run.card_call import CardCall
from sidestream.harness.run.card_footprint import footprint
from sidestream.harness.run.card_world import CardWorld
from sidestream.harness.runtime import Effects


def order_of(
    call: CardCall, world: CardWorld, options: Callable[[], Options] | None = None
) -> CardOrder:
    """Return what takes note of a call.

    Args:
        call: Whose tensors the call is lent.
        world: The card.
        options: How to execute its launches on the virtual GPU, to know the bytes
            that they touch; without, a launch counts as touching everything.
    """

    def touched(launch: Launch) -> Effects:
        assert options is not None
        return footprint(launch, world.memory, options)

    return CardOrder(
        stream=int(world.stream.cuda_stream),
        lent=call.lent(),
        current=world.current_handle,
        blocking=world.blocking,
        on_card=lambda tensor: tensor.device.type == world.device.type,
        touched=touched if options is not None else None,
    )


def check(
    first: CardOrder,
    again: Callable[[], CardOrder],
    *,
    heard: bool,
    unheard: str,
    kernel: str,
) -> CheckOutcome:
    """Judge a call by its order; make it again where launches have to be known.

    Args:
        first: The order of a call whose launches may touch anything.
        again: Makes the call once more, with its launches executed on the virtual
            GPU as well.
        heard: Whether the driver told of events and of what torch does not show.
        unheard: Why not.
        kernel: For the findings.
    """
    if not first.watched:
        return not_run(races.NAME, "no call could be watched")
    if not heard:
        return not_run(races.NAME, f"events are not known: {unheard}")
    order = again() if first.unknown() else first
    found, unknown = order.findings(), (*order.unknown(), *order.unfollowed())
    return races.between(found, unknown=unknown, seen=order.summary(), kernel=kernel)
