"""One warp's walk over its K/V tiles: scores, softmax, weighted values."""

import cutlass
from cutlass import Float32, Int32, Uint32, cute

from sidestream.kernels.common import phases
from sidestream.kernels.common.config import Each
from sidestream.kernels.common.element import element_type
from sidestream.kernels.common.opaque import opaque
from sidestream.kernels.common.softmax import grown_sum
from sidestream.kernels.sm120 import barriers as bar
from sidestream.kernels.sm120.config import BAND, KernelConfig
from sidestream.kernels.sm120.operands import (
    cell_type,
    operand,
    pack_weights,
    product,
    words,
)
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
)
from sidestream.kernels.sm120.values import value_step, values_origin

SIGN_BITS = {1: 0x80808080, 2: 0x80008000}
"""Sign bits of a word of packed floats, by their bytes."""


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
        cell_type(config),
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
            packed[i] = packed[i] ^ Uint32(SIGN_BITS[config.element_bytes])


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
    cell = cell_type(config)
    mma = product(config)
    fragment = cute.make_rmem_tensor((4, 2), cell)
    flat = cute.make_tensor(fragment.iterator, cute.make_layout(8))
    accumulators = cute.make_tensor(
        scores.iterator, cute.make_layout((4, config.n_tiles, config.bands))
    )
    query = cute.make_rmem_tensor((8, config.bands), cell)
    scores.fill(0.0)
    for k in cutlass.range_constexpr(config.k_steps):
        for band in cutlass.range_constexpr(config.bands):
            load_query(config, queries, queries_start, band, k, query[None, band])
        for pair in cutlass.range_constexpr(config.n_tiles // 2):
            load_b_pair(cell, keys, config.tile_n, keys_start, pair, k, flat)
            for side in cutlass.range_constexpr(2):
                for band in cutlass.range_constexpr(config.bands):
                    target = accumulators[None, 2 * pair + side, band]
                    cute.mma_atom_call(
                        mma,
                        target,
                        operand(config, query[None, band]),
                        operand(config, fragment[None, side]),
                        target,
                    )


@cute.jit
def walk_tiles(
    config: cutlass.Constexpr[KernelConfig],
    barriers: cute.Pointer,
    cells: Each,
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

    `cells` are the tiles in shared memory.
    `tile_row` is the warp's first row of the Q tile, `row` the lane's upper local row
    of the first band.
    `mask` tests every element, `clip` clears value rows past the end; interior tiles
    need neither.
    """
    stages = config.stages
    k_elements, v_elements = config.k_bytes // 2, config.v_bytes // 2
    bands, span = config.bands, config.k_width
    scores = cute.make_rmem_tensor((4 * config.n_tiles, bands), Float32)
    by_step = cute.make_tensor(
        scores.iterator, cute.make_layout((span // 2, config.tile_n // span, bands))
    )
    weights = cute.make_rmem_tensor((span // 2, bands), element_type(config))
    alpha = cute.make_rmem_tensor((2, bands), Float32)
    fresh = cute.make_rmem_tensor((2, bands), Float32)
    lane_key = (cute.arch.lane_idx() % 4) * 2
    queries_start = a_origin(tile_row)
    keys_start = b_origin()
    values_start = values_origin(config)
    for step in cutlass.range(end - begin, unroll=1):
        key0 = (end - 1 - step) * config.tile_n
        stage, parity = phases.stage_and_parity(count, stages)
        k_offset = cute.assume(stage * k_elements, divby=k_elements)
        v_offset = cute.assume(stage * v_elements, divby=v_elements)

        cute.arch.mbarrier_wait(barriers + (bar.k_full(stages) + stage), parity)
        score_tile(
            config,
            cells.q,
            opaque(queries_start),
            cells.k + k_offset,
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

        # Values are waited for before the weights are made, and weights are made for
        # one product at a time: exponentials then run beside those of other keys.
        cute.arch.mbarrier_wait(barriers + (bar.v_full(stages) + stage), parity)
        fresh.fill(0.0)
        values_start_here = opaque(values_start)
        for k in cutlass.range_constexpr(config.tile_n // span):
            for band in cutlass.range_constexpr(bands):
                part = by_step[None, k, band]
                weigh(config, part, top[None, band], fresh[None, band], scale_log2)
                pack_weights(config, part, weights[None, band])
            value_step(
                config,
                weights,
                cells.v + v_offset,
                values_start_here,
                output,
                k,
                key0 + lane_key,
                len_kv,
                clip,
            )
        for slot in cutlass.range_constexpr(2 * bands):
            half, band = slot % 2, slot // 2
            total[half, band] = grown_sum(
                total[half, band], alpha[half, band], fresh[half, band]
            )
        phases.arrive_warp(barriers + (bar.v_empty(stages) + stage))
        count = count + 1
    return count
