"""One call under many schedules, in a process of its own: CuTe DSL keeps one target."""

from __future__ import annotations

import hashlib
import multiprocessing
from dataclasses import dataclass

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.drivers.registry import driver
from sidestream.harness.dsl.activation import activate
from sidestream.harness.exec.machine import Options
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.problem import problem_of
from sidestream.harness.run.virtual_call import VirtualCall
from sidestream.scenarios import catalogue
from sidestream.scenarios.case import build

ARCH = "sm_100a"


@dataclass(frozen=True, kw_only=True)
class Seeded:
    """What one schedule gave.

    Attributes:
        seed: Of the scheduler; 0 is round-robin.
        out: Digest of the bits of O in live rows.
        lse: Digest of those of LSE.
        complaints: Findings, and what could not be judged.
        kernels: Entries that were launched, in order.
    """

    seed: int
    out: str
    lse: str
    complaints: tuple[str, ...]
    kernels: tuple[str, ...]


def seeded(impl: str, scenario: str, seeds: int) -> list[Seeded]:
    """Run a scenario under the schedules 0 to `seeds` - 1 in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_run, (impl, scenario, seeds))


def _run(impl: str, name: str, seeds: int) -> list[Seeded]:
    device = activate(arch=ARCH)
    scenario = catalogue.by_name(name)
    inputs = build(scenario)
    with VirtualCuda(device, AllocationTable()) as world:
        prepared = driver(impl).prepare(problem_of(scenario), world)
        call = VirtualCall(
            world,
            inputs,
            workspace_bytes=prepared.workspace_bytes,
            phases=Phases(origin=0.0, track=""),
        )
        return [_one(call, prepared, inputs.live, seed) for seed in range(seeds)]


def _one(call, prepared, live, seed):
    def options():
        chip = call.world.chip
        return Options(seed=seed, sms=chip.sms, max_smem=chip.smem_per_block)

    run = call.execute(prepared, label="", pattern="canary", options=options)
    complaints = [f"{f.kind}: {f.message}" for f in run.findings]
    complaints += [i.reason for i in run.incomplete]
    if run.error:
        complaints.append(run.error)
    return Seeded(
        seed=seed,
        out=_digest(run.out[live]),
        lse=_digest(run.lse[live]),
        complaints=tuple(complaints),
        kernels=tuple(launch.kernel for launch in run.launches),
    )


def _digest(bits):
    return hashlib.sha256(bits.tobytes()).hexdigest()
