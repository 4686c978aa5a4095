"""The matrix warp: issues S = Q K^T and O += P V for both sub-tiles.

It walks the pair's tiles from the right, one step behind with P V: step j multiplies
the weights of tile j-1 with V and then, into the place of those weights, the queries
with K of tile j. While the softmax of one sub-tile works, the other's products run.
A tile that only the other CTA needs is waited for and given back.
"""

import cutlass
from cutlass import Float32, Int32, cute
from cutlass.cute.nvgpu import OperandMajorMode, tcgen05
from cutlass.utils import blackwell_helpers

from sidestream.kernels.common.element import element_type
from sidestream.kernels.sm100 import barriers as bar
from sidestream.kernels.sm100 import tensor_memory as tmem
from sidestream.kernels.sm100 import unit as record
from sidestream.kernels.sm100.config import CLUSTER, SUB_TILES, KernelConfig


@cute.jit
def score_mma(config: cutlass.Constexpr[KernelConfig]) -> cute.TiledMma:
    """S = Q K^T: both operands from shared memory, head dimension contiguous."""
    dtype = element_type(config)
    return blackwell_helpers.make_trivial_tiled_mma(
        dtype,
        dtype,
        OperandMajorMode.K,
        OperandMajorMode.K,
        Float32,
        tcgen05.CtaGroup.ONE,
        (config.tile_m, config.tile_n),
    )


@cute.jit
def value_mma(config: cutlass.Constexpr[KernelConfig]) -> cute.TiledMma:
    """O += P V: P from tensor memory, V from shared memory, its rows contiguous."""
    dtype = element_type(config)
    return blackwell_helpers.make_trivial_tiled_mma(
        dtype,
        dtype,
        OperandMajorMode.K,
        OperandMajorMode.MN,
        Float32,
        tcgen05.CtaGroup.ONE,
        (config.tile_m, config.width),
        tcgen05.OperandSource.TMEM,
    )


@cute.jit
def commit(barrier: cute.Pointer) -> None:
    """Arrive on `barrier` once everything this warp has issued is complete."""
    with cute.arch.elect_one():
        tcgen05.commit(barrier)


@cute.jit
def commit_to_pair(barrier: cute.Pointer) -> None:
    """As `commit`, on this barrier of both CTAs of the pair."""
    with cute.arch.elect_one():
        tcgen05.commit(barrier, (1 << CLUSTER) - 1)


@cute.jit
def multiply_scores(
    config: cutlass.Constexpr[KernelConfig],
    scores: cute.Tensor,
    queries: cute.Tensor,
    keys: cute.Tensor,
) -> None:
    """S = Q K^T for one sub-tile and one tile, 16 columns of the head at a time.

    With a negative scale Q enters negated: the softmax then works with the scale's
    magnitude, so that a larger score always means a larger weight.
    """
    mma = score_mma(config)
    mma.set(tcgen05.Field.NEGATE_A, config.negative_scale)
    for k in cutlass.range_constexpr(config.k_steps):
        mma.set(tcgen05.Field.ACCUMULATE, k > 0)
        cute.gemm(mma, scores, queries[None, None, k], keys[None, None, k], scores)


