"""Who waits for what when nothing moves, and which arrival never came."""

from __future__ import annotations

from collections.abc import Iterable

from sidestream.harness.device.arrivals import Arriver, Places, arrives
from sidestream.harness.device.faults import shared_place
from sidestream.harness.device.rules import DEADLOCK, DIVERGENT
from sidestream.harness.device.sites import cta_text, site_at
from sidestream.harness.device.wait_graph import Gate, Missing, WaitGraph, gate_of
from sidestream.harness.exec import abi
from sidestream.harness.exec.program import Program
from sidestream.harness.exec.result import Result, Seen, Waiting
from sidestream.harness.finding import Finding, Site

_MOST_SITES = 6
_MOST_WITNESSES = 24
_SIGNALS = {
    "barrier": ("bar", "barrier"),
    "cluster-barrier": ("barrier.cluster.arrive",),
    "setmaxnreg": ("setmaxnreg",),
    "tmem-alloc": ("tcgen05.alloc", "tcgen05.dealloc"),
}
"""Operations that can end a wait other than for an mbarrier, by its kind; families by
their first words."""


def finding_of(result: Result, program: Program) -> Finding:
    """Tell a deadlock or a divergent `.sync`: waits by instruction, missing signals.

    The first site is of the wait that nobody can end any more; waits that would end
    with it are told as its victims.
    """
    kinds = {wait.kind for wait in result.waiting if wait.kind}
    divergent = result.status == "divergent-sync" or kinds == {"warp-sync"}
    graph, order, told_of = _explained(result, program)
    groups: dict[tuple[int, Gate], list[Waiting]] = {}
    for wait in result.waiting:
        groups.setdefault((wait.pc, gate_of(wait)), []).append(wait)
    worst = {gate: rank for rank, gate in enumerate(order)}
    ordered = sorted(groups, key=lambda g: worst.get(g[1], len(worst)))
    root = order[0] if order else None
    victims = graph.victims(root, order) if root else set()
    sites = tuple(
        site_at(
            program,
            pc,
            _agents(waits),
            _waited_for(program, waits[0])
            + ("; a victim of the first" if gate in victims else ""),
        )
        for (pc, gate), waits in ((g, groups[g]) for g in ordered[:_MOST_SITES])
    )
    silent = _silent(result, program, kinds)
    told = [line for lines in told_of.values() for line in lines]
    witness = told[:_MOST_WITNESSES]
    witness += [_line(program, wait) for wait in result.waiting[:_MOST_WITNESSES]]
    if kinds - {"mbarrier"}:
        witness += [f"never executed: {_spell(s)}" for s in silent[:_MOST_WITNESSES]]
    if divergent:
        need = "every lane of the membermask at one .sync instruction"
    elif root in told_of:
        need = "; ".join(told_of[root][:2])
    elif silent:
        need = f"the arrival of {_spell(silent[0])}, which never executes"
    elif told_of:
        need = "; ".join(next(iter(told_of.values()))[:2])
    else:
        need = "an arrival for each wait: counts or bytes expected exceed what comes"
    number = len({(wait.cta, wait.warp) for wait in result.waiting})
    waits_for = sorted(kinds) or ["nothing known"]
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


def _explained(
    result: Result, program: Program
) -> tuple[WaitGraph, list[Gate], dict[Gate, list[str]]]:
    """Return the waits, their gates with the root first, and what is told of mbarriers.

    Between gates that explain alike, first those at which an instruction that never
    executed is known to arrive, then those at which nobody arrived in the phase.
    """
    gates = {gate_of(w): w for w in result.waiting if w.kind == "mbarrier" and w.word}
    places = Places(program) if gates else None
    counts: dict[int, int] = {}
    for index, count in zip(program.origin.tolist(), result.counts, strict=True):
        counts[index] = max(counts.get(index, 0), int(count))
    arrivers = {
        gate: places.arrivers(gate.address, counts) if places else [] for gate in gates
    }
    graph = WaitGraph(result, program, arrivers)
    ranks = graph.ranks
    told = {gate: _told_of(graph, gate, arrivers[gate], program) for gate in gates}

    def key(gate: Gate) -> tuple[tuple[int, ...], bool, bool]:
        if gate not in gates:
            return ranks[gate], True, True
        phase = graph.phase(gate)
        surely = any(a.sure and not a.executed for a in arrivers[gate])
        nobody = not arrivers[gate] or phase.pending == phase.expected
        return ranks[gate], not surely, not nobody

    order = sorted(ranks, key=key)
    return graph, order, {gate: told[gate] for gate in order if gate in told}


