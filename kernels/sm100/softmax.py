"""A softmax warpgroup: turns the scores of one sub-tile into weights, row by row.

Thread r owns row r. It reads the row's scores from tensor memory, masks them where the
tile needs it, writes unnormalised weights over them and tells the correction warps by
how much earlier sums have to shrink.
"""

import cutlass
from cutlass import Float32, Int32, cute

from sidestream.kernels.common import phases, unit
from sidestream.kernels.common.bounds import WHOLE, mask_row, span_tiles, spans
from sidestream.kernels.common.element import element_type
from sidestream.kernels.common.factors import score_scale
from sidestream.kernels.common.operands import Problem
from sidestream.kernels.common.softmax import (
    grown_sum,
    raise_reference,
    row_peak,
    weigh_row,
)
from sidestream.kernels.sm100 import barriers as bar
from sidestream.kernels.sm100 import record
from sidestream.kernels.sm100 import tensor_memory as tmem
from sidestream.kernels.sm100.config import GROUP, KernelConfig

LOAD = 32
"""Columns of one load or store of tensor memory."""

PITCH = 2
"""Keys between a thread's pairs of neighbours: it has all of its row."""


@cute.jit
def walk_tiles(
    config: cutlass.Constexpr[KernelConfig],
    sub: Int32,
    barriers: cute.Pointer,
    base: cute.Pointer,
    message: cute.Tensor,
    state: cute.Tensor,
    counts: cute.Tensor,
    begin: Int32,
    end: Int32,
    thread: Int32,
    row: Int32,
    len_q: Int32,
    len_kv: Int32,
    left: Int32,
    right: Int32,
    scale_log2: Float32,
    mask: cutlass.Constexpr[bool],
) -> None:
    """Weigh the row in tiles [begin, end) from the right.

    `state` holds the row's reference and running sum, `counts` the tiles and messages
    so far. `mask` tests every element; interior tiles need no test.
    """
    n = config.tile_n
    scores = cute.make_rmem_tensor(n, Float32)
    sums = cute.make_rmem_tensor(4, Float32)
    weights = cute.make_rmem_tensor(n, element_type(config))
    cells = n * config.element_bytes // 4
    words = cute.make_tensor(
        cute.recast_ptr(weights.iterator, dtype=Float32), cute.make_layout(cells)
    )
    for step in cutlass.range(end - begin, unroll=1):
        key0 = (end - 1 - step) * n
        slot, number = bar.slot_and_count(config, sub, counts[0])
        column = slot * tmem.SLOT_COLUMNS
        phases.wait_full(barriers + (bar.S_FULL + slot), number)
        tmem.fence_after()
        for part in cutlass.range_constexpr(n // LOAD):
            tmem.load_row(
                base,
                column + part * LOAD,
                thread,
                LOAD,
                cute.make_tensor(scores.iterator + part * LOAD, cute.make_layout(LOAD)),
            )
        tmem.wait_loads()
        if cutlass.const_expr(mask):
            mask_row(config, scores, PITCH, key0, row, len_q, len_kv, left, right)

        top, alpha = raise_reference(
            config, state[0], row_peak(config, scores), scale_log2
        )
        # With two sub-tiles it is the last message of a unit that may not have been
        # read yet: within a unit the scores that were waited for come behind P_READY of
        # the tile before, which the correction warps give after reading. Any span can
        # hold the first tile. A single one has scores before that.
        phases.wait_empty(barriers + (bar.STATS_EMPTY + sub), counts[1])
        message[0] = alpha
        cute.arch.mbarrier_arrive(barriers + (bar.STATS_FULL + sub))

        sums.fill(0.0)
        weigh_row(config, scores, top, scale_log2, sums)
        weights.store(scores.load().to(element_type(config)))
        for part in cutlass.range_constexpr(cells // LOAD):
            tmem.store_row(
                base,
                column + part * LOAD,
                thread,
                LOAD,
                cute.make_tensor(words.iterator + part * LOAD, cute.make_layout(LOAD)),
            )
        state[0] = top
        even, odd = cute.arch.add_packed_f32x2((sums[0], sums[1]), (sums[2], sums[3]))
        state[1] = grown_sum(state[1], alpha, even + odd)
        counts[0] = counts[0] + 1
        counts[1] = counts[1] + 1
        tmem.wait_stores()
        tmem.fence_before()
        cute.arch.mbarrier_arrive(barriers + (bar.P_READY + slot))


@cute.jit
def run_softmax(
    config: cutlass.Constexpr[KernelConfig],
    sub: Int32,
    barriers: cute.Pointer,
    records: cute.Tensor,
    base: cute.Pointer,
    messages: cute.Tensor,
    problem: Problem,
) -> None:
    """Weigh the scores of sub-tile `sub` until the dead record comes."""
    thread = cute.arch.thread_idx()[0] % GROUP
    message = messages[sub, thread, None]
    state = cute.make_rmem_tensor(2, Float32)
    counts = cute.make_rmem_tensor(2, Int32)
    facts = cute.make_rmem_tensor(record.WORDS, Int32)
    counts.fill(0)
    scale_log2 = score_scale(config, problem)
    turn = Int32(0)
    record.read_unit(barriers, records, turn, facts)
    while facts[unit.LIVE] != 0:
        begin, plain_begin, plain_end, end = record.sub_tile_tiles(facts, sub)
        if begin < end:
            state[0] = -Float32.inf
            state[1] = Float32(0.0)
            for span in cutlass.range_constexpr(len(spans(config))):
                lower, upper = span_tiles(span, (begin, plain_begin, plain_end, end))
                walk_tiles(
                    config,
                    sub,
                    barriers,
                    base,
                    message,
                    state,
                    counts,
                    lower,
                    upper,
                    thread,
                    facts[unit.ROW0] + (sub * config.tile_m + thread),
                    facts[unit.LEN_Q],
                    facts[unit.LEN_KV],
                    problem.left,
                    problem.right,
                    scale_log2,
                    span != WHOLE,
                )
            phases.wait_empty(barriers + (bar.STATS_EMPTY + sub), counts[1])
            message[0] = state[0]
            message[1] = state[1]
            cute.arch.mbarrier_arrive(barriers + (bar.STATS_FULL + sub))
            counts[1] = counts[1] + 1
        turn = turn + 1
        record.read_unit(barriers, records, turn, facts)
