"""What looking for races costs: the same call with detection off and on, in one run.

One sequence of 256 tokens, 32 heads, head dim 128, no mask: the shape for which figures
of other checkers are published. A call is timed by the processor seconds of executing
its launches, after everything is compiled and lowered; off and on take turns, so that
what else the machine does meets both.
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CALLS = (("fa4", "sm_100a"), ("sidestream", "sm_100a"), ("sidestream", "sm_120a"))
"""Implementations and targets."""
REPEATS = 9


@dataclass(frozen=True, kw_only=True)
class Overhead:
    """One implementation's call, watched and not.

    Attributes:
        impl: Implementation.
        arch: PTX target.
        plain: Least processor seconds of a call without detection.
        watched: The same with it.
        ratio: Median of watched over plain, of calls next to each other.
        both: Least wall seconds of a watched call while a second process makes the
            same calls on another core; 0 with one core.
        shadow: Bytes that the detector holds at the end; it gives none of its shadow
            memory back before.
        touched: Bytes of shared, tensor and global memory that the launches access.
        warp_instructions: Of a call.
    """

    impl: str
    arch: str
    plain: float
    watched: float
    ratio: float
    both: float
    shadow: int
    touched: int
    warp_instructions: int


def measure() -> list[Overhead]:
    """Measure every call in processes of their own, each bound to one core."""
    rows = []
    cores = sorted(os.sched_getaffinity(0))
    for impl, arch in CALLS:
        (alone,) = _processes(impl, arch, cores[:1])
        pair = _processes(impl, arch, cores[:2]) if len(cores) > 1 else []
        both = max((row["wall"] for row in pair), default=0.0)
        del alone["wall"]
        rows.append(Overhead(impl=impl, arch=arch, both=both, **alone))
    return rows


def _processes(impl: str, arch: str, cores: Sequence[int]) -> list[dict[str, Any]]:
    started = [
        subprocess.Popen(
            [
                *(sys.executable, "-W", "ignore", "-m", "benchmarks.races"),
                *(impl, arch, str(core)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent.parent,
        )
        for core in cores
    ]
    rows = []
    for process in started:
        out, err = process.communicate()
        if process.returncode:
            raise RuntimeError(f"{impl} for {arch}: {err.strip().splitlines()[-1]}")
        rows.append(json.loads(out.splitlines()[-1]))
    return rows


def show(rows: list[Overhead]) -> None:
    """Print the table."""
    print("| call | plain s | watched s | ratio | two at once s | shadow / byte |")
    print("|---" * 6 + "|")
    for row in rows:
        print(
            f"| {row.impl}, {row.arch} | {row.plain:.3f} | {row.watched:.3f} "
            f"| {row.ratio:.1f} | {row.both:.3f} | {row.shadow / row.touched:.1f} |"
        )


class _Heap(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def _allocated() -> int:
    """Bytes that the process holds from malloc."""
    heap = ctypes.CDLL(None).mallinfo2
    heap.restype = _Heap
    now = heap()
    return int(now.uordblks + now.hblkhd)


def _call(impl: str, arch: str) -> dict[str, Any]:
    from sidestream.harness.cuda.memory import AllocationTable
    from sidestream.harness.cuda.virtual_cuda import VirtualCuda
    from sidestream.harness.device.programs import CACHE
    from sidestream.harness.device.vgpu import run_launch
    from sidestream.harness.drivers.registry import driver
    from sidestream.harness.dsl.activation import activate
    from sidestream.harness.exec.machine import Options, execute
    from sidestream.harness.race.watcher import Watcher
    from sidestream.harness.run.phases import Phases
    from sidestream.harness.run.problem import problem_of
    from sidestream.harness.run.virtual_call import VirtualCall
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
    device = activate(arch=arch)
    with VirtualCuda(device, AllocationTable()) as world:
        prepared = driver(impl).prepare(problem_of(scenario), world)
        call = VirtualCall(
            world,
            build(scenario),
            workspace_bytes=prepared.workspace_bytes,
            phases=Phases(origin=0.0, track=""),
        )
        launches, table = call.launches(prepared), world.table
        options = Options(sms=world.chip.sms, max_smem=world.chip.smem_per_block)
        before = table.snapshot()

        def run(profile: str | None) -> tuple[float, float, int]:
            table.restore(before)
            wall, spent, executed = time.perf_counter(), time.process_time(), 0
            for launch in launches:
                ran = run_launch(launch, table, options, profile=profile)
                assert ran.finished, ran.incomplete
                assert not ran.findings, ran.findings[0]
                assert not ran.incomplete, ran.incomplete[0]
                executed += ran.warp_instructions
            return time.perf_counter() - wall, time.process_time() - spent, executed

        for profile in (None, "practice"):  # parses, lowers and builds
            run(profile)
        pairs = [(run(None), run("practice")) for _ in range(REPEATS)]
        table.restore(before)
        shadow = touched = 0
        for launch in launches:
            program = CACHE.get(launch, table).program
            with Watcher(program) as watcher:
                held = _allocated()
                execute(program, launch, table.entries(), options, None, watcher)
                shadow += _allocated() - held
                touched += watcher.touched
    return {
        "plain": min(plain[1] for plain, _ in pairs),
        "watched": min(watched[1] for _, watched in pairs),
        "ratio": statistics.median(w[1] / p[1] for p, w in pairs),
        "wall": min(watched[0] for _, watched in pairs),
        "shadow": shadow,
        "touched": touched,
        "warp_instructions": pairs[0][0][2],
    }


if __name__ == "__main__":
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(sys.argv[3])})
    print(json.dumps(_call(*sys.argv[1:3])))
