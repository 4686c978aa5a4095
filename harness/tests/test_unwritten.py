"""Reads of on-chip memory that nothing wrote: whether the value reaches an output."""

from dataclasses import replace

import numpy as np
import pytest
from device_case import launch_of, run, text_of

from sidestream.harness.checks import scratch
from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device import unwritten
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
ENDLESS = "LOOP:\nbra LOOP;\n"
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


def test_a_launch_that_was_stopped_from_outside_leaves_it_open():
    """Time that ran out is not the kernel's doing: the read may be one of harmless."""
    table = AllocationTable()
    buffer = table.allocate(256, "o")
    text = text_of(ALLOC + LOAD + ENDLESS, declare=DECLARE, target="sm_100a")
    late = run(text, table, buffer, deadline=0.0)
    assert not late.finished
    assert late.findings == late.harmless == ()
    reasons = [entry.reason for entry in late.incomplete]
    assert any("deadline passed" in reason for reason in reasons)
    (read,) = (entry for entry in late.incomplete if "tcgen05.ld" in entry.reason)
    assert "not known whether the value matters: the launch did not end" in read.reason
    assert read.ptx_line is not None

    spent = run(text, table, buffer, budget=100_000)
    assert not spent.finished
    (found,) = spent.findings
    assert found.kind == "uninit-read"


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


SHARED = """.shared .align 16 .b32 row[128];
.reg .b32 %at, %own, %v<2>;
.reg .pred %none;"""
PLACE = """mov.u32 %at, row;
mad.lo.u32 %own, %r0, 4, %at;
mul.wide.u32 %rd1, %r0, 4;
add.u64 %rd1, %rd1, %rd0;
"""
FILL = "st.shared.b32 [%own], 5;\nbar.sync 0;\n"
PEEK = "ld.shared.b32 %v0, [%own+4];\n"
KEEP = "setp.eq.u32 %none, %r0, 31;\nselp.b32 %v0, 0, %v0, %none;\n"


def shared_outcome(body, profile="practice", grid=(1, 1, 1), **how):
    table = AllocationTable()
    buffer = table.allocate(256, "o")
    launch = replace(
        launch_of(text_of(PLACE + body, declare=SHARED), buffer.va), grid=grid
    )
    with InOrder(table=table, profile=profile) as order:
        (outcome,) = order.run(launch, Options(budget=100_000, **how))
    assert outcome.finished
    return outcome, buffer.data.copy().view(np.uint32)


@pytest.mark.parametrize("fill", [0, 0xFFFF_FFFF, 0x3F80_3F80])
def test_a_word_that_nothing_wrote_is_told_with_its_lane(fill):
    outcome, left = shared_outcome(FILL + PEEK + OUT, smem_fill=fill)
    (found,) = outcome.findings
    assert (found.kind, found.rule.id) == ("uninit-read", "smem.init")
    assert found.sites[0].agent == "cta 0 warp 0 lane 31"
    assert "byte 128 of row" in found.message
    assert "other contents change 4 bytes of o" in found.message
    assert found.extra["fault"] == "smem-uninit"
    assert (left[:31] == 5).all()
    assert left[31] == fill


@pytest.mark.parametrize("lane", [0, 7, 8, 13, 24, 31])
def test_one_lane_in_the_midst_of_what_was_written_is_told(lane):
    body = (
        "mad.lo.u32 %own, %r0, 8, %at;\nmov.u32 %v0, 5;\n"
        f"setp.ne.u32 %none, %r0, {lane};\n"
        "@%none st.shared.v2.b32 [%own], {%v0, %v0};\nbar.sync 0;\n"
        "ld.shared.v2.b32 {%v0, %v1}, [%own];\n"
    )
    (found,) = shared_outcome(body + OUT)[0].findings
    assert found.sites[0].agent == f"cta 0 warp 0 lane {lane}"
    assert f"byte {8 * lane} of row" in found.message
    assert found.count == 1


def test_a_word_that_a_select_replaces_is_harmless():
    outcome, _ = shared_outcome(FILL + PEEK + KEEP + OUT)
    assert outcome.findings == ()
    (read,) = outcome.harmless
    assert read.rule.id == "smem.init"
    assert "no result depends on what ld.shared.b32" in scratch.told(outcome.harmless)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({}, 1),
        ({"profile": None}, 0),
        ({"shared_memory_check": False}, 0),
    ],
)
def test_who_looks_for_races_looks_for_them(how, told):
    outcome, _ = shared_outcome(FILL + PEEK + OUT, **how)
    assert len(outcome.findings) + len(outcome.harmless) == told


