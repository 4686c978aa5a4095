"""What is said of code that does not fit, and of faults when an operation lands."""

import pytest
from device_case import launch_of, line_of, text_of

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device.vgpu import run_launch
from sidestream.harness.exec.machine import Options

# Lane 5 of warp 1 starts a copy that completes at a barrier nobody initialised.
COPY = """
mov.u32 %r1, bar;
mov.u32 %r2, words;
setp.ne.u32 %p0, %r0, 37;
@%p0 bra END;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
  [%r2], [%rd0], 16, [%r1];
END:
"""
ARRIVE = """
mov.u32 %r1, bar;
setp.ne.u32 %p0, %r0, 37;
@%p0 bra END;
cp.async.mbarrier.arrive.shared.b64 [%r1];
END:
"""


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize(
    ("body", "operation"),
    [(COPY, "cp.async.bulk"), (ARRIVE, "cp.async.mbarrier.arrive")],
)
def test_a_fault_of_an_operation_names_the_lane_that_issued_it(body, operation, seed):
    table = AllocationTable()
    buffer = table.allocate(256, "buf", fill=b"\0")
    declare = ".shared .align 16 .b8 words[64];\n.shared .align 8 .b64 bar;"
    text = text_of(body, declare=declare)
    launch = launch_of(text, buffer.va, threads=64)
    outcome = run_launch(launch, table, Options(seed=seed, sms=1))
    (finding,) = {f.kind: f for f in outcome.findings}.values()
    (site,) = finding.sites
    assert site.operation.startswith(operation)
    assert site.agent.endswith("warp 1 lane 5")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("cta_group::1.kind::f16 [%r1], %rd1, %rd1, %r3, {MASK8}, %p0;", "lane mask"),
        ("cta_group::2.kind::f16 [%r1], %rd1, %rd1, %r3, {MASK4}, %p0;", "lane mask"),
        ("cta_group::1.kind::f16 [%r1], %rd1, %rd1, %r3;", "its operands do not fit"),
        ("cta_group::3.kind::f16 [%r1], %rd1, %rd1, %r3, %p0;", "unknown instruction"),
    ],
)
def test_what_a_form_refuses_is_told(words, told):
    for number in (4, 8):
        words = words.replace(f"MASK{number}", ", ".join(["%r4"] * number))
    text = text_of(f"tcgen05.mma.{words}", target="sm_100a")
    table = AllocationTable()
    buffer = table.allocate(256, "buf", fill=b"\0")
    outcome = run_launch(launch_of(text, buffer.va), table, Options(sms=1))
    (entry,) = outcome.incomplete
    assert told in entry.reason
    assert entry.ptx_line == line_of(text, "tcgen05.mma")
