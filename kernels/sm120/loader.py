"""The loader warp: claims units, publishes their record, feeds Q, K and V by TMA."""

import cutlass
from cutlass import Int32, cute

from sidestream.kernels.common import phases, worklist
from sidestream.kernels.common.bounds import tile_range
from sidestream.kernels.common.config import ROW_BYTES, Each
from sidestream.kernels.common.operands import Problem, Source
from sidestream.kernels.common.tokens import tma_views
from sidestream.kernels.common.unit import LIVE, describe, find_unit
from sidestream.kernels.sm120 import barriers as bar
from sidestream.kernels.sm120.config import KernelConfig


@cute.jit
def load_stage(
    config: cutlass.Constexpr[KernelConfig],
    source: Source,
    views: tuple[cute.Tensor, cute.Tensor],
    chunks: cutlass.Constexpr[int],
    tile: Int32,
    stage: Int32,
    parity: Int32,
    full: cute.Pointer,
    empty: cute.Pointer,
) -> None:
    """Load one K or V tile of `chunks` column blocks once its stage is free.

    `views` are the shared and the global side of the copies (`tma_views`).

    The consumers read the stage through the generic proxy and the copy writes it
    through the async one, hence the fence; one here serves the reads of all warps.
    """
    shared, tokens = views
    cute.arch.mbarrier_wait(empty, parity ^ 1)
    cute.arch.fence_proxy("async.shared", space="cta")
    with cute.arch.elect_one():
        phases.expect_bytes(full, config.tile_n * chunks * ROW_BYTES)
    for block in cutlass.range_constexpr(chunks):
        cute.copy(
            source.atom,
            tokens[None, tile, block],
            shared[None, block, stage],
            tma_bar_ptr=full,
        )


@cute.jit
def load_tile(
    config: cutlass.Constexpr[KernelConfig],
    barriers: cute.Pointer,
    sources: Each,
    keys: tuple[cute.Tensor, cute.Tensor],
    values: tuple[cute.Tensor, cute.Tensor],
    tile: Int32,
    count: Int32,
) -> None:
    """Load K and V of one tile, the `count`-th of the CTA.

    `keys` and `values` are the views of the copies.
    """
    stages = config.stages
    stage, parity = phases.stage_and_parity(count, stages)
    load_stage(
        config,
        sources.k,
        keys,
        config.chunks,
        tile,
        stage,
        parity,
        barriers + (bar.k_full(stages) + stage),
        barriers + (bar.k_empty(stages) + stage),
    )
    load_stage(
        config,
        sources.v,
        values,
        config.chunks_v,
        tile,
        stage,
        parity,
        barriers + (bar.v_full(stages) + stage),
        barriers + (bar.v_empty(stages) + stage),
    )


@cute.jit
def run_loader(
    config: cutlass.Constexpr[KernelConfig],
    barriers: cute.Pointer,
    record: cute.Tensor,
    smem: Each,
    sources: Each,
    problem: Problem,
) -> None:
    """Serve units until the work list is exhausted, then publish a dead record."""
    workspace, batch = problem.workspace, problem.batch
    live = worklist.unit_prefix(workspace, batch)[batch]
    turn = Int32(0)
    count = Int32(0)
    number = worklist.claim_unit(workspace)
    while number < live:
        unit = find_unit(
            workspace, batch, number, Int32(config.tile_m), problem.unit_heads
        )
        kv_head = unit.head // problem.group

        keys = tma_views(sources.k, smem.k, config.tile_n, kv_head, unit.kv_start)
        values = tma_views(sources.v, smem.v, config.tile_n, kv_head, unit.kv_start)
        begin, _, _, end = tile_range(
            config, unit.row0, unit.len_q, unit.len_kv, problem.left, problem.right
        )
        # The first keys and values need only free stages. They travel while the
        # consumers still finish the unit before, which holds the Q tile.
        if begin < end:
            load_tile(
                config,
                barriers,
                sources,
                keys,
                values,
                end - 1,
                count,
            )
            count = count + 1

        shared_q, global_q = tma_views(
            sources.q,
            smem.q,
            config.tile_m,
            unit.head,
            unit.q_start + unit.row0,
        )
        phases.wait_empty(barriers + bar.Q_EMPTY, turn)
        with cute.arch.elect_one():
            describe(record, unit)
            cute.arch.mbarrier_arrive_and_expect_tx(
                barriers + bar.Q_FULL, config.q_bytes
            )
        for block in cutlass.range_constexpr(config.chunks):
            cute.copy(
                sources.q.atom,
                global_q[None, 0, block],
                shared_q[None, block],
                tma_bar_ptr=barriers + bar.Q_FULL,
            )

        for step in cutlass.range(1, end - begin, unroll=1):
            load_tile(
                config,
                barriers,
                sources,
                keys,
                values,
                end - 1 - step,
                count,
            )
            count = count + 1
        turn = turn + 1
        number = worklist.claim_unit(workspace)
    phases.wait_empty(barriers + bar.Q_EMPTY, turn)
    with cute.arch.elect_one():
        record[LIVE] = Int32(0)
        cute.arch.mbarrier_arrive(barriers + bar.Q_FULL)
