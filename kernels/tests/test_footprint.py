"""Footprints against the set of bytes they stand for."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sidestream.kernels.footprint import Footprint, collide, footprint

ROWS = st.builds(
    lambda begin, rows, pitch, width: Footprint(
        begin=begin, rows=rows, pitch=pitch, width=min(width, pitch)
    ),
    st.integers(0, 40),
    st.integers(0, 4),
    st.sampled_from([6, 10, 12]),
    st.integers(0, 12),
)


def touched(area):
    return {
        area.begin + row * area.pitch + column
        for row in range(area.rows)
        for column in range(area.width)
    }


@settings(max_examples=600, deadline=None)
@given(ROWS, ROWS)
def test_a_shared_byte_is_never_missed(a, b):
    if touched(a) & touched(b):
        assert collide(a, b)


@settings(max_examples=600, deadline=None)
@given(ROWS, ROWS)
def test_equal_pitch_is_decided_exactly_once_the_rows_reach(a, b):
    ranges_meet = a.begin < b.end and b.begin < a.end
    if a.pitch == b.pitch and min(a.rows, b.rows) > 1 and not ranges_meet:
        assert not collide(a, b)
    if a.pitch == b.pitch and not touched(a) & touched(b) and collide(a, b):
        # Only extents too short to show the interleaving may be called a collision.
        longer = [
            Footprint(begin=x.begin, rows=x.rows + 9, pitch=x.pitch, width=x.width)
            for x in (a, b)
        ]
        assert min(a.rows, b.rows) <= 1 or touched(longer[0]) & touched(longer[1])


def test_two_halves_of_a_fused_slab_do_not_collide():
    slab = torch.zeros(5, 8, 16)
    first, second = footprint(slab[:, :4]), footprint(slab[:, 4:])
    assert not collide(first, second)
    assert collide(first, footprint(slab[:, 3:5]))


def test_bytes_of_a_strided_view():
    view = torch.zeros(3, 4, 8, dtype=torch.float16)[:, 1:3, :4]
    area = footprint(view)
    assert (area.rows, area.pitch, area.width) == (3, 64, 24)
    assert area.end - area.begin == 2 * 64 + 24


def test_no_elements_touch_nothing():
    empty = footprint(torch.zeros(0, 4, 8))
    assert empty.begin == empty.end
    assert not collide(empty, footprint(torch.zeros(4)))
