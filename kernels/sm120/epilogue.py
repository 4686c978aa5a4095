"""Writing a warp's finished rows: the output through shared memory.

Each warp stages its 16 rows in its own rows of the Q tile, which it alone reads and
which are dead once its last K tile is done; only the warp has to agree.
"""

import cutlass
from cutlass import Int32, Int64, Uint32, cute

from sidestream.kernels.common.element import element_type
from sidestream.kernels.common.swizzle import UNIT, unit_pointer
from sidestream.kernels.sm120.config import ROWS_PER_WARP, WARP, KernelConfig
from sidestream.kernels.sm120.mainloop import words


@cute.jit
def stage_output(
    config: cutlass.Constexpr[KernelConfig],
    tile: cute.Pointer,
    row: Int32,
    output: cute.Tensor,
) -> None:
    """Round the accumulators and put them into the swizzled tile, 4 bytes a store.

    `row` is the lane's upper row in the tile.
    """
    rounded = cute.make_rmem_tensor(4 * config.d_tiles, element_type(config))
    rounded.store(output.load().to(element_type(config)))
    packed = words(rounded, 2 * config.d_tiles)
    quad_lane = cute.arch.lane_idx() % 4
    for d in cutlass.range_constexpr(config.d_tiles):
        for half in cutlass.range_constexpr(2):
            unit = unit_pointer(tile, config.tile_m, row + 8 * half, Int32(d))
            pair = cute.make_tensor(
                cute.recast_ptr(unit, dtype=Uint32), cute.make_layout(4)
            )
            pair[quad_lane] = packed[2 * d + half]


@cute.jit
def store_rows(
    config: cutlass.Constexpr[KernelConfig],
    tile: cute.Pointer,
    tile_row: Int32,
    out: cute.Pointer,
    first_token: Int64,
    live_rows: Int32,
    token_stride: Int64,
) -> None:
    """Copy up to 16 staged rows to global memory, 16 bytes a lane.

    `tile_row` is the warp's first row in the tile, `out` the head's column of token 0,
    `first_token` the token of that row. Rows at or past `live_rows` belong to another
    sequence, or to nobody, and are not touched.
    """
    units = config.head_dim // UNIT
    lane = cute.arch.lane_idx()
    vector = cute.make_rmem_tensor(4, Uint32)
    for i in cutlass.range_constexpr(-(-ROWS_PER_WARP * units // WARP)):
        index = i * WARP + lane
        row = index // units
        unit = index % units
        # An odd number of units leaves the last step partly past the warp's rows.
        if row < cutlass.min(live_rows, Int32(ROWS_PER_WARP)):
            source = unit_pointer(tile, config.tile_m, tile_row + row, unit)
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
