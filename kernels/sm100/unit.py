"""What a role knows of its unit: the record, and the tiles each sub-tile visits.

The loader writes a record per unit into a ring in shared memory; one lane writes it
before that lane's arrival on RECORD_FULL, the readers copy it and arrive on
RECORD_EMPTY. Every role derives the tile ranges from the same record by the same code.
"""

import cutlass
from cutlass import Int32, cute

from sidestream.kernels.common.bounds import tile_range
from sidestream.kernels.sm100 import barriers as bar
from sidestream.kernels.sm100.config import KernelConfig

LIVE = 0
HEAD = 1
ROW0 = 2
Q_START = 3
LEN_Q = 4
LEN_KV = 5
WORDS = 8


@cute.jit
def publish_unit(
    barriers: cute.Pointer,
    records: cute.Tensor,
    turn: Int32,
    live: Int32,
    head: Int32,
    row0: Int32,
    q_start: Int32,
    len_q: Int32,
    len_kv: Int32,
) -> None:
    """Write record number `turn`; with `live` 0 it ends every reader's loop."""
    slot, parity = bar.stage_and_parity(turn, bar.RECORDS)
    cute.arch.mbarrier_wait(barriers + (bar.RECORD_EMPTY + slot), parity ^ 1)
    with cute.arch.elect_one():
        records[slot, LIVE] = live
        records[slot, HEAD] = head
        records[slot, ROW0] = row0
        records[slot, Q_START] = q_start
        records[slot, LEN_Q] = len_q
        records[slot, LEN_KV] = len_kv
        cute.arch.mbarrier_arrive(barriers + (bar.RECORD_FULL + slot))


@cute.jit
def read_unit(
    barriers: cute.Pointer, records: cute.Tensor, turn: Int32
) -> tuple[Int32, Int32, Int32, Int32, Int32, Int32]:
    """Copy record number `turn`: live, head, row0, q_start, len_q, len_kv."""
    slot, parity = bar.stage_and_parity(turn, bar.RECORDS)
    cute.arch.mbarrier_wait(barriers + (bar.RECORD_FULL + slot), parity)
    live = records[slot, LIVE]
    head = records[slot, HEAD]
    row0 = records[slot, ROW0]
    q_start = records[slot, Q_START]
    len_q = records[slot, LEN_Q]
    len_kv = records[slot, LEN_KV]
    bar.arrive_warp(barriers + (bar.RECORD_EMPTY + slot))
    return live, head, row0, q_start, len_q, len_kv


@cute.jit
def sub_tile_range(
    config: cutlass.Constexpr[KernelConfig],
    row: Int32,
    len_q: Int32,
    len_kv: Int32,
    left: Int32,
    right: Int32,
) -> tuple[Int32, Int32, Int32, Int32]:
    """`tile_range` of the sub-tile at local row `row`; zeros if it visits no tile."""
    begin, plain_begin, plain_end, end = tile_range(
        config, row, len_q, len_kv, left, right
    )
    if row >= len_q or begin >= end:
        begin = Int32(0)
        plain_begin = Int32(0)
        plain_end = Int32(0)
        end = Int32(0)
    return begin, plain_begin, plain_end, end


@cute.jit
def unit_ranges(
    config: cutlass.Constexpr[KernelConfig],
    row0: Int32,
    len_q: Int32,
    len_kv: Int32,
    left: Int32,
    right: Int32,
) -> tuple[Int32, Int32, Int32, Int32, Int32, Int32]:
    """Tiles of both sub-tiles and of the unit: begin and end of each in turn.

    The diagonal of the second sub-tile lies 128 keys to the right, so its range starts
    and ends no earlier than the first's and leaves no gap to it.
    """
    begin0, _, _, end0 = sub_tile_range(config, row0, len_q, len_kv, left, right)
    begin1, _, _, end1 = sub_tile_range(
        config, row0 + config.tile_m, len_q, len_kv, left, right
    )
    begin = begin0
    end = end1
    if begin0 >= end0:
        begin = begin1
    if begin1 >= end1:
        end = end0
    return begin0, end0, begin1, end1, begin, end
