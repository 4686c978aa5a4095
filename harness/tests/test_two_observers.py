"""One launch watched by the race detector and by the cost model at once."""

import dataclasses

import numpy as np
import pytest
from device_case import launch_of, text_of

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device.vgpu import watch_launch
from sidestream.harness.exec.cost import CostTable
from sidestream.harness.exec.machine import Options

# Each warp writes a word a lane and reads those of the other: the race is in the middle
# of barriers, whose waits the cost model counts.
BODY = """
shl.b32 %r1, %r0, 2;
mov.u32 %r2, words;
add.u32 %r3, %r2, %r1;
bar.sync 0;
st.shared.u32 [%r3], %r0;
xor.b32 %r4, %r1, 128;
add.u32 %r4, %r2, %r4;
ld.shared.u32 %r5, [%r4];
bar.sync 0;
"""
TEXT = text_of(BODY, declare=".shared .align 16 .b8 words[256];")


def watched(seed: int, *, races: bool, costs: bool):
    table = AllocationTable()
    buffer = table.allocate(256, "out", fill=b"\0")
    launch = launch_of(TEXT, buffer.va, threads=64, grid=3)
    options = Options(seed=seed, sms=2, cost=CostTable() if costs else None)
    done = watch_launch(
        launch, table, options, profile="practice" if races else None
    ).outcome
    assert done.finished
    return done, buffer.data.copy()


def counted(outcome) -> str:
    costs = dataclasses.asdict(outcome.counted[1].costs)
    return str({k: v.tolist() if hasattr(v, "tolist") else v for k, v in costs.items()})


@pytest.mark.parametrize("seed", [0, 5])
def test_each_sees_what_it_sees_alone(seed: int):
    both, memory = watched(seed, races=True, costs=True)
    raced, _ = watched(seed, races=True, costs=False)
    costed, _ = watched(seed, races=False, costs=True)
    plain, untouched = watched(seed, races=False, costs=False)
    assert {f.kind for f in both.findings} == {"smem-race"}
    assert both.findings == raced.findings
    assert not costed.findings
    assert counted(both) == counted(costed)
    assert both.counted[1].costs.waits[0].passed["barrier"] == 6
    assert np.array_equal(memory, untouched)
    assert both.warp_instructions == plain.warp_instructions
