"""Branches: divergence, reconvergence, progress of lanes, and what stops a launch."""

import numpy as np
import pytest
from kernel_case import evaluate, run_kernel

from sidestream.harness.exec.build import instruction_set
from sidestream.harness.exec.machine import Options

LANES = np.arange(32, dtype=np.uint32)


def collatz(value):
    steps = 0
    while value != 1:
        value = value // 2 if value % 2 == 0 else 3 * value + 1
        steps += 1
    return steps


def test_lanes_leave_a_loop_one_by_one():
    body = """
    .reg .pred %one, %odd; .reg .b32 %low;
    mov.b32 %n, 0;
    TOP: setp.eq.u32 %one, %x, 1;
    @%one bra OUT;
    and.b32 %low, %x, 1;
    setp.ne.u32 %odd, %low, 0;
    @%odd bra ODD;
    shr.u32 %x, %x, 1;
    bra NEXT;
    ODD: mad.lo.u32 %x, %x, 3, 1;
    NEXT: add.u32 %n, %n, 1;
    bra TOP;
    OUT:
    """
    x = np.arange(1, 101, dtype=np.uint32)
    ran = evaluate(body, {"n": np.uint32}, x=x)
    assert ran["n"].tolist() == [collatz(int(v)) for v in x]


def test_arms_of_nested_branches_meet_at_their_joins():
    body = """
    .reg .pred %p, %q;
    setp.lt.u32 %p, %x, 16;
    @!%p bra HIGH;
    setp.lt.u32 %q, %x, 5;
    @%q bra LOWEST;
    activemask.b32 %inner;
    bra JOIN1;
    LOWEST: activemask.b32 %inner;
    JOIN1: activemask.b32 %joined;
    bra JOIN;
    HIGH: activemask.b32 %inner;
    mov.b32 %joined, %inner;
    JOIN: activemask.b32 %all;
    """
    names = dict.fromkeys(("inner", "joined", "all"), np.uint32)
    ran = evaluate(body, names, x=LANES)
    low, mid, high = 0x1F, 0xFFE0, 0xFFFF0000
    want = [low] * 5 + [mid] * 11 + [high] * 16
    assert ran["inner"].tolist() == want
    assert ran["joined"].tolist() == [low | mid] * 16 + [high] * 16
    assert set(ran["all"].tolist()) == {0xFFFFFFFF}


@pytest.mark.parametrize("waits", [0, 31])
def test_a_lane_that_waits_for_its_sibling_does_not_starve_it(waits):
    body = f"""
    .shared .align 4 .b8 flag[4];
    .reg .pred %me, %seen; .reg .b32 %v;
    st.volatile.shared.b32 [flag], 0;
    bar.warp.sync -1;
    setp.eq.u32 %me, %x, {waits};
    @!%me bra SET;
    SPIN: ld.volatile.shared.b32 %v, [flag];
    setp.ne.u32 %seen, %v, 0;
    @!%seen bra SPIN;
    bra DONE;
    SET: st.volatile.shared.b32 [flag], 7;
    DONE: ld.volatile.shared.b32 %d, [flag];
    """
    ran = evaluate(body, {"d": np.uint32}, x=LANES)
    assert set(ran["d"].tolist()) == {7}


def test_lanes_that_left_do_not_hold_up_the_rest():
    body = """
    .reg .pred %go;
    setp.lt.u32 %go, %x, 7;
    @%go exit;
    bar.warp.sync -1;
    vote.sync.ballot.b32 %d, 1, -1;
    """
    ran = evaluate(body, {"d": np.uint32}, x=LANES)
    assert ran["d"].tolist()[7:] == [0xFFFFFF80] * 25


TABLE = """
    T: .branchtargets A, B, C;
    {guard}brx.idx %x, T;
    add.u32 %d, %d, 1000;
    bra END;
    A: add.u32 %d, %d, 1; bra END;
    B: add.u32 %d, %d, 2;
    C: add.u32 %d, %d, 4;
    END: activemask.b32 %m;
"""


def test_an_indexed_branch_sends_each_lane_to_its_target():
    index = LANES % 3
    body = "mov.b32 %d, 0;" + TABLE.format(guard="")
    ran = evaluate(body, {"d": np.uint32, "m": np.uint32}, x=index)
    assert ran["d"].tolist() == np.array([1, 6, 4])[index].tolist()
    assert set(ran["m"].tolist()) == {0xFFFFFFFF}


def test_lanes_outside_the_guard_of_an_indexed_branch_fall_through():
    body = ".reg .pred %g; mov.b32 %d, 0; setp.ge.u32 %g, %thread, 8;" + TABLE.format(
        guard="@%g "
    )
    ran = evaluate(body, {"d": np.uint32, "m": np.uint32}, x=LANES % 3)
    want = [1000] * 8 + np.array([1, 6, 4])[LANES[8:] % 3].tolist()
    assert ran["d"].tolist() == want


def test_a_value_needed_after_an_indexed_branch_back_keeps_its_row():
    body = """
    .reg .b32 %kept, %other, %turn, %next; .reg .pred %last;
    T: .branchtargets TOP, END;
    add.u32 %kept, %x, 100;
    mov.b32 %turn, 0;
    mov.b32 %d, 0;
    TOP: add.u32 %d, %d, %kept;
    add.u32 %other, %d, 5;
    xor.b32 %d, %other, 3;
    add.u32 %turn, %turn, 1;
    setp.ge.u32 %last, %turn, 3;
    selp.b32 %next, 1, 0, %last;
    brx.idx %next, T;
    END:
    """
    ran = evaluate(body, {"d": np.uint32}, x=LANES)
    want = np.zeros(32, np.uint32)
    for _ in range(3):
        want = (want + LANES + 100 + 5) ^ 3
    assert ran["d"].tolist() == want.tolist()


def test_an_index_past_the_table_is_a_fault_and_stops():
    ran = run_kernel(
        "mov.b32 %d, 0;" + TABLE.format(guard=""),
        inputs={"x": np.full(32, 3, np.uint32)},
        outputs={"d": np.uint32, "m": np.uint32},
    )
    assert ran.result.status == "trap"
    assert [(f.kind, f.info) for f in ran.result.faults] == [("illegal", 3)]


def test_an_endless_loop_ends_with_its_budget():
    ran = run_kernel(
        "mov.b32 %d, 0; TOP: add.u32 %d, %d, 1; bra TOP;",
        inputs={"x": LANES},
        outputs={"d": np.uint32},
        options=Options(budget=5_000),
    )
    assert ran.result.status == "budget"
    assert 5_000 <= ran.result.warp_instructions < 6_000


def test_the_core_is_not_built_again_because_the_clock_changed():
    text = "model name\t: Chip\ncpu MHz\t\t: {mhz}\nflags\t\t: {flags}\n"
    slow = instruction_set(text.format(mhz="800.1", flags="avx2 fma"))
    fast = instruction_set(text.format(mhz="4200.7", flags="avx2 fma"))
    other = instruction_set(text.format(mhz="800.1", flags="avx2"))
    assert slow == fast
    assert slow != other
