"""What the drivers show on SM100, from a process of its own: one has one target."""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass

import numpy as np
from test_driver import Call, problem

from sidestream.harness.cuda.host_sync import HostLog
from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.device.vgpu import run_launch
from sidestream.harness.drivers.registry import driver
from sidestream.harness.dsl.activation import activate
from sidestream.harness.dsl.capture import Capture
from sidestream.harness.exec.machine import Options

ARCH = "sm_100a"
STREAM = 7
FLOAT8 = {"dtype": "float8_e4m3fn", "head_dim": 128}


def apart(function, *args):
    """Call a function of this module in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, args)


def reasons(asked):
    """Return why each (implementation, changes) of a list is declined, or None."""
    activate(arch=ARCH)
    return [driver(name).supports(problem(**changes), ARCH) for name, changes in asked]


@dataclass(frozen=True)
class Shown:
    """One call of cuDNN frontend's E4M3 forward.

    Attributes:
        launches: (entry, grid, block, cluster, parameters) each.
        metadata: int32 words of the workspace after the first launch.
        events: (kind, operation, detail, stream) of the host in a second call.
    """

    launches: list
    metadata: np.ndarray
    events: list


def float8(changes):
    """Drive the E4M3 forward and execute its first launch."""
    device = activate(arch=ARCH)
    with VirtualCuda(device, AllocationTable(), stream=STREAM) as world:
        p = problem(**FLOAT8, **changes)
        prepared = driver("cudnn").prepare(p, world)
        call = Call(world, p)
        scratch = call.workspace(world, prepared.workspace_bytes)
        launches = []
        with Capture(launches.append):
            prepared.execute(call.tensors, scratch)
        log = HostLog(table=world.table)
        with Capture(lambda launch: None, log.block), log:
            prepared.execute(call.tensors, scratch)
        chip = world.chip
        outcome = run_launch(
            launches[0],
            world.table,
            Options(sms=chip.sms, max_smem=chip.smem_per_block),
        )
        assert outcome.finished
        assert not outcome.findings
        home = world.table.at(scratch.data_ptr())
        words = home.data[: home.size // 4 * 4].view(np.int32).copy()
    shown = [(x.kernel, x.grid, x.block, x.cluster, len(x.params)) for x in launches]
    events = [(e.kind, e.operation, e.detail, e.stream) for e in log.events]
    return Shown(launches=shown, metadata=words, events=events)
