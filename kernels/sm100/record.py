"""What a role knows of its unit: the record that the loader writes.

A ring of records lies in shared memory. One lane of the loader writes a record before
its arrival on RECORD_FULL; the other warps copy it and arrive on RECORD_EMPTY. All of
them see the same tile ranges, because the loader alone derives them.
"""

import cutlass
from cutlass import Boolean, Int32, cute

from sidestream.kernels.common import phases, unit
from sidestream.kernels.common.bounds import tile_range
from sidestream.kernels.sm100 import barriers as bar
from sidestream.kernels.sm100.config import KernelConfig

BEGIN = unit.WORDS
"""First of the tiles that the pair visits, from END - 1 down."""
END = BEGIN + 1
SUB = END + 1
"""First word of sub-tile 0; each has SUB_WORDS."""
SUB_BEGIN = 0
SUB_PLAIN_BEGIN = 1
SUB_PLAIN_END = 2
SUB_END = 3
SUB_WORDS = 4
WORDS = SUB + bar.SUB_TILES * SUB_WORDS


def first_tile(sub: int) -> int:
    """Word that holds the first tile of a sub-tile's range."""
    return SUB + sub * SUB_WORDS + SUB_BEGIN


def end_tile(sub: int) -> int:
    """Word that holds the end of a sub-tile's range, at most `first_tile` if empty."""
    return SUB + sub * SUB_WORDS + SUB_END


@cute.jit
def fill_sub_tile(
    config: cutlass.Constexpr[KernelConfig],
    facts: cute.Tensor,
    sub: cutlass.Constexpr[int],
    left: Int32,
    right: Int32,
) -> None:
    """Tile ranges of one sub-tile from the record's other facts; zeros if empty."""
    row = facts[unit.ROW0] + sub * config.tile_m
    begin, plain_begin, plain_end, end = tile_range(
        config, row, facts[unit.LEN_Q], facts[unit.LEN_KV], left, right
    )
    if row >= facts[unit.LEN_Q] or begin >= end:
        begin = Int32(0)
        plain_begin = Int32(0)
        plain_end = Int32(0)
        end = Int32(0)
    at = SUB + sub * SUB_WORDS
    facts[at + SUB_BEGIN] = begin
    facts[at + SUB_PLAIN_BEGIN] = plain_begin
    facts[at + SUB_PLAIN_END] = plain_end
    facts[at + SUB_END] = end


@cute.jit
def cover(facts: cute.Tensor, begin: Int32, end: Int32) -> None:
    """Widen the pair's range by one that is not empty.

    Sub-tiles follow each other row by row, so their ranges leave no gap.
    """
    if begin < end:
        if facts[BEGIN] >= facts[END]:
            facts[BEGIN] = begin
            facts[END] = end
        else:
            facts[BEGIN] = cutlass.min(facts[BEGIN], begin)
            facts[END] = cutlass.max(facts[END], end)


@cute.jit
def fill_ranges(
    config: cutlass.Constexpr[KernelConfig],
    facts: cute.Tensor,
    other_row0: Int32,
    left: Int32,
    right: Int32,
) -> None:
    """Tile ranges of this CTA's sub-tiles and of the pair.

    `other_row0` is the first row of the other CTA of the pair, in the same sequence.
    """
    own_row0 = facts[unit.ROW0]
    facts[BEGIN] = Int32(0)
    facts[END] = Int32(0)
    # The other CTA first: what stays in the sub-tile words is this one's.
    for row0 in cutlass.range_constexpr(2):
        facts[unit.ROW0] = other_row0 if row0 == 0 else own_row0
        for sub in cutlass.range_constexpr(config.sub_tiles):
            fill_sub_tile(config, facts, sub, left, right)
            cover(facts, facts[first_tile(sub)], facts[end_tile(sub)])


@cute.jit
def publish_unit(
    barriers: cute.Pointer, records: cute.Tensor, turn: Int32, facts: cute.Tensor
) -> None:
    """Write record number `turn`; one that is not LIVE ends every reader's loop."""
    slot, parity = phases.stage_and_parity(turn, bar.RECORDS)
    cute.arch.mbarrier_wait(barriers + (bar.RECORD_EMPTY + slot), parity ^ 1)
    with cute.arch.elect_one():
        cute.autovec_copy(facts, records[slot, None])
        cute.arch.mbarrier_arrive(barriers + (bar.RECORD_FULL + slot))


@cute.jit
def read_unit(
    barriers: cute.Pointer, records: cute.Tensor, turn: Int32, facts: cute.Tensor
) -> None:
    """Copy record number `turn` into registers and give its place back."""
    slot, parity = phases.stage_and_parity(turn, bar.RECORDS)
    cute.arch.mbarrier_wait(barriers + (bar.RECORD_FULL + slot), parity)
    cute.autovec_copy(records[slot, None], facts)
    phases.arrive_warp(barriers + (bar.RECORD_EMPTY + slot))


@cute.jit
def value_tail(
    config: cutlass.Constexpr[KernelConfig], facts: cute.Tensor
) -> tuple[Boolean, Int32]:
    """Whether this CTA clears V in the pair's first tile, and from which row.

    Only one that works on the tile holds it in place until its P_READY.
    """
    end = facts[END]
    own_end = facts[end_tile(0)]
    if cutlass.const_expr(config.sub_tiles > 1):
        own_end = cutlass.max(own_end, facts[end_tile(1)])
    tail = facts[unit.LEN_KV] - (end - 1) * config.tile_n
    return end > 0 and own_end == end and tail < config.tile_n, tail


@cute.jit
def sub_tile_tiles(facts: cute.Tensor, sub: Int32) -> tuple[Int32, Int32, Int32, Int32]:
    """`(begin, plain_begin, plain_end, end)` of a sub-tile chosen at run time."""
    values = cute.make_rmem_tensor(SUB_WORDS, Int32)
    for word in cutlass.range_constexpr(SUB_WORDS):
        values[word] = cutlass.select_(
            sub == 0, facts[SUB + word], facts[SUB + SUB_WORDS + word]
        )
    return (
        values[SUB_BEGIN],
        values[SUB_PLAIN_BEGIN],
        values[SUB_PLAIN_END],
        values[SUB_END],
    )
