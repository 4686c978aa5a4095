"""The correction warpgroup: keeps O on the softmax's reference and finishes rows.

Thread r owns row r of both sub-tiles. It hears of every tile from the softmax and, if
a row of its warp changed its reference, multiplies what O holds. At the end of a unit
it normalises O, rounds it into shared memory for the epilogue warps (`staging.py`) and
stores the log-sum-exp.

The first tile of a unit finds no O yet. The warpgroup uses that time to clear the rows
of V past the end of the keys: their weight is 0, but they belong to the next sequence
or to the capacity tail and may hold NaN or infinity, and 0 times those is NaN. Tiles
run from the right, so that only the first one has such rows.
"""

import cutlass
from cutlass import Float32, Int32, Int64, Uint32, cute

from sidestream.kernels.common import phases, unit
from sidestream.kernels.common.config import ATOM_BYTES
from sidestream.kernels.common.factors import (
    output_factors,
    raise_amax,
    row_magnitude,
    stored_factor,
)
from sidestream.kernels.common.normalise import finish_row, sink_of, store_lse
from sidestream.kernels.common.operands import Problem
from sidestream.kernels.common.softmax import scale_row
from sidestream.kernels.common.swizzle import UNITS
from sidestream.kernels.sm100 import barriers as bar
from sidestream.kernels.sm100 import record, scales
from sidestream.kernels.sm100 import tensor_memory as tmem
from sidestream.kernels.sm100.config import GROUP, KernelConfig
from sidestream.kernels.sm100.staging import LOAD, stage_output


