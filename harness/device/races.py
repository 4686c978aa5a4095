"""Races as findings: two accesses, the rule that they break, what would order them."""

from __future__ import annotations

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device.faults import shared_place
from sidestream.harness.device.sites import site_at
from sidestream.harness.exec.program import SMEM_BASE, Program
from sidestream.harness.finding import Finding, Rule, Site
from sidestream.harness.race.watcher import Race, Side

DATA_RACE = Rule(
    id="race.order", title="Memory Consistency Model: Conflict and Data-races"
)
PROXY = Rule(id="P2", title="Memory Consistency Model: Proxies; fence.proxy")
SCOPE = Rule(
    id="race.scope", title="Memory Consistency Model: Morally Strong Operations"
)
_BARRIER = "a barrier, or a release and an acquire, between the two"
_KINDS = {"shared": "smem-race", "global": "gmem-race", "tensor": "tmem-race"}


def finding_of(race: Race, program: Program, table: AllocationTable) -> Finding:
    """Tell a race: which two accesses to which bytes, and what is missing."""
    where = _where(race, program, table)
    sites = tuple(_site(side, program, where) for side in (race.earlier, race.later))
    proxy = race.verdict == "behind-proxy"
    kind = "proxy" if proxy else _KINDS[race.space]
    rule = PROXY if proxy else SCOPE if race.verdict == "unscoped" else DATA_RACE
    return Finding(
        kind=kind,
        rule=rule,
        message=(
            f"{sites[0].operation} and {sites[1].operation} meet in {where}, and "
            + (
                "no proxy fence lies between them"
                if proxy
                else "nothing orders them"
            )
        ),
        kernel=program.function.name,
        sites=sites,
        need=_need(race, program),
        count=race.count,
        extra={"race": race.verdict, "address": race.address},
    )


def _where(race: Race, program: Program, table: AllocationTable) -> str:
    if race.space == "shared":
        return shared_place(program, SMEM_BASE + race.address)
    if race.space == "global":
        return table.describe(race.address)
    return f"tensor memory {race.address:#x}"


def _site(side: Side, program: Program, where: str) -> Site:
    deed = ("writes" if side.write else "reads") + f", {side.proxy} proxy"
    if side.warp is None:
        agent = f"slot {side.slot}, asynchronous operation"
    else:
        lane = "several lanes" if side.lane is None else f"lane {side.lane}"
        agent = f"slot {side.slot} warp {side.warp} {lane}"
    return site_at(program, side.pc, agent, f"{deed}: {where}")


def _need(race: Race, program: Program) -> str:
    earlier = program.instruction(race.earlier.pc)
    name = earlier.op if earlier else ""
    space = "global" if race.space == "global" else "shared::cta"
    if race.verdict == "behind-proxy":
        return (
            f"fence.proxy.async.{space} after the generic access, before the thread "
            "that starts the asynchronous operation is let go on"
        )
    if race.earlier.warp is None and name.startswith("cp.async.bulk"):
        if race.earlier.write and race.space == "shared":
            return "a wait on the mbarrier at which the copy completes"
        reads = ".read" if not race.earlier.write else ""
        return (
            f"cp.async.bulk.wait_group{reads} by the thread that issued the copy, and "
            "a barrier from there"
        )
    if race.earlier.warp is None and name == "cp.async":
        return "cp.async.wait_group by the thread that issued the copy, and a barrier"
    if race.earlier.warp == race.later.warp and race.earlier.slot == race.later.slot:
        return "bar.warp.sync, or any barrier, between the lanes"
    return _BARRIER
