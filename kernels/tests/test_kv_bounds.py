"""Tile bounds and row limits, run natively on the host, against brute force."""

from functools import cache

import cutlass
import numpy as np
import pytest
from cutlass import Int32, cute
from cutlass.cute.runtime import make_ptr
from hypothesis import given, settings
from hypothesis import strategies as st

from sidestream.kernels.common.bounds import row_limits, tile_range
from sidestream.kernels.sm120.config import KernelConfig


@cute.jit
def probe(
    config: cutlass.Constexpr[KernelConfig],
    results: cute.Pointer,
    row0: Int32,
    len_q: Int32,
    len_kv: Int32,
    left: Int32,
    right: Int32,
) -> None:
    cells = cute.make_tensor(results, cute.make_layout(6))
    begin, plain_begin, plain_end, end = tile_range(
        config, row0, len_q, len_kv, left, right
    )
    first, last = row_limits(config, row0, len_q, len_kv, left, right)
    cells[0] = begin
    cells[1] = plain_begin
    cells[2] = plain_end
    cells[3] = end
    cells[4] = first
    cells[5] = last


@cache
def compiled(anchor, has_left, has_right):
    config = KernelConfig(
        dtype="float16",
        out_dtype="float16",
        head_dim=64,
        head_dim_v=64,
        tile_m=16,
        anchor=anchor,
        has_left=has_left,
        has_right=has_right,
        has_sinks=False,
        lse="none",
        prefix_q=False,
        prefix_kv=False,
        negative_scale=False,
    )
    results = np.zeros(6, np.int32)
    pointer = make_ptr(
        Int32, results.ctypes.data, cute.AddressSpace.generic, assumed_align=4
    )
    # The host function holds no kernel; any target compiles it.
    build = cute.compile[cute.GPUArch("sm_120a")]
    function = build(probe, config, pointer, *[Int32(1)] * 5)
    return config, results, pointer, function


def kept(anchor, row, len_q, len_kv, left, right):
    diagonal = row + (len_kv - len_q if anchor == "bottom_right" else 0)
    return {
        j
        for j in range(len_kv)
        if (left is None or j >= diagonal - left)
        and (right is None or j <= diagonal + right)
    }


@pytest.mark.parametrize("anchor", ["top_left", "bottom_right"])
@pytest.mark.parametrize("bounded", ["none", "left", "right", "both"])
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_bounds_cover_exactly_what_rows_keep(anchor, bounded, data):
    left = bounded in ("left", "both")
    right = bounded in ("right", "both")
    config, results, pointer, function = compiled(anchor, left, right)
    len_q = data.draw(st.integers(1, 70))
    len_kv = data.draw(st.integers(0, 300))
    width_left = data.draw(st.integers(0, 320)) if left else None
    width_right = data.draw(st.integers(0, 320)) if right else None
    row0 = 16 * data.draw(st.integers(0, (len_q - 1) // 16))
    numbers = (row0, len_q, len_kv, width_left or 0, width_right or 0)
    function(pointer, *map(Int32, numbers))
    begin, plain_begin, plain_end, end, first, last = (int(x) for x in results)

    rows = range(row0, min(row0 + 16, len_q))
    sets = [kept(anchor, i, len_q, len_kv, width_left, width_right) for i in rows]
    assert 0 <= begin <= plain_begin <= plain_end <= end
    assert set(range(first, last + 1)) == sets[0]
    needed = {j // config.tile_n for keys in sets for j in keys}
    visited = set(range(begin, end))
    assert needed <= visited
    # No tile beyond the outermost needed ones is loaded.
    if needed:
        assert visited == set(range(min(needed), max(needed) + 1))
    for tile in range(plain_begin, plain_end):
        whole = set(range(tile * config.tile_n, (tile + 1) * config.tile_n))
        assert all(whole <= keys for keys in sets)
    # A whole tile is only masked when some other tile forces the split.
    for tile in range(plain_end, end):
        assert any(
            (tile + 1) * config.tile_n - 1 not in keys for keys in sets
        ) or bounded in ("left", "both")
    # Value rows past the end lie only where the clipping span looks for them.
    assert plain_end * config.tile_n <= len_kv or plain_end == 0
