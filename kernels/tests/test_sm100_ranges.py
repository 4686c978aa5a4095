"""The tile ranges in a unit record, filled on the host, against brute force.

Both CTAs of a pair have to visit the same tiles, or one waits for the other forever.
"""

from functools import cache

import cutlass
import numpy as np
import pytest
from cutlass import Int32, cute
from cutlass.cute.runtime import make_ptr
from hypothesis import given, settings
from hypothesis import strategies as st

from sidestream.kernels.common import unit
from sidestream.kernels.sm100 import record
from sidestream.kernels.sm100.config import CLUSTER, KernelConfig


@cute.jit
def probe(
    config: cutlass.Constexpr[KernelConfig],
    results: cute.Pointer,
    row0: Int32,
    other_row0: Int32,
    len_q: Int32,
    len_kv: Int32,
    left: Int32,
    right: Int32,
) -> None:
    facts = cute.make_rmem_tensor(record.WORDS, Int32)
    facts[unit.ROW0] = row0
    facts[unit.LEN_Q] = len_q
    facts[unit.LEN_KV] = len_kv
    record.fill_ranges(config, facts, other_row0, left, right)
    cells = cute.make_tensor(results, cute.make_layout(record.WORDS))
    cells[unit.ROW0] = facts[unit.ROW0]
    for word in cutlass.range_constexpr(record.BEGIN, record.WORDS):
        cells[word] = facts[word]


@cache
def compiled(anchor, has_left, has_right):
    config = KernelConfig(
        dtype="float16",
        out_dtype="float16",
        head_dim=64,
        head_dim_v=64,
        anchor=anchor,
        has_left=has_left,
        has_right=has_right,
        has_sinks=False,
        lse="none",
        prefix_q=False,
        prefix_kv=False,
        negative_scale=False,
    )
    results = np.zeros(record.WORDS, np.int32)
    pointer = make_ptr(
        Int32, results.ctypes.data, cute.AddressSpace.generic, assumed_align=4
    )
    # The host function holds no kernel; any target compiles it.
    build = cute.compile[cute.GPUArch("sm_100a")]
    function = build(probe, config, pointer, *[Int32(1)] * 6)
    return config, results, pointer, function


def needed_tiles(config, anchor, rows, len_q, len_kv, left, right):
    """Tiles with a key that some row keeps, and those that every row keeps whole."""
    n = config.tile_n
    some, whole = set(), None
    for row in rows:
        diagonal = row + (len_kv - len_q if anchor == "bottom_right" else 0)
        first = 0 if left is None else max(diagonal - left, 0)
        last = len_kv - 1 if right is None else min(diagonal + right, len_kv - 1)
        some |= {j // n for j in range(first, last + 1)}
        full = {t for t in some if first <= t * n and (t + 1) * n - 1 <= last}
        whole = full if whole is None else whole & full
    return some, whole or set()


@pytest.mark.parametrize("anchor", ["top_left", "bottom_right"])
@pytest.mark.parametrize("bounded", ["none", "left", "right", "both"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_pair_visits_what_its_rows_need(anchor, bounded, data):
    has_left = bounded in ("left", "both")
    has_right = bounded in ("right", "both")
    config, results, pointer, function = compiled(anchor, has_left, has_right)
    len_q = data.draw(st.integers(1, 900))
    len_kv = data.draw(st.integers(0, 1100))
    left = data.draw(st.integers(0, 1200)) if has_left else None
    right = data.draw(st.integers(0, 1200)) if has_right else None
    by_heads = data.draw(st.booleans())
    rows = config.cta_rows if by_heads else CLUSTER * config.cta_rows
    base = rows * data.draw(st.integers(0, (len_q - 1) // rows))
    step = 0 if by_heads else config.cta_rows

    found = []
    for rank in range(CLUSTER):
        own, other = base + rank * step, base + (1 - rank) * step
        numbers = (own, other, len_q, len_kv, left or 0, right or 0)
        function(pointer, *map(Int32, numbers))
        assert results[unit.ROW0] == own
        found.append([int(word) for word in results])

    union = set()
    for rank, words in enumerate(found):
        for sub in range(config.sub_tiles):
            start = base + rank * step + sub * config.tile_m
            live = range(start, min(start + config.tile_m, len_q))
            some, whole = needed_tiles(config, anchor, live, len_q, len_kv, left, right)
            at = record.SUB + sub * record.SUB_WORDS
            begin, plain_begin, plain_end, end = words[at : at + record.SUB_WORDS]
            assert 0 <= begin <= plain_begin <= plain_end <= end
            # No tile beyond the outermost needed ones. Rows that keep nothing visit at
            # most the tile in which their empty range lies.
            if some:
                assert (begin, end) == (min(some), max(some) + 1)
            elif begin < end:
                assert end == begin + 1
            else:
                assert (begin, end) == (0, 0)
            assert set(range(plain_begin, plain_end)) <= whole
            union |= set(range(begin, end))
    for words in found:
        begin, end = words[record.BEGIN], words[record.END]
        assert (begin, end) == (found[0][record.BEGIN], found[0][record.END])
        if union:
            assert (begin, end) == (min(union), max(union) + 1)
            # Every tile on the way is one that somebody works on: what is loaded is
            # held in place by some product.
            assert union == set(range(begin, end))
        else:
            assert (begin, end) == (0, 0)
