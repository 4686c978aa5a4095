"""Who waits for what when nothing moves, and which arrivals never came."""

from __future__ import annotations

from collections.abc import Iterable

from sidestream.harness.device.arrivals import ARRIVALS, Places, ahead_of, phase_of
from sidestream.harness.device.faults import shared_place
from sidestream.harness.device.rules import DEADLOCK, DIVERGENT
from sidestream.harness.device.sites import cta_text, site_at
from sidestream.harness.exec.program import Program
from sidestream.harness.exec.result import Result, Waiting
from sidestream.harness.finding import Finding, Site

_MOST_SITES = 6
_MOST_WITNESSES = 24
_SIGNALS = {
    "mbarrier": ARRIVALS,
    "barrier": ("bar", "barrier"),
    "cluster-barrier": ("barrier.cluster.arrive",),
    "setmaxnreg": ("setmaxnreg",),
    "tmem-alloc": ("tcgen05.alloc", "tcgen05.dealloc"),
}
"""Operations that can end a wait, by its kind; families by their first words."""


def finding_of(result: Result, program: Program) -> Finding:
    """Tell a deadlock or a divergent `.sync`: waits by instruction, missing signals."""
    kinds = {wait.kind for wait in result.waiting}
    divergent = result.status == "divergent-sync" or kinds == {"warp-sync"}
    groups: dict[tuple[int, str, int], list[Waiting]] = {}
    for wait in result.waiting:
        groups.setdefault((wait.pc, wait.kind, wait.address), []).append(wait)
    barriers = _barriers(result, program)
    worst = {at: rank for rank, at in enumerate(barriers)}
    ordered = sorted(groups, key=lambda g: worst.get(g[2], len(worst)))
    sites = tuple(
        site_at(program, pc, _agents(waits), _waited_for(program, waits[0]))
        for (pc, _, _), waits in ((g, groups[g]) for g in ordered[:_MOST_SITES])
    )
    silent = _silent(result, program, kinds)
    told = [line for lines in barriers.values() for line in lines]
    witness = told[:_MOST_WITNESSES]
    witness += [_line(program, wait) for wait in result.waiting[:_MOST_WITNESSES]]
    if set(kinds) - {"mbarrier"}:
        witness += [f"never executed: {_spell(s)}" for s in silent[:_MOST_WITNESSES]]
    if divergent:
        need = "every lane of the membermask at one .sync instruction"
    elif barriers:
        need = "; ".join(next(iter(barriers.values()))[:2])
    elif silent:
        need = f"the arrival of {_spell(silent[0])}, which never executes"
    else:
        need = "an arrival for each wait: counts or bytes expected exceed what comes"
    number = len(result.waiting)
    waits_for = sorted(kind for kind in kinds if kind) or ["nothing known"]
    return Finding(
        kind="deadlock",
        rule=DIVERGENT if divergent else DEADLOCK,
        message=(
            f"{program.function.name} cannot go on: {number} warp"
            f"{'s wait' if number != 1 else ' waits'} for {', '.join(waits_for)}"
            + (f"; first: {sites[0].detail}" if sites and sites[0].detail else "")
        ),
        kernel=program.function.name,
        sites=sites,
        need=need,
        witness=tuple(witness),
    )


