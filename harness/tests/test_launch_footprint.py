"""Which bytes a launch touches: against what its instructions say."""

import numpy as np
import pytest
from ptx_case import Case
from text_launch import BASE, STRIDE

from sidestream.harness.footprint.footprint import Footprint

IN, OUT = BASE, BASE + STRIDE


def footprint(body, *, size=8192, **given):
    source, target = np.zeros(8192, np.uint8), np.zeros(size, np.uint8)
    with Footprint() as seen:
        Case(body, observer=seen, **given).run(source, target)
        assert seen.lost == 0
        return seen.reads, seen.writes


def test_each_lane_a_word():
    reads, writes = footprint(
        """mul.wide.u32 %rd4, %r0, 4;
        add.s64 %rd5, %rd0, %rd4; ld.global.u32 %r5, [%rd5 + 128];
        add.s64 %rd5, %rd1, %rd4; st.global.u32 [%rd5], %r5;"""
    )
    assert reads == ((IN + 128, IN + 256),)
    assert writes == ((OUT, OUT + 128),)


def test_gaps_between_lanes_are_not_touched():
    reads, writes = footprint(
        """mul.wide.u32 %rd4, %r0, 100;
        add.s64 %rd5, %rd0, %rd4; ld.global.u16 %h1, [%rd5];
        add.s64 %rd5, %rd1, %rd4; st.global.u8 [%rd5], %h1;"""
    )
    assert reads == tuple((IN + 100 * n, IN + 100 * n + 2) for n in range(32))
    assert writes == tuple((OUT + 100 * n, OUT + 100 * n + 1) for n in range(32))


def test_lanes_that_do_not_execute_touch_nothing():
    reads, writes = footprint(
        """setp.lt.u32 %p1, %r0, 3; mul.wide.u32 %rd4, %r0, 8;
        add.s64 %rd5, %rd1, %rd4; @%p1 st.global.u64 [%rd5], %rd4;"""
    )
    assert reads == ()
    assert writes == ((OUT, OUT + 24),)


def test_generic_accesses_count_where_they_are_global():
    reads, writes = footprint(
        """mov.u64 %rd6, shared_word; cvta.shared.u64 %rd6, %rd6;
        ld.u32 %r5, [%rd0]; st.u32 [%rd6], %r5; st.u32 [%rd1], %r5;""",
        module="",
        declare=".shared .align 4 .b8 shared_word[4];",
    )
    assert reads == ((IN, IN + 4),)
    assert writes == ((OUT, OUT + 4),)


def test_atomics_read_and_write():
    reads, writes = footprint("atom.global.add.u32 %r5, [%rd1], 1;")
    assert reads == writes == ((OUT, OUT + 4),)


def test_vectors_and_accesses_that_cross_lines():
    reads, writes = footprint(
        """mul.wide.u32 %rd4, %r0, 16; add.s64 %rd5, %rd0, %rd4;
        ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%rd5 + 48];
        st.global.v2.u64 [%rd1 + 64], {%rd4, %rd4};"""
    )
    assert reads == ((IN + 48, IN + 48 + 512),)
    assert writes == ((OUT + 64, OUT + 80),)


def test_asynchronous_copies_count():
    reads, writes = footprint(
        """mov.u32 %r9, buffer;
        cp.async.bulk.global.shared::cta.bulk_group [%rd1 + 160], [%r9], 96;
        cp.async.ca.shared.global [%r9], [%rd0 + 320], 16;
        cp.async.wait_all; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;""",
        declare=".shared .align 16 .b8 buffer[128];",
        target="sm_90a",
    )
    assert reads == ((IN + 320, IN + 336),)
    assert writes == ((OUT + 160, OUT + 256),)


@pytest.mark.parametrize("step", [4, 132])
def test_many_lines_and_many_ranges(step):
    """More of both than there is room for at first."""
    size = 32 * 256 * step
    _, writes = footprint(
        f"""mov.u32 %r5, 0;
        again: mad.lo.u32 %r6, %r5, 32, %r0; mul.wide.u32 %rd4, %r6, {step};
        add.s64 %rd5, %rd1, %rd4; st.global.u32 [%rd5], %r6;
        add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 256; @%p1 bra again;""",
        size=size,
    )
    count = 32 * 256
    if step == 4:
        assert writes == ((OUT, OUT + 4 * count),)
    else:
        assert writes == tuple(
            (OUT + n * step, OUT + n * step + 4) for n in range(count)
        )
