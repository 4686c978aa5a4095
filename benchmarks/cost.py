"""What ours, FA4's and cuDNN's kernel cost on the same problem, by the cost model.

Each implementation runs in a process of its own, since one drives one chip; every run
is judged as `sidestream check` does it, so that the figures are of a correct kernel.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sidestream.harness.finding import Verdict
from sidestream.kernels.spec import LARGEST_HEAD_DIM, LARGEST_NARROW_HEAD_DIM
from sidestream.reports import cost_text
from sidestream.reports.cost import LaunchCost, document, parse
from sidestream.scenarios.catalogue_wide import SHAPES
from sidestream.scenarios.declaration import FLOAT8
from sidestream.scenarios.scenario import Scenario

KERNELS = {
    "sm_100a": {"sidestream": "sm100", "fa4": "sm100", "cudnn": "sm100"},
    "sm_120a": {"sidestream": "sm120", "fa4": "sm120", "cudnn": "sm120"},
}
PROBLEMS = (
    Scenario(
        name="dense",
        description="one sequence of 1024 tokens, nothing masked",
        head_dim=128,
        heads_q=2,
        heads_kv=2,
        lengths_q=(1024,),
        lengths_kv=(1024,),
    ),
    Scenario(
        name="unequal",
        description="eight sequences of very unequal lengths, causal, grouped heads",
        head_dim=128,
        heads_q=2,
        heads_kv=1,
        causal="bottom_right",
        lengths_q=(700, 5, 0, 300, 1, 129, 64, 257),
        lengths_kv=(700, 5, 0, 300, 1, 129, 64, 257),
    ),
)
D64 = {"d64": {"head_dim": 64}}
OTHER_PROBLEMS = tuple(
    replace(
        problem,
        name=f"{problem.name}-{shape}",
        description=f"{problem.description}, {shape}",
        **dims,
    )
    for shape, dims in (D64 | SHAPES).items()
    for problem in PROBLEMS
)
"""The same at other head dims; a target takes those that our kernels serve."""
NARROW_PROBLEMS = tuple(
    replace(
        problem,
        name=f"{problem.name}-fp8-{shape}",
        description=f"{problem.description}, E4M3, {shape}",
        dtype=FLOAT8,
        descales=(0.75, 1.25, 0.5),
        **dims,
    )
    for shape, dims in (D64 | {"d128": {"head_dim": 128}} | SHAPES).items()
    for problem in PROBLEMS
)
"""The same with one-byte inputs. FA4's kernel takes no factors, and is given none."""
SCALED_PROBLEMS = tuple(
    replace(
        problem,
        name=f"{problem.name}-mxfp8-d128",
        description=f"{problem.description}, E4M3 with a scale for every 32 elements",
        dtype=FLOAT8,
        block_scaled=True,
    )
    for problem in PROBLEMS
)
"""The same with scales of blocks, which one target serves."""
OURS = "sidestream"
ROLES = (
    *("softmax", "correction", "mma", "consumer", "whole"),
    *("load", "epilogue", "scheduler", "idle"),
)
"""Roles of a kernel, as the cost model tells them apart."""
SOFTMAX_ROLES = ("softmax", "consumer", "whole")
"""The role that takes the exponentials, by kind of kernel."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One implementation on one problem.

    Attributes:
        impl: Implementation.
        arch: PTX target.
        problem: Name of the problem.
        verdict: Of all checks on the run.
        reason: Why it was not measured, or empty.
        launches: What the launches cost.
    """

    impl: str
    arch: str
    problem: str
    verdict: str
    reason: str = ""
    launches: tuple[LaunchCost, ...] = ()

    @property
    def attention(self) -> LaunchCost | None:
        """The launch that multiplies the most."""
        busy = [cost for cost in self.launches if cost.area]
        return max(busy, key=lambda cost: cost.area, default=None)


def problems(arch: str) -> tuple[Scenario, ...]:
    """Return what is measured on a target."""
    largest, narrow = LARGEST_HEAD_DIM[arch], LARGEST_NARROW_HEAD_DIM[arch]
    return (
        *PROBLEMS,
        *(p for p in OTHER_PROBLEMS if p.head_dim <= largest),
        *(p for p in NARROW_PROBLEMS if p.head_dim <= narrow),
        *(SCALED_PROBLEMS if arch == "sm_100a" else ()),
    )


def measure(arch: str, impls: Sequence[str] = ()) -> Iterator[Measured]:
    """Measure every problem with every implementation that has a kernel for `arch`."""
    for impl in impls or KERNELS[arch]:
        for problem in problems(arch):
            yield _apart(impl, arch, problem.name)


