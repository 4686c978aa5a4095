"""One warp's walk over its K/V tiles: scores, softmax, weighted values."""

import cutlass
from cutlass import Float32, Int32, Uint32, cute
from cutlass.cute.nvgpu import warp as warp_ops

from sidestream.kernels.common.element import element_type
from sidestream.kernels.sm120 import ring
from sidestream.kernels.sm120.config import KernelConfig
from sidestream.kernels.sm120.softmax import mask_scores, softmax_step
from sidestream.kernels.sm120.swizzle import (
    load_a,
    load_b_pair,
    load_b_pair_transposed,
)

SIGN_BITS = 0x80008000
"""Sign bits of two packed 16-bit floats."""


@cute.jit
def words(fragment: cute.Tensor, count: cutlass.Constexpr[int]) -> cute.Tensor:
    """A register fragment of 16-bit elements as packed 32-bit words."""
    return cute.make_tensor(
        cute.recast_ptr(fragment.iterator, dtype=Uint32), cute.make_layout(count)
    )


@cute.jit
def load_query(
    config: cutlass.Constexpr[KernelConfig],
    tile: cute.Pointer,
    row0: Int32,
    k_step: cutlass.Constexpr[int],
    fragment: cute.Tensor,
) -> None:
    """A fragment of the warp's 16 rows; negated when the scale is negative.

    The softmax then works with the scale's magnitude, so that a larger product always
    means a larger weight. Fragments are reloaded for every K tile: keeping all of them
    in registers would spill at head dimension 128, where nine warps leave 168
    registers a thread.
    """
    load_a(element_type(config), tile, config.tile_m, row0, k_step, fragment)
    if cutlass.const_expr(config.negative_scale):
        packed = words(fragment, 4)
        for i in cutlass.range_constexpr(4):
            packed[i] = packed[i] ^ Uint32(SIGN_BITS)