def _told_of(
    graph: WaitGraph, gate: Gate, arrivers: list[Arriver], program: Program
) -> list[str]:
    """Tell of an mbarrier: its state, then what is missing, then what arrives there."""
    phase = graph.phase(gate)
    came = phase.expected - phase.pending
    where = shared_place(program, gate.address)
    state = f"the mbarrier at {where} has {came} of {phase.expected} arrivals"
    if phase.bytes < 0:
        state += f" and got {-phase.bytes} bytes that no expect-tx announced"
    elif phase.bytes:
        state += f" and waits for {phase.bytes} bytes"
    lines = [state]
    missing = graph.missing(gate)
    lap = graph.lapped(gate)
    if lap and not any(m.fate == "waits" for m in missing):
        wait, known, now = lap
        lines.append(
            f"parity lap: warp {wait.warp} has seen {known} phases end, and {now} have"
        )
    lines += [_lacks(program, each) for each in missing[:_MOST_SITES]]
    lines += [_dropped(program, each) for each in graph.dropped(gate)[:_MOST_SITES]]
    circle = graph.circle(gate)
    if len(circle) > 1:
        around = ", ".join(_gate(program, g) for g in circle[1:])
        lines.append(f"who would arrive there waits, in a circle, for {around}")
    if not arrivers:
        lines.append("no instruction of the kernel arrives there")
    for arriver in arrivers[:_MOST_SITES]:
        does = "arrives there" if arriver.sure else "may arrive there"
        often = f"executed {arriver.executed} times"
        lines.append(
            f"{_spell(site_at(program, arriver.pc, ''))} {does}, "
            + (often if arriver.executed else "never executed")
        )
    return lines


def _lacks(program: Program, missing: Missing) -> str:
    """Say who arrived before and not now."""
    seen = missing.seen
    what = "bytes" if seen.op == abi.MBAR_COMPLETE_TX else "arrivals"
    phases = f"{seen.phases} phase{'s' if seen.phases > 1 else ''}"
    now = (
        f"{seen.amount} of {seen.before} {what}" if seen.last == seen.phase else "none"
    )
    fate = {
        "exited": "it has exited",
        "passed": "it waits where it comes there no more",
        "waits": "it waits before it gets there",
    }[missing.fate]
    return (
        f"missing: {_spell(site_at(program, seen.pc, ''))} of {cta_text(seen.by)} warp "
        f"{seen.warp} came in {phases}, now (phase {seen.phase}) {now}: {fate}"
    )


def _dropped(program: Program, seen: Seen) -> str:
    """Say who has left, so that later phases expect fewer arrivals."""
    return (
        f"{_spell(site_at(program, seen.pc, ''))} of {cta_text(seen.by)} warp "
        f"{seen.warp} took {seen.amount} off the arrivals expected after phase "
        f"{seen.last}"
    )


def _gate(program: Program, gate: Gate) -> str:
    if gate.kind == "mbarrier":
        return f"the mbarrier at {shared_place(program, gate.address)}"
    if gate.kind == "barrier":
        return f"named barrier {gate.address}"
    return gate.kind


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
        ends = any(ins.op == op or ins.op.startswith(f"{op}.") for op in wanted)
        if ends or ("mbarrier" in kinds and arrives(ins)):
            sites.setdefault(int(index), site_at(program, pc, "kernel"))
            if result.counts[pc]:
                ran.add(int(index))
    return [site for index, site in sites.items() if index not in ran]
