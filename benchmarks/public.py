"""The speed goal: flash-attn-4's SM100 forward, unmodified, executed in parity.

One sequence of 256 tokens, 32 heads, head dim 128, no mask. Everything is measured in
a process of its own after the kernel is compiled and lowered: what a call costs, with
operations that land at once (round-robin) and with those that land in a drawn order.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SEEDS = (0, 1)
REPEATS = 5


@dataclass(frozen=True, kw_only=True)
class Speed:
    """One way of running the call.

    Attributes:
        seed: Of the schedule; 0 is round-robin.
        best: Least seconds of a launch.
        median: Of the launches' seconds.
        cpu: Least processor seconds of a whole call, which other work on the machine
            does not lengthen.
        warp_instructions: Of one launch.
        parity: Worst error, in units of the bound.
        peak_mib: Largest resident set of the process so far, in MiB.
    """

    seed: int
    best: float
    median: float
    cpu: float
    warp_instructions: int
    parity: float
    peak_mib: float


def measure() -> list[Speed]:
    """Run the calls in a fresh process bound to one core."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.public"],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent,
    )
    return [Speed(**row) for row in json.loads(done.stdout.splitlines()[-1])]


def show(rows: list[Speed]) -> None:
    """Print the table."""
    print("| schedule | best s | median s | cpu s | M warp instr/s | parity | MiB |")
    print("|---" * 7 + "|")
    for row in rows:
        name = "round-robin" if row.seed == 0 else f"random:{row.seed}"
        rate = row.warp_instructions / row.cpu / 1e6
        print(
            f"| {name} | {row.best:.3f} | {row.median:.3f} | {row.cpu:.3f} "
            f"| {rate:.1f} | {row.parity:.2f} | {row.peak_mib:.0f} |"
        )


def _calls() -> list[Speed]:
    from sidestream.harness.cuda.memory import AllocationTable
    from sidestream.harness.cuda.virtual_cuda import VirtualCuda
    from sidestream.harness.drivers.fa4 import FlashAttention4
    from sidestream.harness.dsl.activation import activate
    from sidestream.harness.exec.machine import Options
    from sidestream.harness.run.phases import Phases
    from sidestream.harness.run.problem import problem_of
    from sidestream.harness.run.virtual_call import VirtualCall
    from sidestream.reference.narrow import BFLOAT16, from_bits
    from sidestream.reference.parity import compare
    from sidestream.reference.tolerance import bound
    from sidestream.scenarios.case import build
    from sidestream.scenarios.scenario import Scenario

    scenario = Scenario(
        name="speed",
        description="The shape that the speed goal names.",
        head_dim=128,
        heads_q=32,
        heads_kv=32,
        lengths_q=(256,),
        lengths_kv=(256,),
        lengths_q_form="prefix",
        lengths_kv_form="prefix",
    )
    device = activate(arch="sm_100a")
    implementation = FlashAttention4()
    problem = problem_of(scenario)
    inputs = build(scenario)
    limits = bound(
        inputs.problem(), dtype=implementation.arithmetic(problem, device.arch)
    )
    phases = Phases(origin=0.0, track="")
    rows = []
    with VirtualCuda(device, AllocationTable()) as world:
        call = VirtualCall(world, inputs, workspace_bytes=0, phases=phases)
        prepared = implementation.prepare(problem, world)

        def run(seed: int) -> tuple[float, float, Any]:
            chip, before = world.chip, phases.seconds.get("execute", 0.0)
            options = Options(seed=seed, sms=chip.sms, max_smem=chip.smem_per_block)
            spent = time.process_time()
            ran = call.execute(
                prepared, label="", pattern="zeros", options=lambda: options
            )
            complaints = (*ran.findings, *ran.incomplete, *filter(None, [ran.error]))
            assert not complaints, complaints[0]
            spent = time.process_time() - spent
            return phases.seconds["execute"] - before, spent, ran

        run(0)  # compiles, parses and lowers
        for seed in SEEDS:
            ran = [run(seed) for _ in range(REPEATS)]
            last = ran[-1][2]
            worst = compare(
                limits, out=from_bits(last.out, BFLOAT16), lse=last.lse
            ).worst
            assert worst <= 1.0, f"parity {worst} under seed {seed}"
            usage = resource.getrusage(resource.RUSAGE_SELF)
            rows.append(
                Speed(
                    seed=seed,
                    best=min(wall for wall, _, _ in ran),
                    median=statistics.median(wall for wall, _, _ in ran),
                    cpu=min(cpu for _, cpu, _ in ran),
                    warp_instructions=last.warp_instructions,
                    parity=worst,
                    peak_mib=usage.ru_maxrss / 1024,
                )
            )
    return rows


if __name__ == "__main__":
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(json.dumps([dataclasses.asdict(row) for row in _calls()]))
