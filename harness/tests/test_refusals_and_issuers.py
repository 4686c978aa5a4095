"""What is said of code that does not fit, and of faults when an operation lands."""

import pytest
from device_case import launch_of, line_of, text_of

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device.vgpu import run_launch, watch_launch
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
    ("body", "operation", "agent"),
    [
        (COPY, "cp.async.bulk", "cta 0, asynchronous operation of warp 1 lane 5"),
        # It is the thread that makes the barrier expect one arrival more.
        (ARRIVE, "cp.async.mbarrier.arrive", "cta 0 warp 1 lane 5"),
    ],
)
def test_a_fault_of_an_operation_names_the_lane_that_issued_it(
    body, operation, agent, seed
):
    table = AllocationTable()
    buffer = table.allocate(256, "buf", fill=b"\0")
    declare = ".shared .align 16 .b8 words[64];\n.shared .align 8 .b64 bar;"
    text = text_of(body, declare=declare)
    launch = launch_of(text, buffer.va, threads=64)
    outcome = run_launch(launch, table, Options(seed=seed, sms=1))
    (finding,) = {f.kind: f for f in outcome.findings}.values()
    (site,) = finding.sites
    assert site.operation.startswith(operation)
    assert site.agent == agent


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


# Lane 5 of warp 1 starts a copy and writes over what it brings; nobody waits for it.
OVER = """
mov.u32 %r1, bar;
mov.u32 %r2, words;
setp.ne.u32 %p0, %r0, 37;
@%p0 bra END;
mbarrier.init.shared.b64 [%r1], 1;
mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 16;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
  [%r2], [%rd0], 16, [%r1];
st.shared.u32 [%r2], %r0;
END:
"""
SEVERAL = """
shl.b32 %r3, %r0, 4;
mov.u32 %r2, words;
add.u32 %r2, %r2, %r3;
cp.async.ca.shared.global [%r2], [%rd0], 16;
st.shared.u32 [%r2], %r0;
"""


@pytest.mark.parametrize(
    ("body", "threads", "agent"),
    [
        (OVER, 64, "cta 0, asynchronous operation of warp 1 lane 5"),
        (SEVERAL, 4, "cta 0, asynchronous operation of warp 0"),
    ],
)
def test_a_race_with_an_operation_names_who_issued_it(body, threads, agent):
    table = AllocationTable()
    buffer = table.allocate(256, "buf", fill=b"\0")
    declare = ".shared .align 16 .b8 words[64];\n.shared .align 8 .b64 bar;"
    launch = launch_of(text_of(body, declare=declare), buffer.va, threads=threads)
    options = Options(sms=1)
    watched = watch_launch(launch, table, options, profile="practice")
    races = [f for f in watched.outcome.findings if f.kind == "smem-race"]
    assert {site.agent for f in races for site in f.sites} >= {agent}


def test_what_a_warp_does_as_a_whole_is_of_no_lane():
    body = """
mov.u32 %r1, words;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;
ld.shared.b32 %r2, [%r1];
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r2 + 40];
tcgen05.wait::ld.sync.aligned;
"""
    table = AllocationTable()
    buffer = table.allocate(256, "buf", fill=b"\0")
    declare = ".shared .align 16 .b8 words[64];"
    text = text_of(body, declare=declare, target="sm_100a")
    outcome = run_launch(launch_of(text, buffer.va), table, Options(sms=1))
    # The load, and at the end the allocation that was not given back.
    assert {f.sites[0].agent for f in outcome.findings} == {"cta 0 warp 0"}
    assert len(outcome.findings) == 2
