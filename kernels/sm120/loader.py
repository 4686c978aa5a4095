"""The loader warp: claims units, publishes their record, feeds Q, K and V by TMA."""

import cutlass
from cutlass import Int32, cute

from sidestream.kernels.common import phases, worklist
from sidestream.kernels.common.bounds import tile_range
from sidestream.kernels.common.config import ROW_BYTES
from sidestream.kernels.common.tokens import tma_views
from sidestream.kernels.common.unit import LIVE, describe, find_unit
from sidestream.kernels.sm120 import barriers as bar
from sidestream.kernels.sm120.config import KernelConfig


@cute.jit
def load_stage(
    config: cutlass.Constexpr[KernelConfig],
    atom: cute.CopyAtom,
    shared: cute.Tensor,
    tokens: cute.Tensor,
    chunks: cutlass.Constexpr[int],
    tile: Int32,
    stage: Int32,
    parity: Int32,
    full: cute.Pointer,
    empty: cute.Pointer,
) -> None:
    """Load one K or V tile of `chunks` column blocks once its stage is free.

    The consumers read the stage through the generic proxy and the copy writes it
    through the async one, hence the fence; one here serves the reads of all warps.
    """
    cute.arch.mbarrier_wait(empty, parity ^ 1)
    cute.arch.fence_proxy("async.shared", space="cta")
    with cute.arch.elect_one():
        phases.expect_bytes(full, config.tile_n * chunks * ROW_BYTES)
    for block in cutlass.range_constexpr(chunks):
        cute.copy(
            atom,
            tokens[None, tile, block],
            shared[None, block, stage],
            tma_bar_ptr=full,
        )


@cute.jit
def load_tile(
    config: cutlass.Constexpr[KernelConfig],
    barriers: cute.Pointer,
    atom_k: cute.CopyAtom,
    shared_k: cute.Tensor,
    tokens_k: cute.Tensor,
    atom_v: cute.CopyAtom,
    shared_v: cute.Tensor,
    tokens_v: cute.Tensor,
    tile: Int32,
    count: Int32,
) -> None:
    """Load K and V of one tile, the `count`-th of the CTA."""
    stages = config.stages
    stage, parity = phases.stage_and_parity(count, stages)
    load_stage(
        config,
        atom_k,
        shared_k,
        tokens_k,
        config.chunks,
        tile,
        stage,
        parity,
        barriers + (bar.k_full(stages) + stage),
        barriers + (bar.k_empty(stages) + stage),
    )
    load_stage(
        config,
        atom_v,
        shared_v,
        tokens_v,
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
    smem_q: cute.Tensor,
    smem_k: cute.Tensor,
    smem_v: cute.Tensor,
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
    live = worklist.unit_prefix(workspace, batch)[batch]
    turn = Int32(0)
    count = Int32(0)
    number = worklist.claim_unit(workspace)
    while number < live:
        unit = find_unit(workspace, batch, number, Int32(config.tile_m), heads_q)
        kv_head = unit.head // group

        shared_k, global_k = tma_views(
            atom_k, smem_k, tokens_k, config.tile_n, kv_head, unit.kv_start
        )
        shared_v, global_v = tma_views(
            atom_v, smem_v, tokens_v, config.tile_n, kv_head, unit.kv_start
        )
        begin, _, _, end = tile_range(
            config, unit.row0, unit.len_q, unit.len_kv, left, right
        )
        # The first keys and values need only free stages. They travel while the
        # consumers still finish the unit before, which holds the Q tile.
        if begin < end:
            load_tile(
                config,
                barriers,
                atom_k,
                shared_k,
                global_k,
                atom_v,
                shared_v,
                global_v,
                end - 1,
                count,
            )
            count = count + 1

        shared_q, global_q = tma_views(
            atom_q,
            smem_q,
            tokens_q,
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
                atom_q,
                global_q[None, 0, block],
                shared_q[None, block],
                tma_bar_ptr=barriers + bar.Q_FULL,
            )

        for step in cutlass.range(1, end - begin, unroll=1):
            load_tile(
                config,
                barriers,
                atom_k,
                shared_k,
                global_k,
                atom_v,
                shared_v,
                global_v,
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
