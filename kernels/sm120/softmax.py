"""Online softmax over the score fragment of one warp.

Fragment layout of `mma.m16n8k16` (PTX ISA, "Matrix Fragments for mma.m16n8k16"): lane
4g+t holds rows g and g+8, columns 2t and 2t+1 of every 8-column tile; element
`4*tile + 2*half + j` is row `g + 8*half`, column `8*tile + 2*t + j`. The four lanes of
a quad share two rows.

The running maximum `top` is kept in log2 units, already rounded after the product with
the scale. It is a maximum of rounded products, so an unchanged maximum gives a rescale
factor of exactly 1 and no drift over long sequences.
"""

import cutlass
from cutlass import Float32, Int32, cute

from sidestream.kernels.sm120.bounds import row_limits
from sidestream.kernels.sm120.config import KernelConfig

LN2 = 0.6931471805599453
LOG2E = 1.4426950408889634


@cute.jit
def mask_scores(
    config: cutlass.Constexpr[KernelConfig],
    scores: cute.Tensor,
    key0: Int32,
    row: Int32,
    len_q: Int32,
    len_kv: Int32,
    left: Int32,
    right: Int32,
) -> None:
    """Replace scores of keys that a row does not keep by -inf; `row` is the upper one.

    A select, not arithmetic: keys past the end may have produced NaN scores.
    """
    column = key0 + (cute.arch.lane_idx() % 4) * 2
    for half in cutlass.range_constexpr(2):
        first, last = row_limits(config, row + 8 * half, len_q, len_kv, left, right)
        for tile in cutlass.range_constexpr(config.n_tiles):
            for j in cutlass.range_constexpr(2):
                key = column + (8 * tile + j)
                keep = key <= last
                if cutlass.const_expr(config.has_left):
                    keep = keep and key >= first
                index = 4 * tile + 2 * half + j
                scores[index] = cutlass.select_(keep, scores[index], -Float32.inf)


@cute.jit
def quad_max(value: Float32) -> Float32:
    """Maximum over the four lanes that share a row."""
    value = cute.arch.fmax(value, cute.arch.shuffle_sync_bfly(value, offset=1))
    return cute.arch.fmax(value, cute.arch.shuffle_sync_bfly(value, offset=2))


@cute.jit
def quad_sum(value: Float32) -> Float32:
    """Sum over the four lanes that share a row, in one fixed order."""
    value = value + cute.arch.shuffle_sync_bfly(value, offset=1)
    return value + cute.arch.shuffle_sync_bfly(value, offset=2)


@cute.jit
def finite_or_zero(value: Float32) -> Float32:
    """0 in place of -inf, so that -inf minus -inf never forms."""
    return cutlass.select_(value == -Float32.inf, Float32(0.0), value)


@cute.jit
def softmax_step(
    config: cutlass.Constexpr[KernelConfig],
    scores: cute.Tensor,
    output: cute.Tensor,
    top: cute.Tensor,
    total: cute.Tensor,
    scale_log2: Float32,
) -> None:
    """Turn scores into unnormalised probabilities and rescale what came before.

    `scores` and `output` are accumulator fragments; `top` and `total` hold the two
    rows' running maximum (log2 units) and this lane's share of the running sum.
    """
    for half in cutlass.range_constexpr(2):
        peak = -Float32.inf
        for tile in cutlass.range_constexpr(config.n_tiles):
            for j in cutlass.range_constexpr(2):
                peak = cute.arch.fmax(peak, scores[4 * tile + 2 * half + j])
        before = top[half]
        after = cute.arch.fmax(before, quad_max(peak) * scale_log2)
        base = finite_or_zero(after)
        alpha = cute.math.exp2(before - base, fastmath=True)
        top[half] = after
        fresh = Float32(0.0)
        for tile in cutlass.range_constexpr(config.n_tiles):
            for j in cutlass.range_constexpr(2):
                index = 4 * tile + 2 * half + j
                power = cute.math.fma(scores[index], scale_log2, -base)
                weight = cute.math.exp2(power, fastmath=True)
                scores[index] = weight
                fresh = fresh + weight
        total[half] = cute.math.fma(total[half], alpha, fresh)
        for tile in cutlass.range_constexpr(config.d_tiles):
            for j in cutlass.range_constexpr(2):
                index = 4 * tile + 2 * half + j
                output[index] = output[index] * alpha


@cute.jit
def finish_row(
    config: cutlass.Constexpr[KernelConfig],
    top: Float32,
    total: Float32,
    sink: Float32,
) -> tuple[Float32, Float32]:
    """Factor that normalises a row of the output, and the row's log-sum-exp.

    `total` is complete over the quad. A row without keys (top is -inf) gets factor 0
    and log-sum-exp -inf, or the sink itself. With a sink the sum is rebased to the
    larger of the two, so that neither a huge nor a very negative sink overflows.
    """
    lse = -Float32.inf
    factor = Float32(0.0)
    if cutlass.const_expr(config.has_sinks):
        sink_log2 = sink * LOG2E
        base = finite_or_zero(cute.arch.fmax(top, sink_log2))
        keys = cute.math.exp2(top - base, fastmath=True)
        whole = cute.math.fma(
            total, keys, cute.math.exp2(sink_log2 - base, fastmath=True)
        )
        lse = sink
        if top != -Float32.inf:
            factor = keys * cute.arch.rcp_approx(whole)
            lse = (base + cute.math.log2(whole, fastmath=True)) * LN2
    else:
        if top != -Float32.inf:
            factor = cute.arch.rcp_approx(total)
            lse = (top + cute.math.log2(total, fastmath=True)) * LN2
    return factor, lse
