"""The matrix warp: issues S = Q K^T and O += P V for every sub-tile.

It walks the pair's tiles from the right, with P V as many tiles behind as a sub-tile
has slots for scores: step j multiplies the weights of tile j - lead with V and then,
into the slot of those weights, the queries with K of tile j. While the softmax works on
one slot, the products of the other run. A tile that only the other CTA needs is waited
for and given back.

K and V come in slices of the contracted dimension: columns of K, keys of V. The first
sub-tile waits for each, the last one gives it back.
"""

import cutlass
from cutlass import Int32, cute
from cutlass.cute.nvgpu import tcgen05
from cutlass.utils import blackwell_helpers

from sidestream.kernels.common import phases, unit
from sidestream.kernels.common.config import ATOM_BYTES
from sidestream.kernels.common.element import element_type
from sidestream.kernels.sm100 import barriers as bar
from sidestream.kernels.sm100 import record, scales
from sidestream.kernels.sm100 import tensor_memory as tmem
from sidestream.kernels.sm100.config import CLUSTER, KernelConfig
from sidestream.kernels.sm100.products import (
    multiply_scores,
    multiply_values,
    score_mma,
    value_mma,
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
def await_stage(
    config: cutlass.Constexpr[KernelConfig], barriers: cute.Pointer, count: Int32
) -> Int32:
    """Wait until slice `count` has landed; its stage."""
    stage, parity = phases.stage_and_parity(count, config.stages)
    cute.arch.mbarrier_wait(barriers + (bar.TILE_FULL + stage), parity)
    return stage


@cute.jit
def run_matmul(
    config: cutlass.Constexpr[KernelConfig],
    barriers: cute.Pointer,
    records: cute.Tensor,
    base: cute.Pointer,
    smem_q: cute.Pointer,
    smem_kv: cute.Pointer,
    atoms: cute.Pointer,
) -> None:
    """Multiply until the dead record comes."""
    stages = config.stages
    subs = config.sub_tiles
    dtype = element_type(config)
    scores_mma = score_mma(config)
    values_mma = value_mma(config)
    whole_q = (config.tile_m, config.tile_n, config.width)
    slice_k = (config.tile_m, config.tile_n, config.stage_blocks * config.chunk)
    slice_v = (config.tile_m, config.width_v, config.v_keys)
    whole_p = (config.tile_m, config.width_v, config.tile_n)
    layout_q = blackwell_helpers.make_smem_layout_a(scores_mma, whole_q, dtype, subs)
    layout_k = blackwell_helpers.make_smem_layout_b(scores_mma, slice_k, dtype, stages)
    layout_v = blackwell_helpers.make_smem_layout_b(values_mma, slice_v, dtype, stages)
    layout_p = blackwell_helpers.make_smem_layout_a(values_mma, whole_p, dtype, 1)
    queries = scores_mma.make_fragment_A(cute.make_tensor(smem_q, layout_q.outer))
    keys = scores_mma.make_fragment_B(cute.make_tensor(smem_kv, layout_k.outer))
    vals = values_mma.make_fragment_B(cute.make_tensor(smem_kv, layout_v.outer))
    layout_s = scores_mma.make_fragment_C(
        scores_mma.partition_shape_C((config.tile_m, config.tile_n))
    ).layout
    layout_o = values_mma.make_fragment_C(
        values_mma.partition_shape_C((config.tile_m, config.width_v))
    ).layout
    weights = values_mma.make_fragment_A(cute.make_tensor(base, layout_p.outer))

    facts = cute.make_rmem_tensor(record.WORDS, Int32)
    units = cute.make_rmem_tensor(subs, Int32)
    tiles = cute.make_rmem_tensor(subs, Int32)
    begun = cute.make_rmem_tensor(subs, Int32)
    units.fill(0)
    tiles.fill(0)
    begun.fill(0)
    count = Int32(0)
    turn = Int32(0)
    record.read_unit(barriers, records, turn, facts)
    while facts[unit.LIVE] != 0:
        end = facts[record.END]
        steps = end - facts[record.BEGIN]
        tailed, _ = record.value_tail(config, facts)
        turns = steps
        if steps > 0:
            turns = steps + config.lead
        for step in cutlass.range(turns, unroll=1):
            tile = end - 1 - step
            behind = tile + config.lead
            count_v = count
            count_k = count
            if step >= config.lead:
                count_k = count + config.v_slices
            count = count_k
            if step < steps:
                count = count_k + config.k_slices
            if step == config.lead and tailed:
                # The correction warps clear rows of V before P V may start.
                for part in cutlass.range_constexpr(config.v_slices):
                    await_stage(config, barriers, count_v + part)
                with cute.arch.elect_one():
                    cute.arch.mbarrier_arrive(barriers + bar.V_LANDED)
            for sub in cutlass.range_constexpr(subs):
                first = facts[record.end_tile(sub)] - 1
                last = facts[record.first_tile(sub)]
                if step >= config.lead:
                    taken = behind >= last and behind <= first
                    slot, number = bar.slot_and_count(config, Int32(sub), tiles[sub])
                    if taken:
                        phases.wait_full(barriers + (bar.P_READY + slot), number)
                        tmem.fence_after()
                        tiles[sub] = tiles[sub] + 1
                    output = cute.make_tensor(base + tmem.O_COLUMN[sub], layout_o)
                    left_factor = cute.make_tensor(
                        weights.iterator
                        + 4 // config.element_bytes * tmem.SLOT_COLUMNS * slot,
                        weights.layout,
                    )
                    for part in cutlass.range_constexpr(config.v_slices):
                        stage = (count_v + part) % stages
                        if cutlass.const_expr(sub == 0):
                            await_stage(config, barriers, count_v + part)
                        if taken:
                            if cutlass.const_expr(config.block_scaled):
                                scales.place_atom(
                                    base,
                                    Int32(scales.V_COLUMN),
                                    atoms + stage * ATOM_BYTES,
                                )
                            multiply_values(
                                config,
                                part,
                                output,
                                left_factor[None, None, None, 0],
                                vals[None, None, None, stage],
                                behind != first,
                                base,
                            )
                        if cutlass.const_expr(sub == subs - 1):
                            commit_to_pair(barriers + (bar.TILE_EMPTY + stage))
                    complete = taken and behind == last
                    if cutlass.const_expr(subs == 1):
                        # Scores of the next tile, which the correction warps hear of,
                        # may be older than this product.
                        complete = taken
                    if complete:
                        commit(barriers + (bar.O_FULL + sub))
                if step < steps:
                    taken = tile >= last and tile <= first
                    slot, _ = bar.slot_and_count(config, Int32(sub), begun[sub])
                    if taken:
                        begun[sub] = begun[sub] + 1
                        if tile == first:
                            phases.wait_full(barriers + (bar.Q_FULL + sub), units[sub])
                            units[sub] = units[sub] + 1
                        # The scores overwrite the weights that an earlier product
                        # reads; their accumulators differ, so issue order alone is no
                        # order. Behind the last sub-tile's stands a commit already,
                        # which is such a fence too.
                        tmem.fence_before()
                    target = cute.make_tensor(base + tmem.SLOT_COLUMNS * slot, layout_s)
                    for part in cutlass.range_constexpr(config.k_slices):
                        stage = (count_k + part) % stages
                        if cutlass.const_expr(sub == 0):
                            await_stage(config, barriers, count_k + part)
                        if taken:
                            if cutlass.const_expr(config.block_scaled):
                                if tile == first:
                                    scales.place_atom(
                                        base,
                                        Int32(scales.Q_COLUMN),
                                        atoms + stages * ATOM_BYTES,
                                    )
                                scales.place_atom(
                                    base,
                                    scales.key_column(slot),
                                    atoms + stage * ATOM_BYTES,
                                )
                            multiply_scores(
                                config,
                                part,
                                target,
                                queries[None, None, None, sub],
                                keys[None, None, None, stage],
                                base,
                                slot,
                            )
                        if cutlass.const_expr(sub == subs - 1):
                            commit_to_pair(barriers + (bar.TILE_EMPTY + stage))
                    if taken:
                        commit(barriers + (bar.S_FULL + slot))
                        if tile == last:
                            commit(barriers + (bar.Q_EMPTY + sub))
        turn = turn + 1
        record.read_unit(barriers, records, turn, facts)
