"""Copies between host and device: when the source is read and whether the host waits.

Rules: CUDA Runtime API, "API synchronization behavior". Pinned host memory is read
and written by the device when the copy lands; pageable memory goes through a staging
buffer, so that a source is read within the call and a destination is there when the
call returns.
"""

from __future__ import annotations

from dataclasses import dataclass

DIRECTIONS = ("h2d", "d2h", "d2d", "h2h")


@dataclass(frozen=True, kw_only=True)
class CopyRule:
    """What a copy does beyond being an operation of its stream.

    Attributes:
        staged: Whether the host source is read within the call.
        waits_before: Whether the host waits for the stream before it stages.
        waits: Whether the call returns only when the copy has landed.
    """

    staged: bool
    waits_before: bool = False
    waits: bool


def rule(direction: str, *, pinned: bool, blocking: bool) -> CopyRule:
    """Return the rule for a copy.

    An asynchronous transfer from pageable memory may wait for the stream before it
    stages; programs cannot count on that, so that it orders nothing here.

    Args:
        direction: One of `DIRECTIONS`.
        pinned: Whether the host memory is page-locked; of no interest for d2d.
        blocking: True is `cudaMemcpy`, False is `cudaMemcpyAsync`.

    Raises:
        ValueError: for an unknown direction.
    """
    if direction not in DIRECTIONS:
        raise ValueError(f"direction {direction!r} is none of {DIRECTIONS}")
    if direction == "d2d":
        return CopyRule(staged=False, waits=False)
    if direction == "h2h":
        return CopyRule(staged=False, waits=True)
    if direction == "h2d":
        staged = not pinned
        return CopyRule(
            staged=staged, waits_before=staged and blocking, waits=blocking and pinned
        )
    return CopyRule(staged=False, waits=blocking or not pinned)
