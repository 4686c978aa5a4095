"""An epilogue warp: stores the finished rows of one sub-tile to global memory.

Rows at or past the sequence's end belong to another sequence, or to nobody; they are
staged, but never stored.
"""

import cutlass
from cutlass import Int32, Int64, Uint32, cute

from sidestream.kernels.common.swizzle import UNIT, unit_pointer
from sidestream.kernels.sm100 import barriers as bar
from sidestream.kernels.sm100 import unit as record
from sidestream.kernels.sm100.config import WARP, KernelConfig


@cute.jit
def store_rows(
    config: cutlass.Constexpr[KernelConfig],
    tile: cute.Pointer,
    out: cute.Pointer,
    first_token: Int64,
    live_rows: Int32,
    token_stride: Int64,
) -> None:
    """Copy the first `live_rows` staged rows, 16 bytes a lane.

    `out` is the head's column of token 0, `first_token` the token of row 0.
    """
    units = config.head_dim // UNIT
    lane = cute.arch.lane_idx()
    vector = cute.make_rmem_tensor(4, Uint32)
    total = live_rows * units
    for step in cutlass.range((total + (WARP - 1)) // WARP, unroll=4):
        index = step * WARP + lane
        row = index // units
        unit = index % units
        if index < total:
            source = unit_pointer(tile, config.tile_m, row, unit)
            offset = (first_token + row) * token_stride + unit * UNIT
            target = out + cute.assume(offset, divby=UNIT)
            cute.autovec_copy(
                cute.make_tensor(
                    cute.recast_ptr(source, dtype=Uint32), cute.make_layout(4)
                ),
                vector,
            )
            cute.autovec_copy(
                vector,
                cute.make_tensor(
                    cute.recast_ptr(target, dtype=Uint32), cute.make_layout(4)
                ),
            )


@cute.jit
def run_epilogue(
    config: cutlass.Constexpr[KernelConfig],
    sub: Int32,
    barriers: cute.Pointer,
    records: cute.Tensor,
    smem_out: cute.Pointer,
    out: cute.Pointer,
    out_token_stride: Int64,
    out_head_stride: Int64,
) -> None:
    """Store the rows of sub-tile `sub` until the dead record comes."""
    elements = config.q_bytes // 2
    tile = smem_out + cute.assume(sub * elements, divby=elements)
    count = Int32(0)
    turn = Int32(0)
    facts = cute.make_rmem_tensor(record.WORDS, Int32)
    record.read_unit(barriers, records, turn, facts)
    while facts[record.LIVE] != 0:
        row = facts[record.ROW0] + sub * config.tile_m
        live_rows = cutlass.min(facts[record.LEN_Q] - row, Int32(config.tile_m))
        if live_rows > 0:
            bar.wait_full(barriers + (bar.STAGED + sub), count)
            store_rows(
                config,
                tile,
                out + cute.assume(facts[record.HEAD] * out_head_stride, divby=UNIT),
                Int64(facts[record.Q_START]) + row,
                live_rows,
                out_token_stride,
            )
            bar.arrive_warp(barriers + (bar.DRAINED + sub))
            count = count + 1
        turn = turn + 1
        record.read_unit(barriers, records, turn, facts)