@cute.jit
def clear_rows(
    config: cutlass.Constexpr[KernelConfig],
    tile: cute.Pointer,
    first: Int32,
    thread: Int32,
) -> None:
    """Zero the rows of a slice of V from `first` on; whole rows, so swizzled or not."""
    zeros = cute.make_rmem_tensor(4, Uint32)
    zeros.fill(0)
    width = config.chunk // UNITS
    rows = GROUP // UNITS
    for block in cutlass.range_constexpr(config.chunks_v):
        for step in cutlass.range_constexpr(config.v_keys // rows):
            row = step * rows + thread // UNITS
            if row >= first:
                offset = (block * config.v_keys + row) * config.chunk
                offset = offset + (thread % UNITS) * width
                target = tile + cute.assume(offset, divby=width)
                cute.autovec_copy(
                    zeros,
                    cute.make_tensor(
                        cute.recast_ptr(target, dtype=Uint32), cute.make_layout(4)
                    ),
                )


@cute.jit
def clear_tail(
    config: cutlass.Constexpr[KernelConfig],
    smem_kv: cute.Pointer,
    atoms: cute.Pointer,
    count: Int32,
    first: Int32,
    thread: Int32,
) -> None:
    """Clear V rows from `first` on in a tile; `count` is its first slice.

    None of its slices is given back before all are cleared. The matrix instruction
    reads them through the async proxy, hence the fence; the arrival on P_READY that
    follows hands them over.
    """
    for part in cutlass.range_constexpr(config.v_slices):
        below = first - part * config.v_keys
        if below < config.v_keys:
            stage, _ = phases.stage_and_parity(count + part, config.stages)
            elements = config.stage_bytes // config.element_bytes
            tile = smem_kv + cute.assume(stage * elements, divby=elements)
            clear_rows(config, tile, below, thread)
            if cutlass.const_expr(config.block_scaled):
                scales.clear_dead_blocks(atoms + stage * ATOM_BYTES, below, thread)
    cute.arch.fence_proxy("async.shared", space="cta")


@cute.jit
def rescale(
    config: cutlass.Constexpr[KernelConfig],
    base: cute.Pointer,
    column: cutlass.Constexpr[int],
    thread: Int32,
    alpha: Float32,
) -> None:
    """Multiply the thread's row of O by `alpha`."""
    values = cute.make_rmem_tensor(LOAD, Float32)
    for part in cutlass.range_constexpr(config.width_v // LOAD):
        start = Int32(column + part * LOAD)
        tmem.load_row(base, start, thread, LOAD, values)
        tmem.wait_loads()
        scale_row(config, values, alpha)
        tmem.store_row(base, start, thread, LOAD, values)
    tmem.wait_stores()


@cute.jit
def follow_tiles(
    config: cutlass.Constexpr[KernelConfig],
    barriers: cute.Pointer,
    base: cute.Pointer,
    messages: cute.Tensor,
    counts: cute.Tensor,
    tiles: cute.Tensor,
    products: cute.Tensor,
    thread: Int32,
    facts: cute.Tensor,
) -> None:
    """Hear of every tile of every sub-tile and rescale O where a row asks for it.

    `counts`, `tiles` and `products` are the messages, the tiles and the completions of
    P V of a sub-tile so far.
    """
    end = facts[record.END]
    for step in cutlass.range(end - facts[record.BEGIN], unroll=1):
        tile = end - 1 - step
        for sub in cutlass.range_constexpr(config.sub_tiles):
            first = facts[record.end_tile(sub)] - 1
            last = facts[record.first_tile(sub)]
            if tile >= last and tile <= first:
                phases.wait_full(barriers + (bar.STATS_FULL + sub), counts[sub])
                alpha = messages[sub, thread, 0]
                cute.arch.mbarrier_arrive(barriers + (bar.STATS_EMPTY + sub))
                counts[sub] = counts[sub] + 1
                if cutlass.const_expr(config.lead > 1):  # noqa: SIM102 - a stage each
                    # The scores behind the message may be older than the product
                    # before. With a slot for each sub-tile they came after it.
                    if tile < first:
                        phases.wait_full(barriers + (bar.O_FULL + sub), products[sub])
                        products[sub] = products[sub] + 1
                if tile < first and cute.arch.vote_any_sync(alpha != Float32(1.0)):
                    tmem.fence_after()
                    rescale(config, base, tmem.O_COLUMN[sub], thread, alpha)
                tmem.fence_before()
                slot, _ = bar.slot_and_count(config, Int32(sub), tiles[sub])
                tiles[sub] = tiles[sub] + 1
                cute.arch.mbarrier_arrive(barriers + (bar.P_READY + slot))


@cute.jit
def run_correction(
    config: cutlass.Constexpr[KernelConfig],
    barriers: cute.Pointer,
    records: cute.Tensor,
    base: cute.Pointer,
    messages: cute.Tensor,
    smem_kv: cute.Pointer,
    atoms: cute.Pointer,
    smem_out: cute.Pointer,
    rank: Int32,
    problem: Problem,
) -> None:
    """Correct and finish units until the dead record comes."""
    thread = cute.arch.thread_idx()[0] % GROUP
    facts = cute.make_rmem_tensor(record.WORDS, Int32)
    counts = cute.make_rmem_tensor(config.sub_tiles, Int32)
    tiles = cute.make_rmem_tensor(config.sub_tiles, Int32)
    products = cute.make_rmem_tensor(config.sub_tiles, Int32)
    outputs = cute.make_rmem_tensor(config.sub_tiles * config.out_buffers, Int32)
    counts.fill(0)
    tiles.fill(0)
    products.fill(0)
    outputs.fill(0)
    peak = cute.make_rmem_tensor(1, Float32)
    if cutlass.const_expr(config.block_scaled):
        scales.write_ones(base, thread)
    of_values, of_output = output_factors(config, problem.factors)
    tails = Int32(0)
    count = Int32(0)
    turn = Int32(0)
    record.read_unit(barriers, records, turn, facts)
    while facts[unit.LIVE] != 0:
        head = facts[unit.HEAD]
        len_q = facts[unit.LEN_Q]
        steps = facts[record.END] - facts[record.BEGIN]
        tailed, tail = record.value_tail(config, facts)
        if tailed:
            phases.wait_full(barriers + bar.V_LANDED, tails)
            tails = tails + 1
            ahead = cutlass.min(steps, Int32(config.lead)) * config.k_slices
            clear_tail(config, smem_kv, atoms, count + ahead, tail, thread)
        follow_tiles(
            config, barriers, base, messages, counts, tiles, products, thread, facts
        )
        count = count + steps * (config.k_slices + config.v_slices)

        sink = sink_of(config, problem, head)
        for sub in cutlass.range_constexpr(config.sub_tiles):
            visits = facts[record.end_tile(sub)] - facts[record.first_tile(sub)]
            sub_row = facts[unit.ROW0] + sub * config.tile_m
            row = sub_row + thread
            if sub_row < len_q:
                top = -Float32.inf
                total = Float32(0.0)
                if visits > 0:
                    phases.wait_full(barriers + (bar.STATS_FULL + sub), counts[sub])
                    top = messages[sub, thread, 0]
                    total = messages[sub, thread, 1]
                    cute.arch.mbarrier_arrive(barriers + (bar.STATS_EMPTY + sub))
                    counts[sub] = counts[sub] + 1
                    phases.wait_full(barriers + (bar.O_FULL + sub), products[sub])
                    products[sub] = products[sub] + 1
                    tmem.fence_after()
                factor, row_lse = finish_row(config, top, total, sink)
                factor, stored = stored_factor(config, factor, of_values, of_output)
                peak.fill(0.0)
                stage_output(
                    config,
                    sub,
                    barriers,
                    base,
                    smem_out,
                    outputs,
                    thread,
                    stored,
                    visits,
                    peak,
                )
                if cutlass.const_expr(config.narrow):
                    raise_amax(
                        problem.factors.amax,
                        row_magnitude(peak[0], factor, row < len_q),
                    )
                # Rows that a pair shares are told of by one of the two.
                mine = row < len_q
                if cutlass.const_expr(config.split_values):
                    mine = mine and rank == 0
                store_lse(
                    config,
                    problem,
                    Int64(facts[unit.Q_START]) + row,
                    head,
                    row_lse,
                    mine,
                )
        turn = turn + 1
        record.read_unit(barriers, records, turn, facts)
    # Before the memory is given back behind the cluster barrier. Every access was
    # waited for, which orders it already; the fence is the ISA's own pattern.
    tmem.fence_before()
