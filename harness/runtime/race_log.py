"""The races of a run, one for each pair of calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sidestream.harness.finding import Finding
from sidestream.harness.runtime import races
from sidestream.harness.runtime.races import Race, Tenancy
from sidestream.harness.runtime.shadow import Conflict

_LOOKED_AT = 32
"""Conflicts of one pair of calls that are looked at; the rest is only counted."""

Pair = tuple[object, ...]


@dataclass(eq=False, kw_only=True, slots=True)
class _Seen:
    races: dict[str, Race]
    count: int = 0


class RaceLog:
    """Folds conflicts of the same two calls into one race of each kind.

    Args:
        tenancy: Returns whose an address was when a call was made, or None.
    """

    def __init__(self, tenancy: Callable[[int, int], Tenancy | None]) -> None:
        self._tenancy = tenancy
        self._seen: dict[Pair, _Seen] = {}

    def add(self, conflict: Conflict) -> None:
        """Take note of a conflict."""
        first, second = conflict.first, conflict.second
        did, does = conflict.did, conflict.does
        if second.id < first.id:
            first, second, did, does = second, first, does, did
        pair = did, does, first.label, second.label, first.site, second.site
        seen = self._seen.setdefault(pair, _Seen(races={}))
        seen.count += 1
        if seen.count <= _LOOKED_AT:
            ordered = Conflict(first, second, conflict.span, did, does)
            old = self._tenancy(conflict.span.start, first.called)
            new = self._tenancy(conflict.span.start, second.called)
            race = races.judge(ordered, old, new)
            seen.races.setdefault(race.kind, race)

    def races(self) -> tuple[Race, ...]:
        """Return the races, in the order they were found."""
        return tuple(r for seen in self._seen.values() for r in seen.races.values())

    def findings(self) -> tuple[Finding, ...]:
        """Return the races as findings."""
        return tuple(
            races.finding(race, seen.count)
            for seen in self._seen.values()
            for race in seen.races.values()
        )
