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


@pytest.mark.parametrize("compared", [0, 1])
def test_a_swap_that_fails_this_time_may_write_another_time(compared):
    body = f"atom.global.cas.b32 %r5, [%rd1], {compared}, 7;"
    reads, writes = footprint(body)
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


AT = "mul.wide.u32 %rd4, %r0, 8; add.s64 %rd5, %rd1, %rd4; "


def words(start, size):
    """Ranges of `size` bytes from byte `start` of each lane's 8."""
    return tuple((OUT + 8 * n + start, OUT + 8 * n + start + size) for n in range(32))


def test_what_a_thread_wrote_itself_is_no_read():
    body = AT + "st.global.u32 [%rd5], %r0; ld.global.u32 %r5, [%rd5];"
    assert footprint(body) == ((), words(0, 4))


def test_a_read_before_the_write_counts():
    body = AT + "ld.global.u32 %r5, [%rd5]; st.global.u32 [%rd5], %r0;"
    assert footprint(body) == (words(0, 4), words(0, 4))


def test_of_a_read_that_reaches_further_the_rest_counts():
    body = AT + "st.global.u16 [%rd5], %h1; ld.global.u32 %r5, [%rd5];"
    assert footprint(body) == (words(2, 2), words(0, 2))


def test_what_another_thread_wrote_counts_as_read():
    body = (
        AT
        + """st.global.u64 [%rd5], %rd4; bar.warp.sync -1;
        xor.b32 %r6, %r0, 1; mul.wide.u32 %rd4, %r6, 8; add.s64 %rd5, %rd1, %rd4;
        ld.global.u64 %rd6, [%rd5];"""
    )
    assert footprint(body) == (((OUT, OUT + 256),), ((OUT, OUT + 256),))


def test_an_atomic_reads_what_was_there():
    body = AT + "atom.global.add.u32 %r5, [%rd5], 1;"
    assert footprint(body) == (words(0, 4), words(0, 4))


EDIT = "tensormap.replace.tile.global_dim.global.b1024.b32 [%rd1], 2, %r0;"
MAP = (OUT, OUT + 128)


def test_an_edit_of_a_tensor_map_keeps_the_rest_of_it():
    body = "setp.eq.u32 %p1, %r0, 5; @%p1 " + EDIT
    assert footprint(body, target="sm_100a") == ((MAP,), (MAP,))


def test_an_edit_of_a_map_that_the_thread_wrote_reads_nothing_from_before():
    stores = " ".join(f"@%p1 st.global.u64 [%rd1 + {8 * n}], %rd4;" for n in range(16))
    body = f"setp.eq.u32 %p1, %r0, 5; mov.u64 %rd4, 0; {stores} @%p1 {EDIT}"
    body += " @%p1 ld.global.u32 %r5, [%rd1 + 8];"
    assert footprint(body, target="sm_100a") == ((), (MAP,))


def test_of_two_threads_in_one_word_each_wrote_its_own():
    body = """setp.eq.u32 %p1, %r0, 0; setp.eq.u32 %p2, %r0, 1;
        @%p1 st.global.u32 [%rd1], %r0; bar.warp.sync -1;
        @%p2 st.global.u32 [%rd1 + 4], %r0; @%p2 ld.global.u64 %rd6, [%rd1];"""
    assert footprint(body) == (((OUT, OUT + 4),), ((OUT, OUT + 8),))
