"""The loader warp: claims units, publishes their record, feeds Q, K and V by TMA."""

import cutlass
from cutlass import Int32, cute

from sidestream.kernels.common import worklist
from sidestream.kernels.common.tokens import tma_views
from sidestream.kernels.sm100 import barriers as bar
from sidestream.kernels.sm100.config import SUB_TILES, KernelConfig
from sidestream.kernels.sm100.unit import publish_unit, unit_ranges


@cute.jit
def load_tile(
    config: cutlass.Constexpr[KernelConfig],
    atom: cute.CopyAtom,
    shared: cute.Tensor,
    tokens: cute.Tensor,
    tile: Int32,
    count: Int32,
    barriers: cute.Pointer,
) -> None:
    """Load one K or V tile as number `count` of the ring, once its stage is free."""
    stages = config.stages
    stage, parity = bar.stage_and_parity(count, stages)
    full = barriers + (bar.TILE_FULL + stage)
    cute.arch.mbarrier_wait(barriers + (bar.tile_empty(stages) + stage), parity ^ 1)
    with cute.arch.elect_one():
        cute.arch.mbarrier_arrive_and_expect_tx(full, config.kv_bytes)
    for block in cutlass.range_constexpr(config.chunks):
        cute.copy(
            atom,
            tokens[None, tile, block],
            shared[None, block, stage],
            tma_bar_ptr=full,
        )


@cute.jit
def run_loader(
    config: cutlass.Constexpr[KernelConfig],
    barriers: cute.Pointer,
    records: cute.Tensor,
    smem_q: cute.Tensor,
    smem_kv: cute.Tensor,
    atom_q: cute.CopyAtom,
    tokens_q: cute.Tensor,
    atom_k: cute.CopyAtom,
    tokens_k: cute.Tensor,
    atom_v: cute.CopyAtom,
    tokens_v: cute.Tensor,
    workspace: cute.Pointer,
    batch: Int32,
    heads_q: Int32,
    group: Int32,
    left: Int32,
    right: Int32,
) -> None:
    """Serve units until the work list is exhausted, then publish a dead record."""
    units = worklist.unit_prefix(workspace, batch)
    starts_q = worklist.query_starts(workspace, batch)
    starts_kv = worklist.key_starts(workspace, batch)
    live = units[batch]
    turn = Int32(0)
    count = Int32(0)
    queries = cute.make_rmem_tensor(SUB_TILES, Int32)
    queries.fill(0)
    unit = worklist.claim_unit(workspace)
    while unit < live:
        sequence = worklist.sequence_of(units, batch, unit)
        q_start = starts_q[sequence]
        len_q = starts_q[sequence + 1] - q_start
        kv_start = starts_kv[sequence]
        len_kv = starts_kv[sequence + 1] - kv_start
        # Heads run fastest, so that the heads of a group meet in L2, and tiles run
        # from the last to the first: with a causal mask the longest come first.
        local = unit - units[sequence]
        head = local % heads_q
        tiles = (len_q + (config.unit_rows - 1)) // config.unit_rows
        row0 = (tiles - 1 - local // heads_q) * config.unit_rows
        kv_head = head // group

        publish_unit(
            barriers, records, turn, Int32(1), head, row0, q_start, len_q, len_kv
        )
        begin0, end0, begin1, end1, begin, end = unit_ranges(
            config, row0, len_q, len_kv, left, right
        )
        shared_q, global_q = tma_views(
            atom_q, smem_q, tokens_q, config.tile_m, head, q_start + row0
        )
        for sub in cutlass.range_constexpr(SUB_TILES):
            visits = end0 - begin0
            if cutlass.const_expr(sub == 1):
                visits = end1 - begin1
            if visits > 0:
                bar.wait_empty(barriers + (bar.Q_EMPTY + sub), queries[sub])
                with cute.arch.elect_one():
                    cute.arch.mbarrier_arrive_and_expect_tx(
                        barriers + (bar.Q_FULL + sub), config.q_bytes
                    )
                for block in cutlass.range_constexpr(config.chunks):
                    cute.copy(
                        atom_q,
                        global_q[None, sub, block],
                        shared_q[None, block, sub],
                        tma_bar_ptr=barriers + (bar.Q_FULL + sub),
                    )
                queries[sub] = queries[sub] + 1

        shared_k, global_k = tma_views(
            atom_k, smem_kv, tokens_k, config.tile_n, kv_head, kv_start
        )
        shared_v, global_v = tma_views(
            atom_v, smem_kv, tokens_v, config.tile_n, kv_head, kv_start
        )
        for step in cutlass.range(end - begin, unroll=1):
            tile = end - 1 - step
            load_tile(config, atom_k, shared_k, global_k, tile, count, barriers)
            load_tile(config, atom_v, shared_v, global_v, tile, count + 1, barriers)
            count = count + 2
        turn = turn + 1
        unit = worklist.claim_unit(workspace)
    zero = Int32(0)
    publish_unit(barriers, records, turn, zero, zero, zero, zero, zero, zero)
