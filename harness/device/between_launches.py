"""Races of two launches of one stream: a dependent grid that does not wait, and maps.

PTX ISA, griddepcontrol: only what follows `griddepcontrol.wait` comes after the grids
that a dependent grid depends on. PTX ISA, Memory synchronization: a kernel's start
acquires nothing through the tensor-map proxy.
"""

from __future__ import annotations

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device.races import RULES, lanes_text
from sidestream.harness.device.sites import agent_text, site_at
from sidestream.harness.exec.overlap import Work
from sidestream.harness.finding import Finding, Rule, Site
from sidestream.harness.race.watcher import Race, Side

_WAIT = (
    "griddepcontrol.wait in the dependent grid, and a barrier from there, before the "
    "access; or in the first grid a fence of .gpu scope between its access and "
    "griddepcontrol.launch_dependents"
)
_ACQUIRE = (
    "fence.proxy.tensormap::generic.acquire.gpu of the map's address, 128, before the "
    "copy: a kernel's start does not acquire what launches before it wrote"
)


def finding_of(
    race: Race, first: Work, second: Work, table: AllocationTable
) -> Finding:
    """Tell a race of a launch with a later one of its stream."""
    where = table.describe(race.address)
    sites = (
        _site(race.earlier, first, "launch", where),
        _site(race.later, second, "later launch", where),
    )
    unacquired = race.verdict == "map-unacquired"
    rule = "B8" if unacquired else "B7"
    missing = (
        "no acquiring proxy fence of this map precedes the copy"
        if unacquired
        else "the later grid does not wait for the earlier one before"
    )
    return Finding(
        kind="tensormap" if race.later.proxy == "tensormap" else "gmem-race",
        rule=Rule(id=rule, title=RULES[rule]),
        message=(
            f"{sites[0].operation} of {first.launch.kernel} and {sites[1].operation} "
            f"of {second.launch.kernel} meet in {where}, and {missing}"
        ),
        kernel=second.program.function.name,
        sites=sites,
        need=_ACQUIRE if unacquired else _WAIT,
        witness=_witness(sites, second),
        count=race.count,
        extra={"race": race.verdict},
    )


def _site(side: Side, work: Work, role: str, where: str) -> Site:
    agent = f"{role} {work.launch.kernel}" + ("" if side.engine else ",")
    agent = agent_text(agent, side.warp, lanes_text(side), engine=side.engine)
    deed = ("writes" if side.write else "reads") + f", {side.proxy} proxy"
    return site_at(work.program, side.pc, agent, f"{deed}: {where}")


def _witness(sites: tuple[Site, ...], second: Work) -> tuple[str, ...]:
    how = (
        "as a programmatic dependent of the one before it"
        if second.launch.pdl
        else "behind the others of its stream"
    )
    return (
        f"{sites[0].agent}: {sites[0].operation}",
        f"{second.launch.kernel} is launched {how}",
        f"{sites[1].agent}: {sites[1].operation}",
    )