def test_what_another_cta_left_in_its_place_was_not_written():
    first = "mov.u32 %v1, %ctaid.x;\nsetp.ne.u32 %none, %v1, 0;\n"
    first += "mad.wide.u32 %rd1, %v1, 128, %rd1;\n"
    body = first + "@!%none st.shared.b32 [%own], 5;\nld.shared.b32 %v0, [%own];\n"
    one, _ = shared_outcome(body + OUT, sms=1)
    assert one.findings == ()
    two, _ = shared_outcome(body + OUT, grid=(2, 1, 1), sms=1)
    (found,) = two.findings
    assert found.sites[0].agent.startswith("cta 1 ")
    assert found.count == 32


def test_an_mbarrier_is_written_by_its_initialisation():
    ask = "ld.shared.b32 %v0, [%at + 4];\n" + OUT
    made = "setp.ne.u32 %none, %r0, 0;\n@!%none mbarrier.init.shared.b64 [%at], 1;\n"
    outcome, _ = shared_outcome(made + "bar.sync 0;\n" + ask)
    assert outcome.findings == outcome.harmless == ()
    (found,) = shared_outcome(ask)[0].findings
    assert found.rule.id == "smem.init"


def test_a_read_that_races_with_the_write_is_told_as_the_race():
    copy = "cp.async.ca.shared.global [%own], [%rd1], 4;\n"
    late = copy + "ld.shared.b32 %v0, [%own];\n" + OUT + "cp.async.wait_all;\n"
    outcomes = [shared_outcome(late, seed=seed)[0] for seed in range(1, 9)]
    for outcome in outcomes:
        assert {f.kind for f in outcome.findings} >= {"smem-race"}
        assert "uninit-read" not in {f.kind for f in outcome.findings}
        assert outcome.harmless == ()


def test_a_shared_read_in_a_launch_of_a_program_is_graded_too():
    runtime = Runtime(landing=Landing.parse("round-robin"))
    block = runtime.malloc(256, stream=runtime.stream(0))
    launches = StreamLaunches(
        runtime=runtime, options=lambda: Options(budget=100_000), profile="practice"
    )
    for middle in ("", KEEP):
        body = PLACE + FILL + PEEK + middle + OUT
        launches(launch_of(text_of(body, declare=SHARED), block.address))
    runtime.drain()
    reached, kept = launches.outcomes
    assert [f.rule.id for f in reached.findings] == ["smem.init"]
    assert (kept.findings, len(kept.harmless)) == ((), 1)


REGISTERS = ".reg .b32 %v<3>;\n.reg .pred %none, %never;"
THERE = "mul.wide.u32 %rd1, %r0, 4;\nadd.u64 %rd1, %rd1, %rd0;\n"
FEW = "setp.gt.u32 %none, %r0, 7;\n"


def register_outcome(body, profile="practice", **how):
    table = AllocationTable()
    buffer = table.allocate(512, "o")
    text = text_of(THERE + body, declare=REGISTERS, target="sm_100a")
    with InOrder(table=table, profile=profile) as order:
        launch = launch_of(text, buffer.va, threads=how.pop("threads", 32))
        (outcome,) = order.run(launch, Options(budget=100_000, **how))
    assert outcome.finished
    return outcome


@pytest.mark.parametrize("fill", [0, 0xFFFF_FFFF, 0x7FC0_DEAD])
def test_a_register_that_nothing_wrote_is_told_with_its_reader(fill):
    outcome = register_outcome(OUT, register_fill=fill)
    (found,) = outcome.findings
    assert (found.kind, found.rule.id) == ("uninit-read", "register.init")
    assert found.extra["fault"] == "register-uninit"
    assert "nothing has written: %v0" in found.message
    assert "other contents change 128 bytes of o" in found.message
    assert found.sites[0].operation == "st.global.b32"


def test_lanes_that_did_not_write_it_are_told_alone():
    body = FEW + "@%none mov.u32 %v0, 1;\n" + OUT
    (found,) = register_outcome(body).findings
    assert found.sites[0].agent == "cta 0 warp 0 lane 0"
    assert "other contents change 32 bytes of o" in found.message
    held = FEW + "@%none mov.u32 %v0, 1;\n@%none st.global.b32 [%rd1], %v0;\n"
    outcome = register_outcome(held)
    assert outcome.findings == outcome.harmless == ()


