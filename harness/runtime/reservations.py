"""What the driver is asked for memory: by the program itself, or for a cache's miss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sidestream.harness.runtime.call_arguments import Extents, given
from sidestream.harness.runtime.op import CallSite


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """Memory that the driver was asked for.

    Attributes:
        call: E.g. `cudaMalloc`, `cudaHostAlloc`.
        size: Bytes, as the program asked for them.
        site: Where.
        cached: Whether one of torch's caches asked, having no block for the program.
        given: What the program's own call was given that led to a miss.
        emptied: Where the cache gave back the memory that it asks for again.
    """

    call: str
    size: int
    site: CallSite
    cached: bool = False
    given: Extents = ()
    emptied: CallSite | None = None


class Reservations:
    """All that the driver was asked for, in order."""

    def __init__(self) -> None:
        self._made: list[Reservation] = []
        self._emptied: dict[int, tuple[CallSite, int]] = {}

    def __iter__(self) -> Iterator[Reservation]:
        return iter(self._made)

    def asked(self, call: str, size: int, site: CallSite) -> None:
        """Take note of memory that the program asks for, around the caches."""
        self._made.append(Reservation(call=call, size=size, site=site))

    def missed(self, call: str, size: int, site: CallSite, *, cache: int) -> None:
        """Take note of memory that a cache asks for.

        Args:
            call: What it calls.
            size: Bytes that the program wants.
            site: Where.
            cache: Index of the cache's device, -1 for pinned memory.
        """
        by, left = self._emptied.get(cache, (None, 0))
        again = by is not None and size <= left
        if by is not None:
            self._emptied[cache] = by, left - size
        made = Reservation(
            call=call,
            size=size,
            site=site,
            cached=True,
            given=given(),
            emptied=by if again else None,
        )
        self._made.append(made)

    def emptied(self, size: int, site: CallSite, *, cache: int) -> None:
        """Take note of memory that a cache gives back to the driver."""
        if size:
            self._emptied[cache] = site, size
