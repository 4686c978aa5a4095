"""The two matrix products, S = Q K^T and O += P V, a slice of a tile at a time."""

import cutlass
from cutlass import Float8E8M0FNU, Float32, Int32, cute
from cutlass.cute.nvgpu import OperandMajorMode, tcgen05
from cutlass.utils import blackwell_helpers

from sidestream.kernels.common.config import BLOCK
from sidestream.kernels.common.element import element_type
from sidestream.kernels.sm100 import scales
from sidestream.kernels.sm100.config import KernelConfig


@cute.jit
def tiled_mma(
    config: cutlass.Constexpr[KernelConfig],
    width: cutlass.Constexpr[int],
    major: cutlass.Constexpr[OperandMajorMode],
    source: cutlass.Constexpr[tcgen05.OperandSource],
) -> cute.TiledMma:
    """128 rows by `width`: B contiguous along `major`, A from `source` along K."""
    dtype = element_type(config)
    shape = (config.tile_m, width)
    if cutlass.const_expr(config.block_scaled):
        return blackwell_helpers.make_blockscaled_trivial_tiled_mma(
            dtype,
            dtype,
            OperandMajorMode.K,
            major,
            Float8E8M0FNU,
            BLOCK,
            tcgen05.CtaGroup.ONE,
            shape,
            source,
        )
    return blackwell_helpers.make_trivial_tiled_mma(
        dtype,
        dtype,
        OperandMajorMode.K,
        major,
        Float32,
        tcgen05.CtaGroup.ONE,
        shape,
        source,
    )


@cute.jit
def score_mma(config: cutlass.Constexpr[KernelConfig]) -> cute.TiledMma:
    """S = Q K^T: both operands from shared memory, head dimension contiguous."""
    return tiled_mma(
        config, config.tile_n, OperandMajorMode.K, tcgen05.OperandSource.SMEM
    )


@cute.jit
def value_mma(config: cutlass.Constexpr[KernelConfig]) -> cute.TiledMma:
    """O += P V: P from tensor memory, V from shared memory, its rows contiguous."""
    return tiled_mma(
        config, config.width_v, OperandMajorMode.MN, tcgen05.OperandSource.TMEM
    )


@cute.jit
def multiply_scores(
    config: cutlass.Constexpr[KernelConfig],
    part: cutlass.Constexpr[int],
    scores: cute.Tensor,
    queries: cute.Tensor,
    keys: cute.Tensor,
    base: cute.Pointer,
    slot: Int32,
) -> None:
    """S = Q K^T for one sub-tile and slice `part` of a tile, `k_width` at a time.

    With a negative scale Q enters negated: the softmax then works with the scale's
    magnitude, so that a larger score always means a larger weight.
    """
    mma = score_mma(config)
    mma.set(tcgen05.Field.NEGATE_A, config.negative_scale)
    first = part * (config.stage_blocks * config.chunk // config.k_width)
    for k in cutlass.range_constexpr(config.k_slice_steps(part)):
        mma.set(tcgen05.Field.ACCUMULATE, first + k > 0)
        if cutlass.const_expr(config.block_scaled):
            column = scales.key_column(slot)
            scales.set_scales(mma, base, Int32(scales.Q_COLUMN), column, first + k)
        cute.gemm(
            mma, scores, queries[None, None, first + k], keys[None, None, k], scores
        )


@cute.jit
def multiply_values(
    config: cutlass.Constexpr[KernelConfig],
    part: cutlass.Constexpr[int],
    output: cute.Tensor,
    weights: cute.Tensor,
    values: cute.Tensor,
    accumulate: cutlass.Boolean,
    base: cute.Pointer,
) -> None:
    """O += P V for one sub-tile and slice `part` of a tile.

    The first slice gives O = P V unless `accumulate`.
    """
    mma = value_mma(config)
    steps = config.v_keys // config.k_width
    first = part * steps
    for k in cutlass.range_constexpr(steps):
        step = first + k
        mma.set(tcgen05.Field.ACCUMULATE, accumulate if step == 0 else step > 0)
        if cutlass.const_expr(config.block_scaled):
            scales.set_scales(
                mma, base, Int32(scales.P_COLUMN), Int32(scales.V_COLUMN), step
            )
        cute.gemm(mma, output, weights[None, None, step], values[None, None, k], output)
