"""Reads of on-chip memory that nothing wrote: whether the value reaches an output."""

import numpy as np
import pytest
from device_case import launch_of, run, text_of

from sidestream.harness.checks import scratch
from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device.in_order import InOrder
from sidestream.harness.exec.machine import Options
from sidestream.harness.run.stream_launches import StreamLaunches
from sidestream.harness.runtime import Landing, Runtime

DECLARE = ".shared .align 4 .b32 slot;\n.reg .b32 %at, %v<2>;\n.reg .pred %none;"
ALLOC = """mov.u32 %r1, slot;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;
bar.sync 0;
ld.shared.b32 %at, [%r1];
mul.wide.u32 %rd1, %r0, 4;
add.u64 %rd1, %rd1, %rd0;
mov.u32 %v1, 7;
"""
STORE = """tcgen05.st.sync.aligned.32x32b.x1.b32 [%at + 8], {%v1};
tcgen05.wait::st.sync.aligned;
"""
LOAD = """tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v0}, [%at + 8];
tcgen05.wait::ld.sync.aligned;
"""
SELECT = "setp.lt.u32 %none, %r0, 32;\nselp.b32 %v0, 0, %v0, %none;\n"
CAREFUL = "setp.gt.u32 %none, %v0, 99;\n@%none st.global.b32 [%rd1 + 128], %v1;\n"
HANGS = "LOOP:\nsetp.eq.u32 %none, %v0, 0;\n@%none bra LOOP;\n"
OUT = "st.global.b32 [%rd1], %v0;\n"
FREE = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %at, 32;\n"


def outcome_of(body, **how):
    table = AllocationTable()
    buffer = table.allocate(256, "o")
    text = text_of(ALLOC + body + FREE, declare=DECLARE, target="sm_100a")
    outcome = run(text, table, buffer, budget=100_000, **how)
    assert outcome.finished
    return outcome, buffer.data.copy().view(np.uint32)


@pytest.mark.parametrize("fill", [0, 0xFFFF_FFFF, 0xA5A5_A5A5, 0x3F80_3F80])
def test_a_value_that_reaches_an_output_is_a_finding(fill):
    outcome, left = outcome_of(LOAD + OUT, register_fill=fill)
    (found,) = outcome.findings
    assert (found.kind, found.rule.id) == ("uninit-read", "tmem.init")
    assert "other contents change 128 bytes of o" in found.message
    assert outcome.harmless == ()
    assert (left[:32] == fill).all()  # as the launch left it, not the later ones


@pytest.mark.parametrize("profile", [None, "practice"])
def test_a_value_that_a_select_replaces_is_none_and_told(profile):
    table = AllocationTable()
    buffer = table.allocate(256, "o")
    text = text_of(
        ALLOC + LOAD + SELECT + OUT + FREE, declare=DECLARE, target="sm_100a"
    )
    with InOrder(table=table, profile=profile) as order:
        (outcome,) = order.run(launch_of(text, buffer.va), Options(budget=100_000))
    assert outcome.findings == ()
    (read,) = outcome.harmless
    assert read.rule.id == "tmem.init"
    told = scratch.told(outcome.harmless)
    assert "no result depends on what tcgen05.ld" in told
    assert f"line {read.sites[0].ptx_line}" in told


def test_it_is_executed_again_from_the_memory_that_it_found():
    count = "mov.u32 %v0, 1;\nred.global.add.u32 [%rd1], %v0;\n"
    outcome, left = outcome_of(LOAD + count)
    assert outcome.findings == ()
    assert len(outcome.harmless) == 1
    assert (left[:32] == 0xA5A5_A5A6).all()


def test_a_value_that_decides_what_is_done_matters():
    outcome, _ = outcome_of(LOAD + CAREFUL, register_fill=0)
    (found,) = outcome.findings
    assert "other contents change 128 bytes of o" in found.message


def test_a_value_that_decides_whether_it_ends_matters():
    outcome, _ = outcome_of(LOAD + HANGS, register_fill=1)
    (found,) = outcome.findings
    assert (
        "not known whether the value matters: executed again: budget" in found.message
    )


def test_what_was_written_is_neither():
    outcome, left = outcome_of(STORE + LOAD + OUT)
    assert outcome.findings == outcome.harmless == ()
    assert (left[:32] == 7).all()


@pytest.mark.parametrize(("middle", "found"), [("", 1), (SELECT, 0)])
def test_a_launch_of_a_program_is_graded_too(middle, found):
    runtime = Runtime(landing=Landing.parse("round-robin"))
    block = runtime.malloc(256, stream=runtime.stream(0))
    options = Options(budget=100_000)
    launches = StreamLaunches(runtime=runtime, options=lambda: options)
    body = ALLOC + LOAD + middle + OUT + FREE
    text = text_of(body, declare=DECLARE, target="sm_100a")
    launches(launch_of(text, block.address))
    runtime.drain()
    (outcome,) = launches.outcomes
    assert outcome.finished
    assert (len(outcome.findings), len(outcome.harmless)) == (found, 1 - found)
