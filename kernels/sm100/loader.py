"""The loader warp: claims units, publishes their record, feeds Q, K and V by TMA.

Both CTAs of the pair work on the same unit. The loader of rank 0 claims it and sends
its number to rank 1. Each loads its own Q and half of every slice of K and V
(`ring.py`), and so needs only half the bytes that it works on.

Slices come in the order in which the matrix warp uses them: K of `lead` tiles, then V
of the first, and so on.
"""

import cutlass
from cutlass import Int32, cute
from cutlass._mlir.dialects import nvvm

from sidestream.kernels.common import phases, unit, worklist
from sidestream.kernels.common.config import ATOM_BYTES, Each
from sidestream.kernels.common.operands import Problem
from sidestream.kernels.common.tokens import tma_views
from sidestream.kernels.sm100 import barriers as bar
from sidestream.kernels.sm100 import record
from sidestream.kernels.sm100.config import CLUSTER, KernelConfig
from sidestream.kernels.sm100.ring import load_keys, load_values
from sidestream.kernels.sm100.scales import Atoms, load_atom

CLAIM_BYTES = 4


@cute.jit
def claim_for_pair(
    barriers: cute.Pointer,
    claim: cute.Pointer,
    workspace: cute.Pointer,
    rank: Int32,
    turn: Int32,
) -> Int32:
    """Number of the pair's next unit; the same in both CTAs and all lanes."""
    number = Int32(0)
    if rank == 0:
        number = worklist.claim_unit(workspace)
        # The first claim finds the place free; the code is that of every other one.
        bar.wait_pair(barriers + bar.CLAIM_EMPTY, (turn & 1) ^ 1)
        with cute.arch.elect_one():
            cute.arch.store_async_dsmem(claim, number, barriers + bar.CLAIM_FULL, 1)
    else:
        with cute.arch.elect_one():
            phases.expect_bytes(barriers + bar.CLAIM_FULL, CLAIM_BYTES)
        bar.wait_pair(barriers + bar.CLAIM_FULL, turn & 1)
        number = cute.make_tensor(claim, cute.make_layout(1))[0]
        cute.arch.sync_warp()
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive(
                barriers + bar.CLAIM_EMPTY, 0, scope=nvvm.MemScopeKind.CLUSTER
            )
    return number


