"""P V of some keys: values by `ldmatrix`, cleared where no key is, and products."""

import cutlass
from cutlass import Int32, Uint32, cute

from sidestream.kernels.sm120.config import KernelConfig
from sidestream.kernels.sm120.operands import (
    cell_type,
    operand,
    part_columns,
    product,
    words,
)
from sidestream.kernels.sm120.swizzle import (
    a_origin,
    load_matrices,
    origin,
    step_pointer,
)


@cute.jit
def values_origin(config: cutlass.Constexpr[KernelConfig]) -> Int32:
    """Where a lane's row of the first step of a V tile starts, for `value_step`.

    Matrices in register order: of two bytes both groups of 8 keys for 8 columns, then
    for the next 8; of one byte all four groups of 8 keys for 16 columns.
    """
    start = Int32(0)
    if cutlass.const_expr(config.narrow):
        start = origin(cute.arch.lane_idx(), Int32(0))
    else:
        start = a_origin(Int32(0))
    return start


@cute.jit
def live_row_mask(key: Int32, len_kv: Int32) -> Uint32:
    """Bits to keep of a word that packs cells of the value rows `key` and `key + 1`."""
    mask = Uint32(0)
    if key < len_kv:
        mask = Uint32(0x0000FFFF)
    if key + 1 < len_kv:
        mask = Uint32(0xFFFFFFFF)
    return mask


@cute.jit
def value_step(
    config: cutlass.Constexpr[KernelConfig],
    weights: cute.Tensor,
    values: cute.Pointer,
    values_start: Int32,
    output: cute.Tensor,
    k: cutlass.Constexpr[int],
    first_key: Int32,
    len_kv: Int32,
    clip: cutlass.Constexpr[bool],
) -> None:
    """Add P V to `output` for the warp's rows and the `k`-th keys of a V tile.

    As many keys as an instruction contracts. `weights` holds an A fragment for each
    band; `values_start` is `values_origin`, `first_key` the lane's first key of the
    tile. With `clip`, value rows at or past `len_kv` are cleared in registers: their
    weight is 0, but they belong to the next sequence or to the capacity tail and may
    hold NaN or infinity, and 0 times those is NaN.
    """
    mma = product(config)
    fragment = cute.make_rmem_tensor((4, 2), cell_type(config))
    flat = cute.make_tensor(fragment.iterator, cute.make_layout(8))
    packed = words(fragment, 4)
    accumulators = cute.make_tensor(
        output.iterator, cute.make_layout((4, config.d_tiles, config.bands))
    )
    groups = config.k_width // 8
    kept = cute.make_rmem_tensor(groups, Uint32)
    for i in cutlass.range_constexpr(groups):
        kept[i] = live_row_mask(first_key + (config.k_width * k + 8 * i), len_kv)
    # 32 bytes of a row are two units of 8 columns or two of 16: a load takes both
    # units of 16 keys, or one of 32.
    units = 2 if not config.narrow else 1
    for pair in cutlass.range_constexpr((config.d_tiles + 1) // 2):
        source = step_pointer(
            values, config.tile_n, values_start, config.k_width * k, units * pair
        )
        load_matrices(cell_type(config), source, flat, transpose=True)
        if cutlass.const_expr(clip):
            for i in cutlass.range_constexpr(4):
                packed[i] = packed[i] & kept[i % groups]
        for side in cutlass.range_constexpr(2):
            if cutlass.const_expr(2 * pair + side < config.d_tiles):
                part = fragment[None, side]
                if cutlass.const_expr(config.narrow):
                    part = operand(config, part_columns(packed, side))
                for band in cutlass.range_constexpr(config.bands):
                    target = accumulators[None, 2 * pair + side, band]
                    cute.mma_atom_call(mma, target, weights[None, band], part, target)