@cute.jit
def score_tile(
    config: cutlass.Constexpr[KernelConfig],
    queries: cute.Pointer,
    row0: Int32,
    keys: cute.Pointer,
    scores: cute.Tensor,
) -> None:
    """Set `scores` to Q K^T for the 16 rows at `row0` of the Q tile and one K tile."""
    dtype = element_type(config)
    mma = cute.make_mma_atom(warp_ops.MmaF16BF16Op(dtype, Float32, (16, 8, 16)))
    fragment = cute.make_rmem_tensor((4, 2), dtype)
    flat = cute.make_tensor(fragment.iterator, cute.make_layout(8))
    accumulators = cute.make_tensor(
        scores.iterator, cute.make_layout((4, config.n_tiles))
    )
    query = cute.make_rmem_tensor(8, dtype)
    scores.fill(0.0)
    for k in cutlass.range_constexpr(config.k_steps):
        load_query(config, queries, row0, k, query)
        for pair in cutlass.range_constexpr(config.n_tiles // 2):
            load_b_pair(dtype, keys, config.tile_n, pair, k, flat)
            for side in cutlass.range_constexpr(2):
                target = accumulators[None, 2 * pair + side]
                cute.mma_atom_call(mma, target, query, fragment[None, side], target)


@cute.jit
def live_row_mask(key: Int32, len_kv: Int32) -> Uint32:
    """Bits to keep of a word that packs the value rows `key` and `key + 1`."""
    mask = Uint32(0)
    if key < len_kv:
        mask = Uint32(0x0000FFFF)
    if key + 1 < len_kv:
        mask = Uint32(0xFFFFFFFF)
    return mask


@cute.jit
def value_tile(
    config: cutlass.Constexpr[KernelConfig],
    weights: cute.Tensor,
    values: cute.Pointer,
    output: cute.Tensor,
    key0: Int32,
    len_kv: Int32,
    clip: cutlass.Constexpr[bool],
) -> None:
    """Add P V to `output` for 16 rows and one V tile.

    With `clip`, value rows at or past `len_kv` are cleared in registers: their weight
    is 0, but they belong to the next sequence or to the capacity tail and may hold NaN
    or infinity, and 0 times those is NaN.
    """
    dtype = element_type(config)
    mma = cute.make_mma_atom(warp_ops.MmaF16BF16Op(dtype, Float32, (16, 8, 16)))
    fragment = cute.make_rmem_tensor((4, 2), dtype)
    flat = cute.make_tensor(fragment.iterator, cute.make_layout(8))
    packed = words(fragment, 4)
    accumulators = cute.make_tensor(
        output.iterator, cute.make_layout((4, config.d_tiles))
    )
    first_key = key0 + (cute.arch.lane_idx() % 4) * 2
    for k in cutlass.range_constexpr(config.tile_n // 16):
        upper = live_row_mask(first_key + 16 * k, len_kv)
        lower = live_row_mask(first_key + (16 * k + 8), len_kv)
        for pair in cutlass.range_constexpr((config.d_tiles + 1) // 2):
            load_b_pair_transposed(dtype, values, config.tile_n, pair, k, flat)
            for side in cutlass.range_constexpr(2):
                if cutlass.const_expr(2 * pair + side < config.d_tiles):
                    if cutlass.const_expr(clip):
                        packed[2 * side] = packed[2 * side] & upper
                        packed[2 * side + 1] = packed[2 * side + 1] & lower
                    target = accumulators[None, 2 * pair + side]
                    cute.mma_atom_call(
                        mma, target, weights[None, k], fragment[None, side], target
                    )


@cute.jit
def walk_tiles(
    config: cutlass.Constexpr[KernelConfig],
    barriers: cute.Pointer,
    smem_q: cute.Pointer,
    smem_k: cute.Pointer,
    smem_v: cute.Pointer,
    tile_row: Int32,
    output: cute.Tensor,
    top: cute.Tensor,
    total: cute.Tensor,
    begin: Int32,
    end: Int32,
    count: Int32,
    row: Int32,
    len_q: Int32,
    len_kv: Int32,
    left: Int32,
    right: Int32,
    scale_log2: Float32,
    mask: cutlass.Constexpr[bool],
    clip: cutlass.Constexpr[bool],
) -> Int32:
    """Consume tiles [begin, end) from the right; returns the running tile count.

    `tile_row` is the warp's first row of the Q tile, `row` the lane's upper local row.
    `mask` tests every element, `clip` clears value rows past the end; interior tiles
    need neither.
    """
    dtype = element_type(config)
    stages = config.stages
    stage_elements = config.kv_bytes // 2
    scores = cute.make_rmem_tensor(4 * config.n_tiles, Float32)
    weights = cute.make_rmem_tensor((8, config.n_tiles // 2), dtype)
    flat_weights = cute.make_tensor(
        weights.iterator, cute.make_layout(4 * config.n_tiles)
    )
    for step in cutlass.range(end - begin, unroll=1):
        key0 = (end - 1 - step) * config.tile_n
        stage, parity = ring.stage_and_parity(count, stages)
        offset = cute.assume(stage * stage_elements, divby=stage_elements)

        cute.arch.mbarrier_wait(barriers + (ring.k_full(stages) + stage), parity)
        score_tile(config, smem_q, tile_row, smem_k + offset, scores)
        ring.release(barriers + (ring.k_empty(stages) + stage))

        if cutlass.const_expr(mask):
            mask_scores(config, scores, key0, row, len_q, len_kv, left, right)
        softmax_step(config, scores, output, top, total, scale_log2)
        flat_weights.store(scores.load().to(dtype))

        cute.arch.mbarrier_wait(barriers + (ring.v_full(stages) + stage), parity)
        value_tile(config, weights, smem_v + offset, output, key0, len_kv, clip)
        ring.release(barriers + (ring.v_empty(stages) + stage))
        count = count + 1
    return count
