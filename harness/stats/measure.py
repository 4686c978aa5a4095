"""What a launch costs, from what the core counted while it was executed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sidestream.harness.exec.cost import (
    UNITS,
    WARPS,
    Costs,
    CostTable,
    Path,
    main_rows,
    mma_flops,
    registers_moved,
)
from sidestream.harness.exec.program import Program
from sidestream.harness.exec.result import Result
from sidestream.harness.ptx import ir
from sidestream.harness.stats import classes, roles
from sidestream.reports.cost import LaunchCost, Role, Waits

PARTITIONS = 4
"""A multiprocessor issues for warps w, w + 4, ... of a CTA from one scheduler."""
SPECIAL_UNITS = 8
"""Issue slots for which a special function keeps its unit: 32 lanes, 4 a clock."""
_BYTES_OF = {
    classes.BULK_LOAD: "tma load",
    classes.BULK_STORE: "tma store",
    classes.CP_ASYNC: "cp.async",
    "remote": "remote",
}


def measure(
    program: Program,
    result: Result,
    table: CostTable,
    *,
    head_dims: tuple[int, int],
    live_area: int,
) -> LaunchCost:
    """Sum a launch up by role and resource.

    Args:
        program: What was executed.
        result: With `costs`.
        table: The parameters it was executed with.
        head_dims: Of Q and K, and of V.
        live_area: Scores of the problem that no mask or length removes.

    Raises:
        ValueError: the launch was executed without the cost model.
    """
    costs = result.costs
    if costs is None:
        raise ValueError("the launch was executed without the cost model")
    kinds = _kinds(program)
    counts = _by_class(costs.rows, kinds)
    moved = _registers(program, costs.rows, kinds)
    found = [
        _role(job, counts, costs.chain, costs) for job in roles.jobs(counts, moved)
    ]
    owner = {warp: role.name for role in found for warp in role.warps}
    flops, bytes_moved = _work(program, costs, result.counts, kinds)
    if "tma load" in bytes_moved:
        # A multicast asks once and delivers to several CTAs.
        arrived = result.tma_bytes - bytes_moved.get("tma store", 0)
        bytes_moved |= {"tma delivered": arrived}
    return LaunchCost(
        kernel=program.function.name,
        roles=tuple(_with_causes(role, costs, owner) for role in found),
        ctas=costs.ctas,
        area=flops / (2 * sum(head_dims)),
        live_area=live_area,
        flops=flops,
        bytes=bytes_moved,
        chain=costs.chain.length,
        longest=costs.longest.length,
        chain_units={u: costs.chain.units[u] for u in UNITS if costs.chain.units[u]},
        busy=_busy(counts, flops, bytes_moved, table, tensor_memory=any(moved)),
    )


def _kinds(program: Program) -> dict[int, tuple[str, ir.Instruction]]:
    """Class and PTX instruction of every row that stands for one."""
    kinds = {}
    for row in np.flatnonzero(main_rows(program)).tolist():
        ins = program.instruction(row)
        if ins is not None:
            kinds[row] = (classes.class_of(ins), ins)
    return kinds


def _by_class(
    rows: NDArray[np.uint64], kinds: Mapping[int, tuple[str, ir.Instruction]]
) -> list[Counter[str]]:
    counts: list[Counter[str]] = [Counter() for _ in range(len(rows))]
    for row, (kind, _) in kinds.items():
        for warp in np.flatnonzero(rows[:, row]).tolist():
            counts[warp][kind] += int(rows[warp, row])
    return counts


def _registers(
    program: Program,
    rows: NDArray[np.uint64],
    kinds: Mapping[int, tuple[str, ir.Instruction]],
) -> list[int]:
    """By warp, registers of a lane that were loaded from tensor memory."""
    loaded = np.zeros(len(rows), np.int64)
    for row, (kind, ins) in kinds.items():
        if kind == classes.TMEM_LOAD:
            loaded += rows[:, row].astype(np.int64) * registers_moved(ins)
    return [int(n) for n in loaded]


def _role(
    job: roles.Job, counts: list[Counter[str]], chain: Path, costs: Costs
) -> Role:
    total: Counter[str] = Counter()
    for warp in job.warps:
        total.update(counts[warp])
    moves = total.pop(classes.MOVE, 0)
    kinds = costs.waits[0].passed if costs.waits else {}
    waits = {
        kind: Waits(
            passed=sum(costs.waits[w].passed[kind] for w in job.warps),
            late=sum(costs.waits[w].late[kind] for w in job.warps),
            units=sum(costs.waits[w].units[kind] for w in job.warps),
        )
        for kind in kinds
    }
    spelled = ", ".join(f"{kind} {n}" for kind, n in job.evidence.items())
    return Role(
        name=job.name,
        warps=job.warps,
        evidence=spelled or "none of the telling instructions",
        instructions=sum(total.values()),
        moves=moves,
        classes=dict(total.most_common()),
        waits={kind: w for kind, w in waits.items() if w.passed},
        causes={},
        chain=sum(int(chain.warps[w]) for w in job.warps),
    )


def _with_causes(role: Role, costs: Costs, owner: Mapping[int, str]) -> Role:
    """Name who ended the waits: a unit, or the role of a warp."""
    names = {f"warp {w}": owner.get(w, f"warp {w}") for w in range(WARPS)}
    causes: Counter[str] = Counter()
    for warp in role.warps:
        for cause, units in costs.waits[warp].causes.items():
            causes[names.get(cause, cause)] += units
    values = {f: getattr(role, f) for f in role.__dataclass_fields__}
    return Role(**values | {"causes": dict(causes.most_common())})


def _work(
    program: Program,
    costs: Costs,
    executed: NDArray[np.uint64],
    kinds: Mapping[int, tuple[str, ir.Instruction]],
) -> tuple[int, dict[str, int]]:
    """Flops of the tensor cores, and bytes by the way they took."""
    flops, moved = 0, Counter[str]()
    for row, (kind, ins) in kinds.items():
        if kind == classes.MMA:
            flops += int(costs.work[row]) + int(executed[row]) * mma_flops(ins)
        elif kind in _BYTES_OF:
            moved[_BYTES_OF[kind]] += int(costs.work[row])
        elif kind in (classes.GLOBAL_LOAD, classes.GLOBAL_STORE):
            moved[kind] += int(costs.lanes[row]) * access_bytes(ins)
    return flops, {way: n for way, n in moved.items() if n}


def access_bytes(ins: ir.Instruction) -> int:
    """Bytes that a lane reads or writes with a load or store."""
    digits = "".join(c for c in ins.mods["type"] if c.isdigit())
    return int(digits) // 8 * int(ins.mods.get("vec", "v1")[1:])


def _busy(
    counts: list[Counter[str]],
    flops: int,
    moved: Mapping[str, int],
    table: CostTable,
    *,
    tensor_memory: bool,
) -> dict[str, float]:
    """Units of time for which each resource of a multiprocessor is needed."""

    def busiest(values: list[int]) -> int:
        return max(sum(values[p::PARTITIONS]) for p in range(PARTITIONS))

    units = table.units
    rate = units["tcgen05"].rate if tensor_memory else 4 * units["mma.sync"].rate
    loaded = moved.get("tma delivered", 0) + moved.get("cp.async", 0)
    stored = moved.get("tma store", 0) + moved.get("global store", 0)
    return {
        "issue": busiest([sum(c.values()) - c[classes.MOVE] for c in counts]),
        "special": SPECIAL_UNITS * busiest([c[classes.SPECIAL] for c in counts]),
        "tensor": flops / rate,
        "load": (loaded + moved.get("global load", 0)) / units["tma load"].rate,
        "store": stored / units["tma store"].rate,
    }
