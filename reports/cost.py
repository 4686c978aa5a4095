"""What a kernel costs by the cost model of executed code, as plain data.

Times are in units of the model, one issue slot of a warp each, and no cycles.
`docs/cost-model.md` defines every figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

TILE = 128 * 128
"""Scores of a KV tile: 128 query rows by 128 keys of one head."""


@dataclass(frozen=True, kw_only=True)
class Waits:
    """Waits of one kind.

    Attributes:
        passed: Waits that ended.
        late: Of these, those whose event came after the warp, on the virtual clocks.
        units: How much later, in sum.
    """

    passed: int
    late: int
    units: int


@dataclass(frozen=True, kw_only=True)
class Role:
    """The warps of a CTA that do the same job, over all CTAs of a launch.

    Attributes:
        name: What they do.
        warps: Their numbers in the CTA.
        evidence: The instructions that the name is taken from, with their counts.
        instructions: Warp instructions issued, moves not counted.
        moves: Warp instructions that only name registers, which no chip executes.
        classes: `instructions` by class, the most first.
        waits: By kind of barrier.
        causes: Units waited for, by role or unit that ended the wait.
        chain: Issue slots of these warps in the longest chains of all CTAs.
    """

    name: str
    warps: tuple[int, ...]
    evidence: str
    instructions: int
    moves: int
    classes: Mapping[str, int]
    waits: Mapping[str, Waits]
    causes: Mapping[str, int]
    chain: int


@dataclass(frozen=True, kw_only=True)
class LaunchCost:
    """What one launch costs.

    Attributes:
        kernel: Entry.
        roles: The roles of its warps.
        ctas: CTAs that ran.
        area: Scores that the tensor cores computed: flops over 2 (d_qk + d_v); 0 for
            a kernel that multiplies no matrices.
        live_area: Scores of the problem that no mask or length removes.
        flops: Of the tensor cores.
        bytes: Moved, by way: `tma load` as asked for, `tma delivered` to shared
            memory (more with multicast), `tma store`, `cp.async`, `global load`,
            `global store`, `remote`.
        chain: Longest dependency chain of each CTA, in sum.
        longest: The longest of one CTA.
        chain_units: The part of `chain` that is spent in units beside the warps.
        busy: Units of time that the resources of a multiprocessor need for the
            launch, in sum over its CTAs: `issue`, `special`, `tensor`, `load`,
            `store`.
    """

    kernel: str
    roles: tuple[Role, ...]
    ctas: int
    area: float
    live_area: int
    flops: int
    bytes: Mapping[str, int]
    chain: int
    longest: int
    chain_units: Mapping[str, int]
    busy: Mapping[str, float]

    @property
    def tiles(self) -> float:
        """KV tiles that the tensor cores computed."""
        return self.area / TILE

    @property
    def live_tiles(self) -> float:
        """KV tiles that the problem needs at least."""
        return self.live_area / TILE

    def per_tile(self, value: float) -> float | None:
        """Return a figure per computed KV tile; None if there is none."""
        return value / self.tiles if self.area else None


def document(cost: LaunchCost) -> dict[str, Any]:
    """Return the cost as JSON values, with its figures per KV tile."""
    values = asdict(cost)
    values["tiles"] = round(cost.tiles, 6)
    values["live_tiles"] = round(cost.live_tiles, 6)
    values["per_tile"] = _per_tile(cost)
    return values


def _per_tile(cost: LaunchCost) -> dict[str, Any] | None:
    if not cost.area:
        return None

    def each(values: Mapping[str, float]) -> dict[str, float]:
        return {name: round(value / cost.tiles, 4) for name, value in values.items()}

    return {
        "instructions": each({r.name: r.instructions for r in cost.roles}),
        "moves": each({r.name: r.moves for r in cost.roles}),
        "waits": each(
            {r.name: sum(w.passed for w in r.waits.values()) for r in cost.roles}
        ),
        "late_waits": each(
            {r.name: sum(w.late for w in r.waits.values()) for r in cost.roles}
        ),
        "flops": round(cost.flops / cost.tiles, 4),
        "bytes": each(cost.bytes),
        "chain": round(cost.chain / cost.tiles, 4),
        "chain_by": each(
            {r.name: r.chain for r in cost.roles} | dict(cost.chain_units)
        ),
        "busy": each(cost.busy),
    }


def parse(raw: Any) -> LaunchCost:
    """Build a cost from JSON values.

    Raises:
        KeyError: a field is missing.
        TypeError: a value is of another type.
    """
    values = {f.name: raw[f.name] for f in fields(LaunchCost)}
    values["roles"] = tuple(_role(role) for role in values["roles"])
    return LaunchCost(**values)


def _role(raw: Any) -> Role:
    values = {f.name: raw[f.name] for f in fields(Role)}
    values["warps"] = tuple(int(w) for w in values["warps"])
    values["waits"] = {kind: Waits(**w) for kind, w in values["waits"].items()}
    return Role(**values)