def _apart(impl: str, arch: str, problem: str) -> Measured:
    """Measure in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cost", impl, arch, problem],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return Measured(
            impl=impl, arch=arch, problem=problem, verdict="incomplete", reason=reason
        )
    raw = json.loads(lines[-1])
    return Measured(
        impl=impl,
        arch=arch,
        problem=problem,
        verdict=raw["verdict"],
        reason=raw["reason"],
        launches=tuple(parse(launch) for launch in raw["launches"]),
    )


def _here(impl: str, arch: str, problem: str) -> dict[str, Any]:
    from sidestream.harness.run.bench import Bench
    from sidestream.harness.run.case import run_case
    from sidestream.harness.run.settings import Settings

    scenario = next(p for p in problems(arch) if p.name == problem)
    settings = Settings(
        impl=impl,
        kernel=KERNELS[arch][impl],
        arch=arch,
        stats=True,
        # Counting needs none, and some of these kernels are kept unseen by the check.
        races=scenario in PROBLEMS,
        deadline=1200.0,
    )
    if impl == "fa4":
        scenario = replace(scenario, descales=None)
    outcome = run_case(Bench(settings=settings), scenario)
    reasons = [entry.reason for entry in outcome.incomplete]
    reasons += [finding.message for finding in outcome.findings]
    return {
        "verdict": outcome.case.verdict.label,
        "reason": reasons[0] if reasons else "",
        "launches": [document(launch) for launch in outcome.case.cost],
    }


def figures(cost: LaunchCost) -> dict[str, float]:
    """Return the figures that are compared, per KV tile.

    The role that takes the exponentials has one name here, whatever the kernel's kind.
    """
    roles = {role.name: role for role in cost.roles}
    soft = next((roles[name] for name in SOFTMAX_ROLES if name in roles), None)
    tiles = cost.tiles
    copied = sum(cost.bytes.get(way, 0) for way in ("tma delivered", "cp.async"))
    rows = (
        {"computed / live tiles": cost.area / cost.live_area} if cost.live_area else {}
    )
    if soft is not None:
        rows["warp instr, softmax"] = soft.instructions / tiles
    for name in ROLES:
        if name in roles and roles[name] is not soft:
            rows[f"warp instr, {name}"] = roles[name].instructions / tiles
    rows |= {
        "warp instr, all": sum(r.instructions for r in cost.roles) / tiles,
        "moves, softmax": soft.moves / tiles if soft else 0.0,
        "tensor flops": cost.flops / tiles,
        "TMA load bytes asked for": cost.bytes.get("tma load", 0) / tiles,
        "bytes put into shared": copied / tiles,
        "barrier waits": _waits(cost, "passed") / tiles,
        "late waits": _waits(cost, "late") / tiles,
        "longest chain": cost.chain / tiles,
    }
    rows |= {f"busy: {name}": value / tiles for name, value in cost.busy.items()}
    return rows


def _waits(cost: LaunchCost, what: str) -> int:
    return sum(getattr(w, what) for role in cost.roles for w in role.waits.values())


def show(arch: str, rows: Sequence[Measured]) -> None:
    """Print a table for each problem, then the roles of every kernel."""
    for problem in problems(arch):
        mine = [row for row in rows if row.problem == problem.name]
        print(f"\n### {arch}, {problem.name}: {problem.description}\n")
        for row in mine:
            if row.verdict != Verdict.CLEAN.label:
                print(f"{row.impl}: {row.verdict}: {row.reason}")
        found = {r.impl: figures(r.attention) for r in mine if r.attention}
        if not found:
            continue
        print(f"| per KV tile | {' | '.join(found)} | ours / the better |")
        print("|---" * (len(found) + 2) + "|")
        # In the order of whoever has most of them: not every kernel has every role.
        names = dict.fromkeys(
            name for values in sorted(found.values(), key=len)[::-1] for name in values
        )
        for name in names:
            cells = [spell(v[name]) if name in v else "" for v in found.values()]
            print(f"| {name} | {' | '.join(cells)} | {_ratio(found, name)} |")
        print("\n```")
        for row in mine:
            if row.attention:
                print(f"{row.impl}, {row.verdict}")
                print("\n".join(cost_text.lines(row.launches)))
        print("```", flush=True)


def _ratio(found: Mapping[str, Mapping[str, float]], name: str) -> str:
    """Spell ours over the least of the others, where both have the figure."""
    others = [v[name] for impl, v in found.items() if impl != OURS and v.get(name)]
    ours = found.get(OURS, {}).get(name)
    return f"{ours / min(others):.2f}" if ours is not None and others else ""


def spell(value: float) -> str:
    """Spell a figure of a table."""
    return f"{value:,.0f}" if value >= 1000 else cost_text.number(value)


def main() -> None:
    """Measure one implementation and print it as JSON, for `_apart`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("impl")
    parser.add_argument("arch", choices=KERNELS)
    names = {problem.name for arch in KERNELS for problem in problems(arch)}
    parser.add_argument("problem", choices=sorted(names))
    chosen = parser.parse_args()
    print(json.dumps(_here(chosen.impl, chosen.arch, chosen.problem)))


if __name__ == "__main__":
    main()
