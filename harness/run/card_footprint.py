"""What a launch on a card will touch, from a run of it on the virtual GPU.

The launch is executed on a copy of the card's memory, at the card's own addresses, so
that pointers and tensor maps mean what they mean there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device.in_order import InOrder
from sidestream.harness.errors import UsageError
from sidestream.harness.exec.machine import Options
from sidestream.harness.footprint.footprint import Footprint
from sidestream.harness.launch import Launch
from sidestream.harness.runtime import Effects, Span

Memory = Iterable[tuple[int, NDArray[np.uint8]]]
"""Address and bytes of everything that is allocated on the card."""


def footprint(
    launch: Launch, memory: Callable[[], Memory], options: Callable[[], Options]
) -> Effects:
    """Return the bytes of global memory that a launch reads and writes.

    Args:
        launch: It was not made yet.
        memory: Returns a copy of the card's memory as the launch will find it.
        options: How to execute it.
    """
    if not launch.ptx:
        return Effects(incomplete=(f"{launch.kernel} comes without its PTX",))
    table = AllocationTable()
    try:
        for number, (address, data) in enumerate(memory(), start=1):
            name = f"block {number}"
            table.map(va=address, data=data, name=name, id=number, writable=True)
        with InOrder(table=table, watch=Footprint) as order:
            order.run(replace(launch, pdl=False), options())
            (outcome,), seen = order.outcomes, order.seen
            reasons = [entry.reason for entry in outcome.incomplete]
            reasons += [finding.message for finding in outcome.findings]
            if not isinstance(seen, Footprint):
                return Effects(incomplete=tuple(reasons))
            if seen.lost:
                reasons.append(f"{seen.lost} accesses could not be kept")
            return Effects(
                reads=_spans(seen.reads),
                writes=_spans(seen.writes),
                incomplete=tuple(reasons),
            )
    except (UsageError, MemoryError) as error:
        return Effects(incomplete=(f"{launch.kernel} is not executed: {error}",))


def _spans(ranges: Iterable[tuple[int, int]]) -> tuple[Span, ...]:
    return tuple(Span(start, end - start) for start, end in ranges)
