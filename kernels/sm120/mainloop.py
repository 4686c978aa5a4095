"""One warp's walk over its K/V tiles: scores, softmax, weighted values."""

import cutlass
from cutlass import Float32, Int32, Uint32, cute
from cutlass.cute.nvgpu import warp as warp_ops

from sidestream.kernels.common import phases
from sidestream.kernels.common.element import element_type
from sidestream.kernels.common.opaque import opaque
from sidestream.kernels.sm120 import barriers as bar
from sidestream.kernels.sm120.config import BAND, KernelConfig
from sidestream.kernels.sm120.softmax import (
    mask_scores,
    raise_top,
    rescale,
    weigh,
)
from sidestream.kernels.sm120.swizzle import (
    a_origin,
    b_origin,
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
    start: Int32,
    band: cutlass.Constexpr[int],
    k_step: cutlass.Constexpr[int],
    fragment: cute.Tensor,
) -> None:
    """A fragment of a band of 16 rows; negated when the scale is negative.

    The softmax then works with the scale's magnitude, so that a larger product always
    means a larger weight. Fragments are reloaded for every K tile: keeping all of them
    in registers would spill at head dimension 128.
    """
    load_a(
        element_type(config),
        tile,
        config.tile_m,
        start,
        BAND * band,
        k_step,
        fragment,
    )
    if cutlass.const_expr(config.negative_scale):
        packed = words(fragment, 4)
        for i in cutlass.range_constexpr(4):
            packed[i] = packed[i] ^ Uint32(SIGN_BITS)


