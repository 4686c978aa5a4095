"""Memory that packages ask for at every step, judged when a script has ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from sidestream.harness.finding import Finding, Rule, Site
from sidestream.harness.run.script_checks import by_package, caller
from sidestream.harness.run.steady import Steady
from sidestream.harness.runtime import CallSite
from sidestream.harness.runtime.races import Tenancy
from sidestream.harness.runtime.reservations import Reservation

RULE = Rule(
    id="host.alloc",
    title="After its warm-up a call asks the driver for no memory and keeps none",
)
"""CUDA C++ Best Practices Guide, "Device Memory Allocation": `cudaMalloc` and
`cudaFree` cost much. Captures forbid them: NVIDIA/cudnn-frontend#1151."""
_KEPT = 3
"""Blocks that a line keeps before it counts: two may be a pair of buffers."""
_MISSED = 3
"""Calls in which a cache has to ask the driver for one line before it counts."""


def reserved(
    seen: Iterable[Reservation], steady: Steady, home: Path
) -> tuple[Finding, ...]:
    """Judge memory that a package asks the driver for past the warm-up."""
    groups: dict[tuple[str, str], list[Reservation]] = defaultdict(list)
    for one in seen:
        if not one.cached and by_package(one.site, home) and steady.call(one.site):
            groups[one.call, one.site.frames[0]].append(one)
    return tuple(
        _finding(
            call,
            group[0].site,
            f"{call} of {group[0].size} bytes in call {steady.call(group[0].site)} of "
            f"{_line(group[0].site, home)}",
            "memory from plan time, or lent by the caller",
            len(group),
        )
        for (call, _), group in groups.items()
    )


def missed(
    seen: Iterable[Reservation], steady: Steady, home: Path
) -> tuple[Finding, ...]:
    """Judge lines of packages for which a cache asks the driver in call after call.

    Either because the package has given back what the cache held, or because it wants
    more than ever before in a call that is given no more than an earlier one. A cache
    also has to ask where blocks are held or still in use: by the script, which may, by
    the package, which `kept` tells, or by operations that are under way.
    """
    groups: dict[str, list[Reservation]] = defaultdict(list)
    for one in seen:
        if one.cached and by_package(one.site, home):
            groups[one.site.frames[0]].append(one)
    found = []
    for group in groups.values():
        for misses, why, need in (
            (
                _after_empty(group, steady, home),
                "has been emptied",
                "a cache left as is",
            ),
            (_larger(group, steady), "holds less", "memory of the size it will take"),
        ):
            if len({one.site.call for one in misses}) < _MISSED:
                continue
            last = misses[-1]
            text = (
                f"{last.call} of {last.size} bytes in call {steady.call(last.site)} of "
                f"{_line(last.site, home)}, for a cache that {why}"
            )
            site = last.emptied or last.site
            made = _finding(last.call, site, text, need, len(misses))
            found.append(made)
    return tuple(found)


def _after_empty(
    group: Iterable[Reservation], steady: Steady, home: Path
) -> list[Reservation]:
    return [
        one
        for one in group
        if one.emptied is not None
        and by_package(one.emptied, home)
        and steady.call(one.emptied)
        and steady.call(one.site)
    ]


def _larger(group: Iterable[Reservation], steady: Steady) -> list[Reservation]:
    """Return the steady calls that want more than all before, given no more."""
    largest, before, found = 0, set(), []
    for one in group:
        grown = one.size > largest
        if grown and one.given and one.given in before and steady.call(one.site):
            found.append(one)
        largest = max(largest, one.size)
        before.add(one.given)
    return found


def kept(
    live: Iterable[Tenancy],
    held_by_packages: Callable[[Collection[int]], frozenset[int]],
    steady: Steady,
    home: Path,
) -> tuple[Finding, ...]:
    """Judge blocks that packages hold when a script has ended, one more for each call.

    Args:
        live: What is allocated then.
        held_by_packages: Returns which of some blocks packages hold, by address.
        steady: Tells the warm-up.
        home: Folder of the script.
    """
    groups = _kept(live, steady, home)
    if not groups:
        return ()
    held = held_by_packages({block.start for group in groups for block in group})
    found = []
    for group in groups:
        blocks = [block for block in group if block.start in held]
        if len(blocks) >= _KEPT:
            text = (
                f"{len(blocks)} calls of {_line(blocks[0].made, home)} each keep a "
                f"block of {blocks[0].size} bytes more"
            )
            need = "memory that later calls use again"
            made = _finding("allocation", blocks[0].made, text, need, len(blocks))
            found.append(made)
    return tuple(found)


def _kept(live: Iterable[Tenancy], steady: Steady, home: Path) -> list[list[Tenancy]]:
    groups: dict[tuple[str, int], dict[int, Tenancy]] = defaultdict(dict)
    for block in live:
        if by_package(block.made, home) and steady.call(block.made):
            groups[block.made.frames[0], block.size].setdefault(block.made.call, block)
    return [list(calls.values()) for calls in groups.values() if len(calls) >= _KEPT]


def _line(site: CallSite, home: Path) -> str:
    return caller(site, home).split(" in ")[0]


def _finding(
    operation: str, site: CallSite, message: str, need: str, count: int
) -> Finding:
    return Finding(
        kind="host-alloc",
        rule=RULE,
        message=message,
        sites=(
            Site(
                agent="host",
                operation=operation,
                source=site.frames[0].split(" in ")[0],
                detail="\n".join(site.frames),
            ),
        ),
        need=need,
        count=count,
    )