@cute.jit
def load_queries(
    config: cutlass.Constexpr[KernelConfig],
    atom: cute.CopyAtom,
    shared: cute.Tensor,
    tokens: cute.Tensor,
    facts: cute.Tensor,
    queries: cute.Tensor,
    barriers: cute.Pointer,
    atoms: cute.Pointer,
    found: Atoms,
) -> None:
    """Load Q of every sub-tile that visits a tile; `queries` counts them.

    A half without live rows is not loaded: what its rows give is never stored.
    """
    row0 = facts[unit.ROW0]
    for sub in cutlass.range_constexpr(config.sub_tiles):
        if facts[record.first_tile(sub)] < facts[record.end_tile(sub)]:
            full = barriers + (bar.Q_FULL + sub)
            phases.wait_empty(barriers + (bar.Q_EMPTY + sub), queries[sub])
            rows = facts[unit.LEN_Q] - (row0 + sub * config.tile_m)
            expected = Int32(config.q_bytes)
            if rows <= config.box:
                expected = Int32(config.q_bytes // 2)
            if cutlass.const_expr(config.block_scaled):
                expected = expected + ATOM_BYTES
            with cute.arch.elect_one():
                phases.expect_bytes(full, expected)
            for half in cutlass.range_constexpr(2):
                if rows > half * config.box:
                    for block in cutlass.range_constexpr(config.chunks):
                        cute.copy(
                            atom,
                            tokens[None, 2 * sub + half, block],
                            shared[None, half, block, sub],
                            tma_bar_ptr=full,
                        )
            if cutlass.const_expr(config.block_scaled):
                # Units start at a row that begins an atom.
                number = found.first + row0 // config.tile_m
                place = atoms + config.stages * ATOM_BYTES
                load_atom(found.scales, found.head, number, place, full)
            queries[sub] = queries[sub] + 1


@cute.jit
def atoms_of(
    config: cutlass.Constexpr[KernelConfig],
    problem: Problem,
    sequence: Int32,
    head: Int32,
) -> Each:
    """Where the scales of a query head and its keys begin; None each without any."""
    if cutlass.const_expr(not config.block_scaled):
        return Each(None, None, None)
    of = problem.factors.scales
    queries = worklist.query_atoms(problem.workspace, problem.batch)[sequence]
    keys = worklist.key_atoms(problem.workspace, problem.batch)[sequence]
    kv_head = head // problem.group
    return Each(
        Atoms(of.q, head, queries),
        Atoms(of.k, kv_head, keys),
        Atoms(of.v, kv_head, keys),
    )


@cute.jit
def run_loader(
    config: cutlass.Constexpr[KernelConfig],
    barriers: cute.Pointer,
    records: cute.Tensor,
    claim: cute.Pointer,
    smem: Each,
    atoms: cute.Pointer,
    sources: Each,
    rank: Int32,
    problem: Problem,
) -> None:
    """Serve units until the work list is exhausted, then publish a dead record."""
    workspace, batch = problem.workspace, problem.batch
    unit_rows, unit_heads = problem.unit_rows, problem.unit_heads
    live = worklist.unit_prefix(workspace, batch)[batch]
    facts = cute.make_rmem_tensor(record.WORDS, Int32)
    queries = cute.make_rmem_tensor(config.sub_tiles, Int32)
    queries.fill(0)
    turn = Int32(0)
    count = Int32(0)
    number = claim_for_pair(barriers, claim, workspace, rank, turn)
    while number < live:
        found = unit.find_unit(workspace, batch, number, unit_rows, unit_heads)
        head, row0 = found.head, found.row0
        other_row0 = row0
        if cutlass.const_expr(not config.split_values):
            if unit_heads == problem.heads_q:
                other_row0 = row0 + (1 - rank) * config.cta_rows
                row0 = row0 + rank * config.cta_rows
            else:
                head = CLUSTER * head + rank
        unit.describe(facts, found._replace(head=head, row0=row0))
        record.fill_ranges(config, facts, other_row0, problem.left, problem.right)
        record.publish_unit(barriers, records, turn, facts)

        shared_q, global_q = tma_views(
            sources.q, smem.q, config.box, head, found.q_start + row0
        )
        scaled = atoms_of(config, problem, found.sequence, head)
        load_queries(
            config,
            sources.q.atom,
            shared_q,
            global_q,
            facts,
            queries,
            barriers,
            atoms,
            scaled.q,
        )
        kv_head = head // problem.group
        shared_k, global_k = tma_views(
            sources.k, smem.k, config.box, kv_head, found.kv_start
        )
        shared_v, global_v = tma_views(
            sources.v, smem.v, config.box_v, kv_head, found.kv_start
        )
        end = facts[record.END]
        steps = end - facts[record.BEGIN]
        turns = steps
        if steps > 0:
            turns = steps + config.lead
        for step in cutlass.range(turns, unroll=1):
            tile = end - 1 - step
            keys = facts[unit.LEN_KV] - tile * config.tile_n
            if step >= config.lead:
                load_values(
                    config,
                    sources.v.atom,
                    shared_v,
                    global_v,
                    tile + config.lead,
                    keys - config.lead * config.tile_n,
                    count,
                    rank,
                    barriers,
                    atoms,
                    scaled.v,
                )
                count = count + config.v_slices
            if step < steps:
                load_keys(
                    config,
                    sources.k.atom,
                    shared_k,
                    global_k,
                    tile,
                    keys,
                    count,
                    rank,
                    barriers,
                    atoms,
                    scaled.k,
                )
                count = count + config.k_slices
        turn = turn + 1
        number = claim_for_pair(barriers, claim, workspace, rank, turn)
    facts.fill(0)
    record.publish_unit(barriers, records, turn, facts)
    # What the other CTA still sends here has to arrive before this CTA may end: its
    # last commits, and its receipt of the last claim.
    for tail in cutlass.range(config.stages, unroll=1):
        stage, parity = phases.stage_and_parity(count + tail, config.stages)
        bar.wait_pair(barriers + (bar.TILE_EMPTY + stage), parity ^ 1)
    if rank == 0:
        bar.wait_pair(barriers + bar.CLAIM_EMPTY, turn & 1)
