"""Which warps of a CTA do the same job, told from the instructions they execute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sidestream.harness.stats import classes

_COPIES = (classes.BULK_LOAD, classes.CP_ASYNC)
_STORES = (classes.BULK_STORE, classes.GLOBAL_STORE)
_TELLING = (
    *(classes.MMA, classes.SPECIAL, classes.TMEM_LOAD, classes.TMEM_STORE),
    *_COPIES,
    *_STORES,
    *(classes.LAUNCH_CONTROL, "mbarrier wait", "barrier"),
)
_SOFTMAX_SHARE = 4
"""A softmax takes the exponential of most of what it loads, on this unit or as a
polynomial; a correction takes one for a row at most."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Warps with the same role.

    Attributes:
        name: `mma`, `softmax`, `correction`, `load`, `epilogue`, `scheduler`,
            `consumer` (multiplies with `mma.sync` what others load), `whole` (loads,
            multiplies and stores by itself), `idle`, or `all` in a kernel that
            multiplies nothing.
        warps: Their numbers in the CTA.
        evidence: Instructions by telling class, over these warps.
    """

    name: str
    warps: tuple[int, ...]
    evidence: Mapping[str, int]


def jobs(
    counts: Sequence[Mapping[str, int]], tmem_registers: Sequence[int]
) -> list[Job]:
    """Group warps by what they do.

    Args:
        counts: By warp, issued instructions by class.
        tmem_registers: By warp, registers loaded from tensor memory.
    """
    multiplies = any(c.get(classes.MMA) for c in counts)
    loaders = any(_loads(c) and not c.get(classes.MMA) for c in counts)
    warps_of: dict[str, list[int]] = {}
    for warp, (count, loaded) in enumerate(zip(counts, tmem_registers, strict=True)):
        name = _name(count, loaded, loaders=loaders) if multiplies else "all"
        warps_of.setdefault(name, []).append(warp)
    found = []
    for name, warps in warps_of.items():
        total: Counter[str] = Counter()
        for warp in warps:
            total.update({k: counts[warp].get(k, 0) for k in _TELLING})
        evidence = {k: total[k] for k in _TELLING if total[k]}
        found.append(Job(name=name, warps=tuple(warps), evidence=evidence))
    return found


def _loads(count: Mapping[str, int]) -> int:
    return sum(count.get(kind, 0) for kind in _COPIES)


def _name(count: Mapping[str, int], loaded: int, *, loaders: bool) -> str:
    if count.get(classes.TMEM_LOAD):
        softmax = _SOFTMAX_SHARE * count.get(classes.SPECIAL, 0) >= loaded
        return "softmax" if softmax else "correction"
    if count.get(classes.MMA):
        if not count.get(classes.SPECIAL):
            return "mma"
        return "consumer" if loaders else "whole"
    if _loads(count):
        return "load"
    if any(count.get(kind) for kind in _STORES):
        return "epilogue"
    return "scheduler" if count.get(classes.LAUNCH_CONTROL) else "idle"
