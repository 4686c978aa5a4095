"""Writing a warp's finished rows: the output through shared memory.

Each warp stages its rows in its own rows of the Q tile, which it alone reads and
which are dead once its last K tile is done; only the warp has to agree. An output that
is wider than the tile's rows goes in turns, of as many column blocks as they have.
"""

import cutlass
from cutlass import Float32, Int32, Int64, Uint32, cute

from sidestream.kernels.common.element import output_type
from sidestream.kernels.common.opaque import opaque
from sidestream.kernels.common.rows import store_unit
from sidestream.kernels.common.swizzle import UNITS, unit_pointer
from sidestream.kernels.sm120.config import WARP, KernelConfig
from sidestream.kernels.sm120.operands import words
from sidestream.kernels.sm120.swizzle import origin, step_pointer


@cute.jit
def stage_output(
    config: cutlass.Constexpr[KernelConfig],
    tile: cute.Pointer,
    row: Int32,
    below: cutlass.Constexpr[int],
    output: cute.Tensor,
) -> None:
    """Round the accumulators and put them into the swizzled tile, 4 bytes a store.

    The lane's upper row in the tile is `below` rows below `row`.
    """
    rounded = cute.make_rmem_tensor(4 * config.d_tiles, output_type(config))
    rounded.store(output.load().to(output_type(config)))
    packed = words(rounded, 2 * config.d_tiles)
    start = opaque(origin(row, Int32(0)) + (cute.arch.lane_idx() % 4) * 2)
    for d in cutlass.range_constexpr(config.d_tiles):
        for half in cutlass.range_constexpr(2):
            place = step_pointer(tile, config.tile_m, start, below + 8 * half, d)
            word = cute.make_tensor(
                cute.recast_ptr(place, dtype=Uint32), cute.make_layout(1)
            )
            word[0] = packed[2 * d + half]


@cute.jit
def stage_narrow(
    config: cutlass.Constexpr[KernelConfig],
    tile: cute.Pointer,
    row: Int32,
    below: cutlass.Constexpr[int],
    output: cute.Tensor,
    turn: cutlass.Constexpr[int],
) -> None:
    """Likewise for products of one-byte operands, the columns of one turn.

    The lane has four neighbouring columns of every 16 (`operands.py`): 4 or 8 bytes.
    """
    quad = cute.arch.lane_idx() % 4
    size = config.out_bytes
    # 16 columns are `size` units of 16 bytes.
    start = opaque(origin(row, quad * size // 4) + quad * size * 2 % 8)
    wide = config.row_chunks * config.out_chunk // 16
    values = cute.make_rmem_tensor(4, Float32)
    rounded = cute.make_rmem_tensor(4, output_type(config))
    packed = words(rounded, size)
    first = turn * wide
    for unit in cutlass.range_constexpr(min(wide, config.d_tiles // 2 - first)):
        for half in cutlass.range_constexpr(2):
            for column in cutlass.range_constexpr(4):
                tile_of = 2 * (first + unit) + column % 2
                values[column] = output[4 * tile_of + 2 * half + column // 2]
            rounded.store(values.load().to(output_type(config)))
            place = step_pointer(
                tile, config.tile_m, start, below + 8 * half, size * unit
            )
            cute.autovec_copy(
                packed,
                cute.make_tensor(
                    cute.recast_ptr(place, dtype=Uint32), cute.make_layout(size)
                ),
            )


@cute.jit
def store_rows(
    config: cutlass.Constexpr[KernelConfig],
    tile: cute.Pointer,
    tile_row: Int32,
    out: cute.Pointer,
    first_token: Int64,
    live_rows: Int32,
    token_stride: Int64,
    turn: cutlass.Constexpr[int],
) -> None:
    """Copy a warp's staged live rows to global memory, 16 bytes a lane.

    `tile_row` is the warp's first row in the tile, `out` the head's column of token 0,
    `first_token` the token of that row. Rows at or past `live_rows` belong to another
    sequence, or to nobody, and are not touched. `turn` says which columns are staged.
    """
    width = config.out_chunk // UNITS
    first = turn * config.row_chunks * UNITS
    units = min(config.row_chunks * UNITS, config.head_dim_v // width - first)
    lane = opaque(cute.arch.lane_idx())
    live = cutlass.min(live_rows, Int32(config.rows_per_warp))
    for i in cutlass.range_constexpr(-(-config.rows_per_warp * units // WARP)):
        # A number of units that does not divide 32 leaves the last step partly past
        # the warp's rows.
        index = i * WARP + lane
        row = index // units
        unit = index % units
        if row < live:
            source = unit_pointer(tile, config.tile_m, tile_row + row, unit)
            column = (first + unit) * width
            store_unit(config, source, out, first_token, row, column, token_stride)
