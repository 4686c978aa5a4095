"""Races as findings: two accesses, the rule that they break, what would order them."""

from __future__ import annotations

from collections.abc import Mapping

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device.faults import shared_place
from sidestream.harness.device.sites import agent_text, cta_text, site_at
from sidestream.harness.exec.program import SMEM_BASE, Program
from sidestream.harness.finding import Finding, Rule, Site
from sidestream.harness.launch import Launch
from sidestream.harness.ptx import ir
from sidestream.harness.ptx.sections import TENSOR_MODEL
from sidestream.harness.race.watcher import Race, Side

_MODEL = "Memory Consistency Model"
_SYNC = "Parallel Synchronization and Communication Instructions"
_COPY = "Data Movement and Conversion Instructions"
_TENSOR = "TensorCore 5th Generation Instructions"
RULES: Mapping[str, str] = {
    "race.order": f"{_MODEL}: Conflict and Data-races",
    "race.scope": f"{_MODEL}: Morally strong operations",
    "race.constant": f"{_COPY}: ld.global.nc",
    "B3": f"{_SYNC}: bar.warp.sync",
    "B7": f"{_SYNC}: griddepcontrol",
    "B8": f"{_MODEL}: Memory synchronization",
    "M8": f"{_SYNC}: mbarrier.init; {_SYNC}: membar / fence",
    "P2": f"{_MODEL}: Proxies; {_SYNC}: membar / fence",
    "P3": "Completion Mechanisms for Asynchronous Copy Operations",
    "P4": f"{_COPY}: cp.async.bulk.wait_group",
    "P7": f"{_SYNC}: membar / fence; {_SYNC}: tensormap.cp_fenceproxy",
    "cluster.peer": "Cluster of Cooperative Thread Arrays",
    "T2": f"{TENSOR_MODEL}: Pipelined tcgen05 Instructions",
    "T4": f"{_TENSOR}: tcgen05.commit",
    "T5": f"{_TENSOR}: tcgen05.wait",
    "T6": f"{_TENSOR}: tcgen05.fence",
}
"""Titles of PTX ISA sections, by the rule that a race breaks."""
_PIPELINE = (
    "the same accumulator, shape and kind; or a tcgen05.commit or "
    "tcgen05.fence::before_thread_sync of the thread between the two"
)
_ONE_LANE = (
    "products issued by one lane of the warp, as elect.sync chooses it; or "
    "bar.warp.sync between the two lanes"
)
_ONE_WRITER = (
    "one lane that writes, as a predicate or elect.sync chooses it; or an atomic "
    "operation by each; between two turns of a loop, bar.warp.sync"
)
_BARRIER = "a barrier, or a release and an acquire, between the two"
_MISSING = {
    "behind-proxy": "no proxy fence lies between them",
    "tensor-unsent": "no tcgen05.fence::before_thread_sync follows the first one",
    "tensor-unreceived": "no tcgen05.fence::after_thread_sync precedes the second one",
    "unread": "the thread that issued it does not wait until it is read",
    "outlasts": "no thread of the CTA knows that the first is over before the CTA is",
    "not-constant": "the load takes them for constant while the kernel runs",
    "map-unreleased": "no releasing proxy fence follows the change",
    "map-unacquired": "no acquiring proxy fence of this map precedes the use",
    "map-unscoped": "the scope of a proxy fence leaves the other's thread out",
}
"""What is missing between two accesses that are in order."""
_MAP_FENCES = {
    "map-unreleased": (
        "fence.proxy.tensormap::generic.release after the change of the map, or the "
        "change by tensormap.cp_fenceproxy, before the hand-over to the copying thread"
    ),
    "map-unacquired": (
        "fence.proxy.tensormap::generic.acquire of the map's address, 128, before the "
        "copy by the map"
    ),
    "map-unscoped": (
        "scopes of the releasing and of the acquiring proxy fence that include the "
        "other thread: .gpu across clusters, .cluster across CTAs"
    ),
}
_TENSOR_FENCES = {
    "tensor-unsent": (
        "tcgen05.fence::before_thread_sync by the thread of the first operation, "
        "behind it and before the hand-over"
    ),
    "tensor-unreceived": (
        "tcgen05.fence::after_thread_sync by the thread of the second operation, "
        "behind the wait and before it"
    ),
}
_KINDS = {"shared": "smem-race", "global": "gmem-race", "tensor": "tmem-race"}


def finding_of(
    race: Race, program: Program, launch: Launch, table: AllocationTable
) -> Finding:
    """Tell a race: which two accesses to which bytes, and what is missing."""
    where = _where(race, program, table)
    sites = tuple(
        _site(side, program, launch, where) for side in (race.earlier, race.later)
    )
    kind = "proxy" if race.verdict == "behind-proxy" else _KINDS[race.space]
    if "tensormap" in (race.earlier.proxy, race.later.proxy):
        kind = "tensormap"
    if kind == "smem-race" and race.earlier.cta != race.later.cta:
        kind = "dsmem-race"
    rule, need = _missing(race, program)
    missing = _MISSING.get(race.verdict, "nothing orders them")
    return Finding(
        kind=kind,
        rule=Rule(id=rule, title=RULES[rule]),
        message=(
            f"{sites[0].operation} and {sites[1].operation} meet in {where}, and "
            f"{missing}"
        ),
        kernel=program.function.name,
        sites=sites,
        need=need,
        witness=_witness(race, sites, program),
        count=race.count,
        extra={"race": race.verdict, **_address(race)},
    )