@cute.jit
def multiply_values(
    config: cutlass.Constexpr[KernelConfig],
    output: cute.Tensor,
    weights: cute.Tensor,
    values: cute.Tensor,
    accumulate: cutlass.Boolean,
) -> None:
    """O += P V for one sub-tile and one tile; O = P V unless `accumulate`."""
    mma = value_mma(config)
    for k in cutlass.range_constexpr(config.tile_n // 16):
        mma.set(tcgen05.Field.ACCUMULATE, accumulate if k == 0 else k > 0)
        cute.gemm(mma, output, weights[None, None, k], values[None, None, k], output)


@cute.jit
def run_matmul(
    config: cutlass.Constexpr[KernelConfig],
    barriers: cute.Pointer,
    records: cute.Tensor,
    base: cute.Pointer,
    smem_q: cute.Pointer,
    smem_kv: cute.Pointer,
) -> None:
    """Multiply until the dead record comes."""
    stages = config.stages
    dtype = element_type(config)
    scores = score_mma(config)
    values = value_mma(config)
    shape = (config.tile_m, config.tile_n, config.width)
    turned = (config.tile_m, config.width, config.tile_n)
    layout_q = blackwell_helpers.make_smem_layout_a(scores, shape, dtype, SUB_TILES)
    layout_k = blackwell_helpers.make_smem_layout_b(scores, shape, dtype, stages)
    layout_v = blackwell_helpers.make_smem_layout_b(values, turned, dtype, stages)
    layout_p = blackwell_helpers.make_smem_layout_a(values, turned, dtype, 1)
    queries = scores.make_fragment_A(cute.make_tensor(smem_q, layout_q.outer))
    keys = scores.make_fragment_B(cute.make_tensor(smem_kv, layout_k.outer))
    vals = values.make_fragment_B(cute.make_tensor(smem_kv, layout_v.outer))
    layout_s = scores.make_fragment_C(
        scores.partition_shape_C((config.tile_m, config.tile_n))
    ).layout
    layout_o = values.make_fragment_C(
        values.partition_shape_C((config.tile_m, config.width))
    ).layout
    weights = values.make_fragment_A(cute.make_tensor(base, layout_p.outer))

    facts = cute.make_rmem_tensor(record.WORDS, Int32)
    units = cute.make_rmem_tensor(SUB_TILES, Int32)
    tiles = cute.make_rmem_tensor(SUB_TILES, Int32)
    units.fill(0)
    tiles.fill(0)
    count = Int32(0)
    turn = Int32(0)
    record.read_unit(barriers, records, turn, facts)
    while facts[record.LIVE] != 0:
        end = facts[record.END]
        steps = end - facts[record.BEGIN]
        turns = steps
        if steps > 0:
            turns = steps + 1
        for step in cutlass.range(turns, unroll=1):
            tile = end - 1 - step
            k_stage, k_parity = bar.stage_and_parity(count + 2 * step, stages)
            v_stage, v_parity = bar.stage_and_parity(count + 2 * step - 1, stages)
            if step > 0:
                cute.arch.mbarrier_wait(barriers + (bar.TILE_FULL + v_stage), v_parity)
            if step < steps:
                cute.arch.mbarrier_wait(barriers + (bar.TILE_FULL + k_stage), k_parity)
            for sub in cutlass.range_constexpr(SUB_TILES):
                first = facts[record.end_tile(sub)] - 1
                last = facts[record.first_tile(sub)]
                if tile + 1 >= last and tile + 1 <= first:
                    bar.wait_full(barriers + (bar.P_READY + sub), tiles[sub])
                    tmem.fence_after()
                    output = cute.make_tensor(base + tmem.O_COLUMN[sub], layout_o)
                    left_factor = cute.make_tensor(
                        weights.iterator + 2 * tmem.S_COLUMN[sub], weights.layout
                    )
                    multiply_values(
                        config,
                        output,
                        left_factor[None, None, None, 0],
                        vals[None, None, None, v_stage],
                        tile + 1 != first,
                    )
                    tiles[sub] = tiles[sub] + 1
                    if tile + 1 == last:
                        commit(barriers + (bar.O_FULL + sub))
                if tile >= last and tile <= first:
                    if tile == first:
                        bar.wait_full(barriers + (bar.Q_FULL + sub), units[sub])
                        units[sub] = units[sub] + 1
                    # The scores overwrite the weights that the product above reads;
                    # their accumulators differ, so issue order alone is no order.
                    tmem.fence_before()
                    target = cute.make_tensor(base + tmem.S_COLUMN[sub], layout_s)
                    multiply_scores(
                        config,
                        target,
                        queries[None, None, None, sub],
                        keys[None, None, None, k_stage],
                    )
                    commit(barriers + (bar.S_FULL + sub))
                    if tile == last:
                        commit(barriers + (bar.Q_EMPTY + sub))
            if step > 0:
                commit_to_pair(barriers + (bar.tile_empty(stages) + v_stage))
            if step < steps:
                commit_to_pair(barriers + (bar.tile_empty(stages) + k_stage))
        count = count + 2 * steps
        turn = turn + 1
        record.read_unit(barriers, records, turn, facts)
