"""An epilogue warp: stores finished rows to global memory, a column block at a time.

With two sub-tiles each warp has one; a single sub-tile is shared by both, which take
its blocks in turn. Rows at or past the sequence's end belong to another sequence, or to
nobody; they are staged, but never stored.
"""

import cutlass
from cutlass import Int32, Int64, cute

from sidestream.kernels.common import phases, unit
from sidestream.kernels.common.operands import Packed
from sidestream.kernels.common.rows import head_of, store_unit
from sidestream.kernels.common.swizzle import UNITS, unit_pointer
from sidestream.kernels.sm100 import barriers as bar
from sidestream.kernels.sm100 import record
from sidestream.kernels.sm100.config import BLOCK_BYTES, WARP, KernelConfig


@cute.jit
def store_rows(
    config: cutlass.Constexpr[KernelConfig],
    tile: cute.Pointer,
    out: cute.Pointer,
    first_token: Int64,
    live_rows: Int32,
    column: Int32,
    token_stride: Int64,
) -> None:
    """Copy the first `live_rows` rows of a block, 16 bytes a lane.

    `out` is the head's column 0 of token 0, `first_token` the token of row 0, `column`
    that of the block's first; columns from the head dimension on are left out.
    """
    width = config.out_chunk // UNITS
    lane = cute.arch.lane_idx()
    piece = lane % UNITS
    per_step = WARP // UNITS
    if column + piece * width < config.head_dim_v:
        block = out + cute.assume(column, divby=config.out_chunk)
        for step in cutlass.range((live_rows + (per_step - 1)) // per_step, unroll=4):
            row = step * per_step + lane // UNITS
            if row < live_rows:
                source = unit_pointer(tile, config.tile_m, row, piece)
                store_unit(
                    config,
                    source,
                    block,
                    first_token,
                    row,
                    piece * width,
                    token_stride,
                )


@cute.jit
def run_epilogue(
    config: cutlass.Constexpr[KernelConfig],
    number: Int32,
    barriers: cute.Pointer,
    records: cute.Tensor,
    smem_out: cute.Pointer,
    rank: Int32,
    out: Packed,
) -> None:
    """Store what falls to epilogue warp `number` until the dead record comes."""
    buffers = config.out_buffers
    sub = number
    if cutlass.const_expr(config.sub_tiles == 1):
        sub = Int32(0)
    column0 = Int32(0)
    if cutlass.const_expr(config.split_values):
        column0 = rank * config.width_v
    counts = cute.make_rmem_tensor(buffers, Int32)
    counts.fill(0)
    turn = Int32(0)
    facts = cute.make_rmem_tensor(record.WORDS, Int32)
    record.read_unit(barriers, records, turn, facts)
    while facts[unit.LIVE] != 0:
        row = facts[unit.ROW0] + sub * config.tile_m
        live_rows = cutlass.min(facts[unit.LEN_Q] - row, Int32(config.tile_m))
        if live_rows > 0:
            for block in cutlass.range_constexpr(config.out_blocks):
                buffer = block % buffers
                mine = cutlass.Boolean(True)  # noqa: FBT003 - a literal of the DSL
                if cutlass.const_expr(config.sub_tiles == 1):
                    mine = number == buffer
                if mine:
                    place = sub * buffers + buffer
                    elements = BLOCK_BYTES // config.out_bytes
                    offset = place * elements
                    phases.wait_full(barriers + (bar.STAGED + place), counts[buffer])
                    store_rows(
                        config,
                        smem_out + cute.assume(offset, divby=elements),
                        head_of(config, out, facts[unit.HEAD]),
                        Int64(facts[unit.Q_START]) + row,
                        live_rows,
                        column0 + block * config.out_chunk,
                        out.token_stride,
                    )
                    phases.arrive_warp(barriers + (bar.DRAINED + place))
                    counts[buffer] = counts[buffer] + 1
        turn = turn + 1
        record.read_unit(barriers, records, turn, facts)
