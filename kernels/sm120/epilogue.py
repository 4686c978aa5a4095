"""Writing a warp's finished rows: the output through shared memory.

Each warp stages its rows in its own rows of the Q tile, which it alone reads and
which are dead once its last K tile is done; only the warp has to agree.
"""

import cutlass
from cutlass import Int32, Int64, Uint32, cute

from sidestream.kernels.common.element import element_type
from sidestream.kernels.common.opaque import opaque
from sidestream.kernels.common.swizzle import UNIT, unit_pointer
from sidestream.kernels.sm120.config import WARP, KernelConfig
from sidestream.kernels.sm120.mainloop import words
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
    rounded = cute.make_rmem_tensor(4 * config.d_tiles, element_type(config))
    rounded.store(output.load().to(element_type(config)))
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
def copy_unit(source: cute.Pointer, target: cute.Pointer) -> None:
    """Copy 16 bytes."""
    vector = cute.make_rmem_tensor(4, Uint32)
    words_of = cute.make_layout(4)
    cute.autovec_copy(
        cute.make_tensor(cute.recast_ptr(source, dtype=Uint32), words_of), vector
    )
    cute.autovec_copy(
        vector, cute.make_tensor(cute.recast_ptr(target, dtype=Uint32), words_of)
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
) -> None:
    """Copy a warp's staged live rows to global memory, 16 bytes a lane.

    `tile_row` is the warp's first row in the tile, `out` the head's column of token 0,
    `first_token` the token of that row. Rows at or past `live_rows` belong to another
    sequence, or to nobody, and are not touched.
    """
    units = config.head_dim_v // UNIT
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
            offset = (first_token + row) * token_stride + unit * UNIT
            copy_unit(source, out + cute.assume(offset, divby=UNIT))
