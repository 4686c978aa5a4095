"""The cost of launches as text: per role, and per resource."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sidestream.reports.cost import LaunchCost, Role

HEADINGS = ("role", "warps", "instr", "moves", "waits", "late", "waited", "chain")
_FEWEST_SHARE = 0.01
_NAME = 60


def lines(costs: Sequence[LaunchCost]) -> list[str]:
    """Return one block for each launch; figures are per KV tile where there are any."""
    out: list[str] = []
    for cost in costs:
        out += _launch(cost)
    return out


def _launch(cost: LaunchCost) -> list[str]:
    name = short_name(cost.kernel)
    ctas = f"{cost.ctas} CTA" + ("s" if cost.ctas != 1 else "")
    if not cost.area:
        issued = sum(role.instructions for role in cost.roles)
        return [
            f"{name}: {ctas}, {issued} warp instructions, longest chain {cost.longest}"
        ]
    head = (
        f"{name}: {ctas}, {number(cost.tiles)} KV tiles computed, "
        f"{number(cost.live_tiles)} live; per tile:"
    )
    rows = [(*HEADINGS, "waits for"), *(role_row(r, cost) for r in cost.roles)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(HEADINGS))]
    table = [
        "  "
        + "  ".join(
            cell.ljust(w) if k < 2 else cell.rjust(w)
            for k, (cell, w) in enumerate(zip(row, widths, strict=False))
        )
        + f"  {row[-1]}"
        for row in rows
    ]
    chain = number(cost.chain / cost.tiles)
    return [
        head,
        *(line.rstrip() for line in table),
        f"  chain {chain} units: {chain_parts(cost)}",
        f"  busy units: {each(cost.busy, cost.tiles)}",
        f"  flops {cost.flops / cost.tiles:.4g}; bytes: {each(cost.bytes, cost.tiles)}",
    ]


def role_row(role: Role, cost: LaunchCost) -> tuple[str, ...]:
    """Return the cells of a role under `HEADINGS`, and what it waits for."""
    waits = role.waits.values()
    values = (
        role.instructions,
        role.moves,
        sum(w.passed for w in waits),
        sum(w.late for w in waits),
        sum(w.units for w in waits),
        role.chain,
    )
    cells = (number(value / cost.tiles) for value in values)
    return (role.name, ranges(role.warps), *cells, shares(role.causes))


def chain_parts(cost: LaunchCost) -> str:
    """Spell what the chain of a tile consists of, the longest first."""
    parts = {f"{r.name} issue": r.chain for r in cost.roles} | dict(cost.chain_units)
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(
        f"{name} {number(value / cost.tiles)}"
        for name, value in ordered
        if value >= _FEWEST_SHARE * cost.chain
    )


def each(values: Mapping[str, float], tiles: float) -> str:
    """Spell figures per tile."""
    return ", ".join(f"{name} {number(v / tiles)}" for name, v in values.items())


def shares(causes: Mapping[str, int]) -> str:
    """Spell who ended the waits, in parts of what was waited."""
    total = sum(causes.values())
    return ", ".join(
        f"{name} {units / total:.0%}"
        for name, units in causes.items()
        if units >= _FEWEST_SHARE * total
    )


def number(value: float) -> str:
    """Spell a figure with a decimal where it is small."""
    return f"{value:.0f}" if abs(value) >= 100 or value == 0 else f"{value:.3g}"


def ranges(numbers: Iterable[int]) -> str:
    """Spell numbers in ascending order as ranges: `0-3, 8`."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][-1] + 1:
            parts[-1][1:] = [n]
        else:
            parts.append([n])
    return ", ".join("-".join(map(str, part)) for part in parts)


def short_name(kernel: str) -> str:
    """Cut a mangled name."""
    return kernel if len(kernel) <= _NAME else f"{kernel[: _NAME - 3]}..."
