"""Memory that packages ask for at every step, judged when a script has ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from sidestream.harness.finding import Finding, Rule, Site
from sidestream.harness.run.script_checks import by_package, caller
from sidestream.harness.run.steady import Steady
from sidestream.harness.runtime import CallSite
from sidestream.harness.runtime.races import Tenancy
from sidestream.harness.runtime.state import Reservation

RULE = Rule(
    id="host.alloc",
    title="After its warm-up a call asks the driver for no memory and keeps none",
)
"""CUDA C++ Best Practices Guide, "Device Memory Allocation": `cudaMalloc` and
`cudaFree` cost much. Captures forbid them: NVIDIA/cudnn-frontend#1151."""
_KEPT = 3
"""Blocks that a line keeps before it counts: two may be a pair of buffers."""


def reserved(
    seen: Sequence[Reservation], steady: Steady, home: Path
) -> tuple[Finding, ...]:
    """Judge memory that a package asks the driver for past the warm-up."""
    groups: dict[tuple[str, str], list[Reservation]] = defaultdict(list)
    for one in seen:
        if by_package(one.site, home) and steady.call(one.site):
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