def _address(race: Race) -> dict[str, int]:
    """Nothing of global memory, whose tensors lie elsewhere in every process."""
    return {} if race.space == "global" else {"address": race.address}


def _where(race: Race, program: Program, table: AllocationTable) -> str:
    if race.verdict == "unread":
        return "the shared memory that it reads"
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
    return agent_text(cta, side.warp, lanes_text(side), engine=side.engine)


def lanes_text(side: Side) -> str:
    """Spell the lanes of a side: of an operation, those that issued it."""
    if side.lane is not None:
        return f"lane {side.lane}"
    return "" if side.engine else "several lanes"


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
    elif not race.earlier.engine:
        lines.append(f"{first}: hands nothing over after it, up to the other access")
    if race.learned is not None:
        lines.append(f"{second}: last learned of others by {spell(race.learned)}")
    known = f"{second}: {spell(race.later.pc)}, knowing the first side up to clock "
    lines.append(known + str(race.known))
    return tuple(lines)


def _missing(race: Race, program: Program) -> tuple[str, str]:
    """Which rule orders such a pair, and what of it is not there."""
    earlier, later = race.earlier, race.later
    space = "global" if race.space == "global" else "shared::cta"
    if race.verdict == "behind-proxy":
        return "P2", (
            f"fence.proxy.async.{space} after the generic access, before the thread "
            "that starts the asynchronous operation is let go on"
        )
    if race.verdict in _TENSOR_FENCES:
        return "T6", _TENSOR_FENCES[race.verdict]
    if race.verdict == "unread":
        return "P4", (
            "cp.async.bulk.wait_group.read 0 by the thread that issued the store, "
            "before its CTA is over"
        )
    if race.verdict == "outlasts":
        return "cluster.peer", (
            "a wait for it, or a barrier.cluster behind its completion, before the "
            "last thread of the CTA exits"
        )
    if race.verdict == "not-constant":
        return "race.constant", "a load without .nc, or the write by an earlier launch"
    if race.verdict in _MAP_FENCES:
        return "P7", _MAP_FENCES[race.verdict]
    if race.verdict == "unscoped":
        return "race.scope", "scopes that include the other thread, on both sides"
    first = program.instruction(earlier.pc)
    if first and first.op.startswith("mbarrier.init"):
        if earlier.cta != later.cta:
            return "M8", (
                "fence.mbarrier_init.release.cluster by the thread that initialises, "
                "then barrier.cluster, before every use by another CTA"
            )
        return "M8", "a barrier between the initialisation and every other use"
    if race.over:
        over = earlier if race.over == "earlier" else later
        pair = [program.instruction(side.pc) for side in (earlier, later)]
        if all(ins and ins.op.startswith("tcgen05.mma") for ins in pair):
            lanes = (earlier.cta, earlier.warp) == (later.cta, later.warp)
            if lanes and earlier.lane != later.lane:
                return "T2", _ONE_LANE
            return "T2", _PIPELINE
        return _completion(program.instruction(over.pc), over, race.space)
    engines = earlier.engine or later.engine
    if not engines and (earlier.cta, earlier.warp) == (later.cta, later.warp):
        if (earlier.pc, earlier.clock) == (later.pc, later.clock):
            return "race.order", _ONE_WRITER
        return "B3", "bar.warp.sync, or any barrier, between the lanes"
    return "race.order", _BARRIER


def _completion(
    operation: ir.Instruction | None, over: Side, space: str
) -> tuple[str, str]:
    """How the completion of an asynchronous operation is learnt."""
    name = operation.op if operation else ""
    to = operation.mods.get("dst", "") if operation else ""
    loads = to.startswith("shared")
    if name.startswith("tcgen05.st"):
        return "T5", "tcgen05.wait::st by the storing warp, and a barrier from there"
    if name.startswith("tcgen05.ld"):
        return "T5", "tcgen05.wait::ld by the loading warp, and a barrier from there"
    if name.startswith("tcgen05"):
        return "T4", "a wait on an mbarrier at which a tcgen05.commit after it arrives"
    if name == "cp.async":
        return "P3", (
            "cp.async.wait_group by the thread that issued the copy, and a barrier"
        )
    if (over.write and space == "shared") or (over.proxy == "tensormap" and loads):
        return "P3", "a wait on the mbarrier at which it completes"
    reads = ".read" if not over.write else ""
    return "P4", (
        f"cp.async.bulk.wait_group{reads} by the thread that issued the copy, and a "
        "barrier from there"
    )
