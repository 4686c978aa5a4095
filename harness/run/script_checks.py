"""What the host side of a script is judged by, beyond races."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sidestream.harness.finding import Finding, Rule, Site
from sidestream.harness.runtime import CallSite, HostWait
from sidestream.harness.runtime.fills import Fill
from sidestream.harness.runtime.fills import finding as fill_finding

SYNC_RULE = Rule(
    id="host.sync",
    title="A package waits for the device only where its caller asks it to",
)
CACHE_RULE = Rule(
    id="host.cache",
    title="Equal declarations share one compilation, whatever the packed totals are",
)
_REPEATED = 2
_COMPILED = 3


@functools.cache
def of_package(place: str, home: Path) -> bool:
    """Whether a place is a package's rather than in the user's code.

    The user's code lies under `home`, the folder of the script; packages may too, in
    an environment that was made there.
    """
    file = Path(place.rpartition(":")[0] or place)
    if place.startswith("<"):
        return True  # generated code
    return "site-packages" in file.parts or home not in file.resolve().parents


def by_package(site: CallSite, home: Path) -> bool:
    """Whether the innermost frame of a call site is a package's."""
    return bool(site.frames) and of_package(site.frames[0], home)


def caller(site: CallSite, home: Path) -> str:
    """Return the innermost frame of the user's own code."""
    return next((f for f in site.frames if not of_package(f, home)), str(site))


def waits(seen: Sequence[HostWait], home: Path) -> tuple[Finding, ...]:
    """Judge waits of packages that come again: they cost every step of their caller.

    One that comes once may be part of setting up.
    """
    times = Counter(wait.site.frames[:1] for wait in seen)
    told: dict[tuple[str, ...], Finding] = {}
    for wait in seen:
        place = wait.site.frames[:1]
        if (
            by_package(wait.site, home)
            and times[place] >= _REPEATED
            and place not in told
        ):
            told[place] = _waiting(wait, times[place])
    return tuple(told.values())


def implicit(seen: Sequence[HostWait], home: Path) -> tuple[HostWait, ...]:
    """Return waits that the script's own code does not ask for by name."""
    return tuple(
        wait
        for wait in seen
        if not by_package(wait.site, home) and "ynchronize" not in wait.call
    )


def fills(seen: Sequence[Fill], home: Path) -> tuple[Finding, ...]:
    """Judge dead fills of packages that a launch of theirs overwrites."""
    return tuple(
        fill_finding(fill)
        for fill in seen
        if by_package(fill.op.site, home)
        and fill.over is not None
        and fill.over.kind == "launch"
    )


def compilations(
    seen: Sequence[tuple[str, CallSite]], home: Path
) -> tuple[Finding, ...]:
    """Judge compilations: a line of the script that compiles at its third call too.

    A line may need several kernels. Each is compiled by a line of its own further in.

    Args:
        seen: Host function and place of each compilation, in order.
        home: Folder of the script.
    """
    times = Counter(
        (name, _inside(site, home), caller(site, home)) for name, site in seen
    )
    return tuple(
        Finding(
            kind="cache-miss",
            rule=CACHE_RULE,
            message=f"{name} is compiled {count} times by calls of one line",
            sites=(
                Site(
                    agent="host",
                    operation="compile",
                    source=place.split(" in ")[0],
                    detail=place,
                ),
            ),
            need="a compile key of plan-time facts only",
            count=count,
        )
        for (name, _, place), count in times.items()
        if count >= _COMPILED
    )


def _inside(site: CallSite, home: Path) -> tuple[str, ...]:
    """Return the frames between a place and the user's line that led to it."""
    line = caller(site, home)
    end = site.frames.index(line) if line in site.frames else len(site.frames)
    return site.frames[:end]


def _waiting(wait: HostWait, count: int) -> Finding:
    return Finding(
        kind="host-sync",
        rule=SYNC_RULE,
        message=told(wait),
        sites=(
            Site(
                agent="host",
                operation=wait.call,
                source=wait.site.frames[0].split(" in ")[0],
                detail="\n".join(wait.site.frames),
            ),
        ),
        need="lengths and other data left on the device",
        count=count,
    )


def told(wait: HostWait) -> str:
    """Say what waits, for which value, and for how long."""
    read = f" reads {wait.detail} and" if wait.detail else ""
    time = f", {wait.seconds * 1e6:.0f} us by estimate" if wait.seconds else ""
    many = "operation" if wait.operations == 1 else "operations"
    return (
        f"{wait.call}{read} waits for {wait.target}: "
        f"{wait.operations} pending {many}{time}"
    )
