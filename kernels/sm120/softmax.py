"""Online softmax over the score fragment of one warp.

Fragment layout of `mma.m16n8k16` (PTX ISA, "Matrix Fragments for mma.m16n8k16"): lane
4g+t holds rows g and g+8, columns 2t and 2t+1 of every 8-column tile; element
`4*tile + 2*half + j` is row `g + 8*half`, column `8*tile + 2*t + j`. The four lanes of
a quad share two rows.

The running maximum `top` is kept in log2 units, already rounded after the product with
the scale. It is a maximum of rounded products, so an unchanged maximum gives a rescale
factor of exactly 1 and no drift over long sequences. Where the shape has a lag, `top`
follows only a greater growth; the result is the same softmax, since the reference
cancels in the quotient.
"""

import cutlass
from cutlass import Float32, Int32, cute

from sidestream.kernels.common.bounds import row_limits
from sidestream.kernels.common.normalise import finite_or_zero
from sidestream.kernels.sm120.config import KernelConfig


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
        # Against differences, every element needs one comparison with a constant.
        first = first - column
        last = last - column
        for tile in cutlass.range_constexpr(config.n_tiles):
            for j in cutlass.range_constexpr(2):
                keep = last >= 8 * tile + j
                if cutlass.const_expr(config.has_left):
                    keep = keep and first <= 8 * tile + j
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
def raise_top(
    config: cutlass.Constexpr[KernelConfig],
    scores: cute.Tensor,
    top: cute.Tensor,
    alpha: cute.Tensor,
    scale_log2: Float32,
) -> None:
    """Take a band's new scores into the running maximum.

    `top` holds the two rows' running maximum (log2 units) and is raised; `alpha`
    becomes the factor on what came before.
    """
    for half in cutlass.range_constexpr(2):
        peak = -Float32.inf
        for tile in cutlass.range_constexpr(config.n_tiles):
            for j in cutlass.range_constexpr(2):
                peak = cute.arch.fmax(peak, scores[4 * tile + 2 * half + j])
        before = top[half]
        after = cute.arch.fmax(before, quad_max(peak) * scale_log2)
        if cutlass.const_expr(config.shape.lag > 0.0):
            # Both may be -inf: their difference is NaN, and the comparison false.
            after = cutlass.select_(after - before <= config.shape.lag, before, after)
        alpha[half] = cute.math.exp2(before - finite_or_zero(after), fastmath=True)
        top[half] = after


@cute.jit
def rescale(
    config: cutlass.Constexpr[KernelConfig], output: cute.Tensor, alpha: cute.Tensor
) -> None:
    """Multiply what a warp has accumulated by its rows' factors, unless all are 1."""
    changed = alpha[0, 0] != 1.0
    for slot in cutlass.range_constexpr(1, 2 * config.bands):
        changed = changed or alpha[slot % 2, slot // 2] != 1.0
    if cute.arch.vote_any_sync(changed):
        for band in cutlass.range_constexpr(config.bands):
            for tile in cutlass.range_constexpr(config.d_tiles):
                for j in cutlass.range_constexpr(4):
                    index = 4 * tile + j
                    output[index, band] = output[index, band] * alpha[j // 2, band]


@cute.jit
def weigh(
    config: cutlass.Constexpr[KernelConfig],
    scores: cute.Tensor,
    top: cute.Tensor,
    fresh: cute.Tensor,
    scale_log2: Float32,
) -> None:
    """Turn the scores of some keys into unnormalised weights and add them to `fresh`.

    `scores` has the elements of whole accumulator tiles of a band, `top` and `fresh`
    one for each of the two rows. Weights are 2^`config.bias` as large as `top` says.
    """
    for half in cutlass.range_constexpr(2):
        base = finite_or_zero(top[half])
        if cutlass.const_expr(config.bias > 0.0):
            base = base - config.bias
        for tile in cutlass.range_constexpr(cute.size(scores) // 4):
            for j in cutlass.range_constexpr(2):
                index = 4 * tile + 2 * half + j
                power = cute.math.fma(scores[index], scale_log2, -base)
                weight = cute.math.exp2(power, fastmath=True)
                scores[index] = weight
                fresh[half] = fresh[half] + weight
