"""Whose memory an address was, at every moment of the host program."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from dataclasses import replace

from sidestream.harness.runtime.op import CallSite
from sidestream.harness.runtime.races import Tenancy

_REMEMBERED = 50_000
"""Allocations of the past that a race can still be told in terms of."""


class Tenancies:
    """Allocations, live ones and those of the past."""

    def __init__(self) -> None:
        self._live: dict[int, Tenancy] = {}
        self._starts: list[int] = []
        self._past: deque[Tenancy] = deque(maxlen=_REMEMBERED)

    def begin(
        self, *, start: int, size: int, owner: str, call: int, site: CallSite
    ) -> None:
        """Take note of an allocation.

        Args:
            start: Its address.
            size: Bytes, as the allocator rounds them.
            owner: Name of the stream whose order its reuse follows.
            call: Number of the call in issue order.
            site: Where.
        """
        self._live[start] = Tenancy(
            id=call, start=start, size=size, stream=owner, born=call, made=site
        )
        insort(self._starts, start)

    def end(self, start: int, *, call: int, site: CallSite) -> None:
        """Take note of a free."""
        ended = replace(self._live.pop(start), died=call, freed=site)
        self._starts.pop(bisect_right(self._starts, start) - 1)
        self._past.append(ended)

    def start_of(self, address: int) -> int | None:
        """Return where the live allocation that holds an address starts, or None."""
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        live = self._live[self._starts[index]]
        return live.start if address < live.start + live.size else None

    def live(self) -> list[Tenancy]:
        """Return what is allocated now, by when it was."""
        return sorted(self._live.values(), key=lambda tenancy: tenancy.born)

    def find(self, address: int, call: int) -> Tenancy | None:
        """Return whose an address was when a call was made, or None."""
        index = bisect_right(self._starts, address) - 1
        if index >= 0:
            live = self._live[self._starts[index]]
            if address < live.start + live.size and live.born < call:
                return live
        for past in reversed(self._past):
            inside = past.start <= address < past.start + past.size
            assert past.died is not None
            if inside and past.born < call <= past.died:
                return past
        return None
