"""What the detector takes for what a launch touches."""

import pytest
from device_case import launch_of, text_of

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device.programs import CACHE
from sidestream.harness.exec.machine import Options, execute
from sidestream.harness.race.watcher import Watcher

DECLARE = ".shared .align 1024 .b8 tile[4096];\n.shared .align 8 .b64 bar;"
LANES = """
mov.u32 %r1, tile;
shl.b32 %r2, %r0, 4;
add.u32 %r1, %r1, %r2;
st.shared.v4.b32 [%r1], {%r0, %r0, %r0, %r0};
ld.shared.b32 %r3, [%r1];
"""
COPY = """
mov.u32 %r1, tile;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra END;
cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r1], 2048;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
END:
"""


@pytest.mark.parametrize(
    ("body", "touched"),
    [(LANES, 32 * 16), (COPY, 2 * 2048), (LANES + COPY, 2 * 2048)],
)
def test_bytes_that_are_touched_count_once(body, touched):
    table = AllocationTable()
    buffer = table.allocate(4096, "buf", fill=b"\0")
    launch = launch_of(text_of(body, declare=DECLARE), buffer.va)
    program = CACHE.get(launch, table).program
    with Watcher(program) as watcher:
        ran = execute(program, launch, table.entries(), Options(), None, watcher)
        assert (ran.status, ran.faults) == ("done", ())
        assert watcher.touched == touched
