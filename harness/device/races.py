"""Races as findings: two accesses, the rule that they break, what would order them."""

from __future__ import annotations

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device.faults import shared_place
from sidestream.harness.device.sites import cta_text, site_at
from sidestream.harness.exec.program import SMEM_BASE, Program
from sidestream.harness.finding import Finding, Rule, Site
from sidestream.harness.launch import Launch
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


def finding_of(
    race: Race, program: Program, launch: Launch, table: AllocationTable
) -> Finding:
    """Tell a race: which two accesses to which bytes, and what is missing."""
    where = _where(race, program, table)
    sites = tuple(
        _site(side, program, launch, where) for side in (race.earlier, race.later)
    )
    proxy = race.verdict == "behind-proxy"
    kind = "proxy" if proxy else _KINDS[race.space]
    if kind == "smem-race" and race.earlier.cta != race.later.cta:
        kind = "dsmem-race"
    rule = PROXY if proxy else SCOPE if race.verdict == "unscoped" else DATA_RACE
    missing = "no proxy fence lies between them" if proxy else "nothing orders them"
    return Finding(
        kind=kind,
        rule=rule,
        message=(
            f"{sites[0].operation} and {sites[1].operation} meet in {where}, and "
            f"{missing}"
        ),
        kernel=program.function.name,
        sites=sites,
        need=_need(race, program),
        witness=_witness(race, sites, program),
        count=race.count,
        extra={"race": race.verdict, "address": race.address},
    )


def _where(race: Race, program: Program, table: AllocationTable) -> str:
    if race.space == "shared":
        return shared_place(program, SMEM_BASE + race.address)
    if race.space == "global":
        return table.describe(race.address)
    lane, column = race.address >> 16, race.address & 0xFFFF
    return f"tensor memory, column {column} of lanes {lane} to {lane + 15}"


def _agent(side: Side, launch: Launch) -> str:
    if side.cta is None:
        cta = "an earlier cta"
    else:
        x, rest = side.cta % launch.grid[0], side.cta // launch.grid[0]
        cta = cta_text((x, rest % launch.grid[1], rest // launch.grid[1]))
        if launch.cluster != (1, 1, 1):
            cta = f"cta {side.cta} in the order of clusters"
    if side.warp is None:
        return f"{cta}, asynchronous operation"
    lane = "several lanes" if side.lane is None else f"lane {side.lane}"
    return f"{cta} warp {side.warp} {lane}"


def _site(side: Side, program: Program, launch: Launch, where: str) -> Site:
    deed = ("writes" if side.write else "reads") + f", {side.proxy} proxy"
    return site_at(program, side.pc, _agent(side, launch), f"{deed}: {where}")


def _witness(race: Race, sites: tuple[Site, ...], program: Program) -> tuple[str, ...]:
    """The hand-overs that there are on either side, and why they do not meet."""

    def spell(pc: int) -> str:
        site = site_at(program, pc, "")
        line = site.source or f"PTX line {site.ptx_line}"
        return f"{site.operation} ({line})"

    first, second = (site.agent for site in sites)
    lines = [f"{first}: {spell(race.earlier.pc)} at its clock {race.earlier.clock}"]
    if race.handed_over is not None:
        lines.append(f"{first}: first hands over after it by {spell(race.handed_over)}")
    elif race.earlier.warp is not None:
        lines.append(f"{first}: hands nothing over after it, up to the other access")
    if race.learned is not None:
        lines.append(f"{second}: last learned of others by {spell(race.learned)}")
    known = f"{second}: {spell(race.later.pc)}, knowing the first side up to clock "
    lines.append(known + str(race.known))
    return tuple(lines)


def _need(race: Race, program: Program) -> str:
    earlier = program.instruction(race.earlier.pc)
    name = earlier.op if earlier else ""
    space = "global" if race.space == "global" else "shared::cta"
    if race.verdict == "behind-proxy":
        return (
            f"fence.proxy.async.{space} after the generic access, before the thread "
            "that starts the asynchronous operation is let go on"
        )
    if name.startswith("tcgen05.st"):
        return "tcgen05.wait::st by the storing warp, and a barrier from there"
    if name.startswith("tcgen05.ld"):
        return "tcgen05.wait::ld by the loading warp, and a barrier from there"
    if name.startswith(("tcgen05.mma", "tcgen05.cp", "tcgen05.shift")):
        return "a wait on an mbarrier at which a tcgen05.commit after it arrives"
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
    if race.earlier.warp == race.later.warp and race.earlier.cta == race.later.cta:
        return "bar.warp.sync, or any barrier, between the lanes"
    return _BARRIER
