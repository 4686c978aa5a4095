"""Every pair of places that race is kept, however many there are."""

import pytest

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device.vgpu import run_launch
from sidestream.harness.exec.machine import Options
from sidestream.harness.launch import Launch

HEAD = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry many(.param .u64 g)
{
.reg .pred %p, %one;
.reg .b32 %r, %x, %lane;
.reg .b64 %g;
.shared .align 16 .b8 tile[8192];
ld.param.u64 %g, [g];
mov.u32 %x, tile;
mov.u32 %lane, %laneid;
setp.ne.u32 %one, %lane, 0;
@%one ret;
mov.u32 %r, %tid.x;
setp.ne.u32 %p, %r, 0;
@%p bra SECOND;
"""


def text_of(first, second, pairs):
    return (
        HEAD
        + "".join(first.format(4 * k) for k in range(pairs))
        + "ret;\nSECOND:\n"
        + "".join(second.format(4 * k) for k in range(pairs))
        + "ret;\n}\n"
    )


@pytest.mark.parametrize("pairs", [3, 256, 700])
def test_all_pairs_are_kept(pairs):
    table = AllocationTable()
    buffer = table.allocate(8, "g")
    launch = Launch(
        kernel="many",
        ptx=text_of(
            "st.shared.b32 [%x+{}], %r;\n", "ld.shared.b32 %r, [%x+{}];\n", pairs
        ),
        grid=(1, 1, 1),
        block=(64, 1, 1),
        params=(buffer.va.to_bytes(8, "little"),),
    )
    outcome = run_launch(launch, table, Options(), profile="practice")
    assert outcome.incomplete == ()
    assert len(outcome.findings) == pairs
    assert {f.count for f in outcome.findings} == {1}
    lines = {tuple(s.ptx_line for s in f.sites) for f in outcome.findings}
    assert len(lines) == pairs
