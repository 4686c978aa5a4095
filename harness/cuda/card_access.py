"""The bytes that fills and copies of the CUDA driver touch on a card."""

from __future__ import annotations

from dataclasses import dataclass

from sidestream.harness.cuda.driver_audit import DriverCall
from sidestream.harness.runtime import Span

_FILLS = {"cuMemsetD8": 1, "cuMemsetD16": 2, "cuMemsetD32": 4}
"""Fills of a run of elements (address, value, count, stream): bytes of one."""
_COPIES = {"cuMemcpy": "rw", "cuMemcpyDtoD": "rw", "cuMemcpyHtoD": "w"} | {
    "cuMemcpyDtoH": "r"
}
"""Copies of a run of bytes (to, from, count, stream): what they do on the card."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """What one call of the driver does on a card.

    Attributes:
        kind: `fill` or `copy`.
        stream: Handle of the stream that does it; 0 is the default one.
        reads: Bytes that it reads.
        writes: Bytes that it writes.
        waits: Whether the host waits for it.
        pinned: Whether it may be under way in pinned host memory when it returns.
    """

    kind: str
    stream: int
    reads: tuple[Span, ...] = ()
    writes: tuple[Span, ...] = ()
    waits: bool = False
    pinned: bool = False


def access_of(call: DriverCall) -> Access | None:
    """Return what a fill or a copy touches; None of any other call, or unmodelled.

    Source: CUDA Driver API, "Memory Management"; a copy without `Async` in its name
    counts as awaited by the host, a fill does not.
    """
    name, waits = call.name.removesuffix("Async"), not call.name.endswith("Async")
    if name in _FILLS:
        start, _, count, *rest = call.words(3 if waits else 4)
        filled = Span(start, count * _FILLS[name])
        return Access(kind="fill", stream=rest[0] if rest else 0, writes=(filled,))
    if name in _COPIES:
        to, source, count, *rest = call.words(3 if waits else 4)
        does = _COPIES[name]
        return Access(
            kind="copy",
            stream=rest[0] if rest else 0,
            reads=(Span(source, count),) if "r" in does else (),
            writes=(Span(to, count),) if "w" in does else (),
            waits=waits,
            # What is pageable the driver has copied when it returns; no call tells.
            pinned=not waits and len(_COPIES[name]) == 1,
        )
    return None