def test_a_path_that_is_not_taken_is_none():
    body = "setp.gt.u32 %never, %r0, 99;\n@%never bra LATE;\nmov.u32 %v0, 3;\nLATE:\n"
    outcome = register_outcome(body + OUT)
    assert outcome.findings == outcome.harmless == ()
    (found,) = register_outcome(body.replace(".gt", ".lt") + OUT).findings
    assert found.rule.id == "register.init"


def test_a_guard_that_nothing_wrote_is_read_by_every_lane():
    body = "mov.u32 %v1, 1;\n@%never st.global.b32 [%rd1], %v1;\n"
    for fill in (0, 0xFFFF_FFFF):
        (found,) = register_outcome(body, register_fill=fill).findings
        assert found.rule.id == "register.init"
        assert "%never" in found.message
        assert found.count == 1


def test_a_register_that_a_select_drops_is_harmless():
    outcome = register_outcome(
        "setp.lt.u32 %none, %r0, 32;\nmov.u32 %v1, 2;\nselp.b32 %v0, %v1, %v2, %none;\n"
        + OUT
    )
    assert outcome.findings == ()
    (read,) = outcome.harmless
    assert read.rule.id == "register.init"


def test_registers_gained_by_setmaxnreg_hold_nothing():
    read = "add.u32 %v0, %v2, 1;\n"
    more = "setmaxnreg.dec.sync.aligned.u32 24;\n"
    more += "setmaxnreg.inc.sync.aligned.u32 40;\n"
    (found,) = register_outcome(more + read + OUT, threads=128).findings
    assert found.rule.id == "register.init"
    assert "%v2" in found.message
    outcome = register_outcome(more + "mov.u32 %v2, 1;\n" + read + OUT, threads=128)
    assert outcome.findings == ()


@pytest.mark.parametrize("how", [{"profile": None}, {"register_check": False}])
def test_registers_are_for_who_looks_for_races(how):
    outcome = register_outcome(OUT, **how)
    assert outcome.findings == outcome.harmless == ()


def test_the_same_register_in_the_next_cta_is_another_one():
    body = (
        "mov.u32 %v1, %ctaid.x;\nsetp.ne.u32 %none, %v1, 0;\n@!%none mov.u32 %v0, 1;\n"
    )
    table = AllocationTable()
    buffer = table.allocate(256, "o")
    body += "mad.wide.u32 %rd1, %v1, 128, %rd1;\n" + OUT
    text = text_of(THERE + body, declare=REGISTERS)
    launch = replace(launch_of(text, buffer.va), grid=(2, 1, 1))
    with InOrder(table=table, profile="practice") as order:
        (outcome,) = order.run(launch, Options(sms=1))
    (found,) = outcome.findings
    assert found.sites[0].agent.startswith("cta 1 ")


def test_more_registers_than_can_be_followed_are_incomplete():
    names = [f"%many{k}" for k in range(70)]
    text = "".join(f"st.global.b32 [%rd1], {name};\n" for name in names)
    table = AllocationTable()
    buffer = table.allocate(256, "o")
    declare = ".reg .b32 " + ", ".join(names) + ";"
    launch = launch_of(text_of(THERE + text, declare=declare), buffer.va)
    with InOrder(table=table, profile="practice") as order:
        (outcome,) = order.run(launch, Options())
    assert len(outcome.findings) == 64
    assert any("6 accesses or races" in entry.reason for entry in outcome.incomplete)


def test_a_guard_that_changed_holds_back_other_lanes():
    body = FEW + "@%none mov.u32 %v0, 1;\n" + FEW.replace(".gt", ".lt")
    (found,) = register_outcome(body + "@%none " + OUT).findings
    assert found.rule.id == "register.init"


def test_only_the_memory_in_question_is_varied():
    options = Options()
    for other in unwritten.patterns("register-uninit", options):
        assert other.register_fill != options.register_fill
        assert other.tensor_fill == options.register_fill
        assert other.smem_fill == options.smem_fill
    for other in unwritten.patterns("smem-uninit", options):
        assert other.smem_fill != options.smem_fill
        assert other.register_fill == options.register_fill
        assert other.tensor_fill is None