@cute.jit
def score_tile(
    config: cutlass.Constexpr[KernelConfig],
    queries: cute.Pointer,
    queries_start: Int32,
    keys: cute.Pointer,
    keys_start: Int32,
    scores: cute.Tensor,
) -> None:
    """Set `scores` to Q K^T for the warp's rows and one K tile.

    `queries_start` is the `a_origin` of the warp's first row of the Q tile,
    `keys_start` is `b_origin`; `scores` has a column for each band.
    """
    dtype = element_type(config)
    mma = cute.make_mma_atom(warp_ops.MmaF16BF16Op(dtype, Float32, (16, 8, 16)))
    fragment = cute.make_rmem_tensor((4, 2), dtype)
    flat = cute.make_tensor(fragment.iterator, cute.make_layout(8))
    accumulators = cute.make_tensor(
        scores.iterator, cute.make_layout((4, config.n_tiles, config.bands))
    )
    query = cute.make_rmem_tensor((8, config.bands), dtype)
    scores.fill(0.0)
    for k in cutlass.range_constexpr(config.k_steps):
        for band in cutlass.range_constexpr(config.bands):
            load_query(config, queries, queries_start, band, k, query[None, band])
        for pair in cutlass.range_constexpr(config.n_tiles // 2):
            load_b_pair(dtype, keys, config.tile_n, keys_start, pair, k, flat)
            for side in cutlass.range_constexpr(2):
                for band in cutlass.range_constexpr(config.bands):
                    target = accumulators[None, 2 * pair + side, band]
                    cute.mma_atom_call(
                        mma, target, query[None, band], fragment[None, side], target
                    )


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
    """Add P V to `output` for the warp's rows and the `k`-th 16 rows of a V tile.

    `weights` holds an A fragment for each band; `values_start` is the `a_origin` of
    row 0, `first_key` the lane's first key of the tile. With `clip`, value rows at or
    past `len_kv` are cleared in registers: their weight is 0, but they belong to the
    next sequence or to the capacity tail and may hold NaN or infinity, and 0 times
    those is NaN.
    """
    dtype = element_type(config)
    mma = cute.make_mma_atom(warp_ops.MmaF16BF16Op(dtype, Float32, (16, 8, 16)))
    fragment = cute.make_rmem_tensor((4, 2), dtype)
    flat = cute.make_tensor(fragment.iterator, cute.make_layout(8))
    packed = words(fragment, 4)
    accumulators = cute.make_tensor(
        output.iterator, cute.make_layout((4, config.d_tiles, config.bands))
    )
    upper = live_row_mask(first_key + 16 * k, len_kv)
    lower = live_row_mask(first_key + (16 * k + 8), len_kv)
    for pair in cutlass.range_constexpr((config.d_tiles + 1) // 2):
        load_b_pair_transposed(
            dtype, values, config.tile_n, values_start, pair, k, flat
        )
        for side in cutlass.range_constexpr(2):
            if cutlass.const_expr(2 * pair + side < config.d_tiles):
                if cutlass.const_expr(clip):
                    packed[2 * side] = packed[2 * side] & upper
                    packed[2 * side + 1] = packed[2 * side + 1] & lower
                for band in cutlass.range_constexpr(config.bands):
                    target = accumulators[None, 2 * pair + side, band]
                    cute.mma_atom_call(
                        mma, target, weights[None, band], fragment[None, side], target
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

    `tile_row` is the warp's first row of the Q tile, `row` the lane's upper local row
    of the first band.
    `mask` tests every element, `clip` clears value rows past the end; interior tiles
    need neither.
    """
    dtype = element_type(config)
    stages = config.stages
    k_elements, v_elements = config.k_bytes // 2, config.v_bytes // 2
    bands = config.bands
    scores = cute.make_rmem_tensor((4 * config.n_tiles, bands), Float32)
    by_step = cute.make_tensor(
        scores.iterator, cute.make_layout((8, config.n_tiles // 2, bands))
    )
    weights = cute.make_rmem_tensor((8, bands), dtype)
    alpha = cute.make_rmem_tensor((2, bands), Float32)
    fresh = cute.make_rmem_tensor((2, bands), Float32)
    lane_key = (cute.arch.lane_idx() % 4) * 2
    queries_start = a_origin(tile_row)
    keys_start = b_origin()
    values_start = a_origin(Int32(0))
    for step in cutlass.range(end - begin, unroll=1):
        key0 = (end - 1 - step) * config.tile_n
        stage, parity = phases.stage_and_parity(count, stages)
        k_offset = cute.assume(stage * k_elements, divby=k_elements)
        v_offset = cute.assume(stage * v_elements, divby=v_elements)

        cute.arch.mbarrier_wait(barriers + (bar.k_full(stages) + stage), parity)
        score_tile(
            config,
            smem_q,
            opaque(queries_start),
            smem_k + k_offset,
            opaque(keys_start),
            scores,
        )
        phases.arrive_warp(barriers + (bar.k_empty(stages) + stage))

        for band in cutlass.range_constexpr(bands):
            part = scores[None, band]
            if cutlass.const_expr(mask):
                mask_scores(
                    config, part, key0, row + BAND * band, len_q, len_kv, left, right
                )
            raise_top(
                config,
                part,
                top[None, band],
                alpha[None, band],
                scale_log2,
            )
        rescale(config, output, alpha)

        # Values are waited for before the weights are made, and weights are made 16
        # keys at a time: exponentials then run beside the products of other keys.
        cute.arch.mbarrier_wait(barriers + (bar.v_full(stages) + stage), parity)
        fresh.fill(0.0)
        values_start_here = opaque(values_start)
        for k in cutlass.range_constexpr(config.tile_n // BAND):
            for band in cutlass.range_constexpr(bands):
                part = by_step[None, k, band]
                weigh(part, top[None, band], fresh[None, band], scale_log2)
                weights[None, band].store(part.load().to(dtype))
            value_step(
                config,
                weights,
                smem_v + v_offset,
                values_start_here,
                output,
                k,
                key0 + lane_key,
                len_kv,
                clip,
            )
        for slot in cutlass.range_constexpr(2 * bands):
            half, band = slot % 2, slot // 2
            total[half, band] = cute.math.fma(
                total[half, band], alpha[half, band], fresh[half, band]
            )
        phases.arrive_warp(barriers + (bar.v_empty(stages) + stage))
        count = count + 1
    return count