def _barriers(result: Result, program: Program) -> dict[int, list[str]]:
    """Tell of every mbarrier waited for, the one that explains most first.

    First those whose arrivals no warp that waits elsewhere still has before it, then
    those at which an instruction that never executed is known to arrive, then those at
    which nobody arrived in the phase, then those that lack some arrivals.
    """
    waits = {w.address: w for w in result.waiting if w.kind == "mbarrier" and w.word}
    places = Places(program) if waits else None
    counts: dict[int, int] = {}
    for index, count in zip(program.origin.tolist(), result.counts, strict=True):
        counts[index] = max(counts.get(index, 0), int(count))
    ahead = {
        at: ahead_of(program.function, int(program.origin[wait.pc]))
        for at, wait in waits.items()
    }
    found: list[tuple[tuple[bool, bool, bool], int, list[str]]] = []
    for address, wait in waits.items():
        assert places is not None
        phase = phase_of(wait.word)
        arrivers = places.arrivers(address & 0xFF_FFFF, counts)
        where = shared_place(program, address)
        came = phase.expected - phase.pending
        state = f"the mbarrier at {where} has {came} of {phase.expected} arrivals"
        if phase.bytes:
            state += f" and waits for {phase.bytes} bytes"
        lines = [state]
        surely = any(a.sure and not a.executed for a in arrivers)
        if not arrivers:
            lines.append("no instruction of the kernel arrives there")
        for arriver in arrivers[:_MOST_SITES]:
            does = "arrives there" if arriver.sure else "may arrive there"
            often = f"executed {arriver.executed} times"
            lines.append(
                f"{_spell(site_at(program, arriver.pc, ''))} {does}, "
                + (often if arriver.executed else "never executed")
            )
        nobody = not arrivers or came == 0
        still = any(
            int(program.origin[a.pc]) in ahead[at]
            for a in arrivers
            for at in waits
            if at != address and a.sure
        )
        found.append(((still, not surely, not nobody), address, lines))
    found.sort(key=lambda entry: entry[0])
    return {address: lines for _, address, lines in found}


def _agents(waits: list[Waiting]) -> str:
    """Name the warps of one wait: CTA by CTA, the first few."""
    by_cta: dict[tuple[int, int, int], list[int]] = {}
    for wait in waits:
        by_cta.setdefault(wait.cta, []).append(wait.warp)
    names = [
        f"{cta_text(cta)} warp{'s' if len(warps) > 1 else ''} "
        + ", ".join(str(w) for w in sorted(warps))
        for cta, warps in list(by_cta.items())[:2]
    ]
    more = len(by_cta) - len(names)
    return "; ".join(names) + (f" and {more} more CTAs" if more else "")


def _waited_for(program: Program, wait: Waiting) -> str:
    if wait.kind == "mbarrier":
        return (
            f"the end of a phase of parity {wait.info} of the mbarrier at "
            f"{shared_place(program, wait.address)}"
        )
    if wait.kind == "barrier":
        return f"{wait.info} threads at named barrier {wait.address}"
    if wait.kind == "warp-sync":
        return (
            f"lanes of membermask {wait.address & 0xFFFFFFFF:#010x}; here are "
            f"{wait.info & 0xFFFFFFFF:#010x}"
        )
    if wait.kind == "async-group":
        return f"asynchronous copies; {wait.info} groups are outstanding"
    return {
        "cluster-barrier": "the CTAs of the cluster at barrier.cluster",
        "setmaxnreg": "registers that setmaxnreg.dec gives back",
        "grid": "the grids that it depends on",
        "tmem-alloc": "free columns of tensor memory, or the warp of the peer CTA",
        "tcgen05": "tensor memory accesses in flight",
    }.get(wait.kind, "")


def _line(program: Program, wait: Waiting) -> str:
    agent = f"{cta_text(wait.cta)} warp {wait.warp} lanes {wait.mask:#010x}"
    site = site_at(program, wait.pc, agent, _waited_for(program, wait))
    return f"{agent}: {_spell(site)}" + (f": {site.detail}" if site.detail else "")


def _spell(site: Site) -> str:
    place = [p for p in (site.source, f"PTX line {site.ptx_line}") if p]
    return f"{site.operation} ({', '.join(place)})"


def _silent(result: Result, program: Program, kinds: Iterable[str]) -> list[Site]:
    """Return the signals that could end these waits and were never executed."""
    wanted = tuple(op for kind in kinds for op in _SIGNALS.get(kind, ()))
    waited = {program.origin[w.pc] for w in result.waiting if w.pc < len(program.code)}
    sites: dict[int, Site] = {}
    ran = set()
    for pc, index in enumerate(program.origin):
        ins = program.instruction(pc)
        if ins is None or index in waited:
            continue
        if any(ins.op == op or ins.op.startswith(f"{op}.") for op in wanted):
            sites.setdefault(int(index), site_at(program, pc, "kernel"))
            if result.counts[pc]:
                ran.add(int(index))
    return [site for index, site in sites.items() if index not in ran]
