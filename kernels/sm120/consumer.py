"""A consumer warp: its query rows of every unit that its CTA claims."""

import cutlass
from cutlass import Float32, Int32, Int64, cute

from sidestream.kernels.common import phases, unit
from sidestream.kernels.common.bounds import (
    CUT_RIGHT,
    WHOLE,
    span_tiles,
    spans,
    tile_range,
)
from sidestream.kernels.common.config import Each
from sidestream.kernels.common.element import output_type
from sidestream.kernels.common.factors import (
    largest_magnitude,
    output_factors,
    raise_amax,
    row_magnitude,
    score_scale,
    stored_factor,
)
from sidestream.kernels.common.normalise import finish_row, sink_of, store_lse
from sidestream.kernels.common.operands import Problem
from sidestream.kernels.common.rows import head_of
from sidestream.kernels.common.softmax import scale_row
from sidestream.kernels.sm120 import barriers as bar
from sidestream.kernels.sm120.config import BAND, KernelConfig
from sidestream.kernels.sm120.epilogue import (
    stage_narrow,
    stage_output,
    store_rows,
)
from sidestream.kernels.sm120.mainloop import walk_tiles
from sidestream.kernels.sm120.softmax import quad_sum, row_of


@cute.jit
def finish_unit(
    config: cutlass.Constexpr[KernelConfig],
    smem_q: cute.Pointer,
    output: cute.Tensor,
    top: cute.Tensor,
    total: cute.Tensor,
    problem: Problem,
    head: Int32,
    q_start: Int32,
    tile_row: Int32,
    row: Int32,
    len_q: Int32,
) -> None:
    """Normalise, store the warp's rows and free the Q tile's rows.

    `tile_row` is the warp's first row in the tile, `row` the same row in the sequence.
    """
    lane = cute.arch.lane_idx()
    sink = sink_of(config, problem, head)
    of_values, of_output = output_factors(config, problem.factors)
    largest = Float32(0.0)
    for slot in cutlass.range_constexpr(2 * config.bands):
        half, band = slot % 2, slot // 2
        factor, row_lse = finish_row(
            config, top[half, band], quad_sum(total[half, band]), sink
        )
        local = row + (lane // 4 + 8 * half + BAND * band)
        values = row_of(output[None, band], half)
        factor, stored = stored_factor(config, factor, of_values, of_output)
        if cutlass.const_expr(config.narrow):
            peak = largest_magnitude(Float32(0.0), values)
            magnitude = row_magnitude(peak, factor, local < len_q)
            largest = cute.arch.fmax(largest, magnitude)
        scale_row(config, values, stored)
        store_lse(
            config,
            problem,
            Int64(q_start) + local,
            head,
            row_lse,
            lane % 4 == 0 and local < len_q,
        )
    if cutlass.const_expr(config.narrow):
        raise_amax(problem.factors.amax, largest)
    # All lanes have read their Q rows before any lane overwrites them: the warp has met
    # in `arrive_warp` behind each tile. Every lane's part is staged before another
    # lane copies it out, and copied out before the next turn is staged.
    upper = tile_row + lane // 4
    for out_turn in cutlass.range_constexpr(config.out_turns):
        if cutlass.const_expr(out_turn > 0):
            cute.arch.sync_warp()
        for band in cutlass.range_constexpr(config.bands):
            part = output[None, band]
            if cutlass.const_expr(config.narrow):
                stage_narrow(config, smem_q, upper, BAND * band, part, out_turn)
            else:
                stage_output(config, smem_q, upper, BAND * band, part)
        cute.arch.sync_warp()
        store_rows(
            config,
            cute.recast_ptr(smem_q, dtype=output_type(config)),
            tile_row,
            head_of(config, problem.out, head),
            Int64(q_start) + row,
            len_q - row,
            problem.out.token_stride,
            out_turn,
        )


@cute.jit
def run_consumer(
    config: cutlass.Constexpr[KernelConfig],
    barriers: cute.Pointer,
    record: cute.Tensor,
    cells: Each,
    problem: Problem,
) -> None:
    """Compute units until the loader publishes a dead record."""
    scale_log2 = score_scale(config, problem)
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    tile_row = warp * config.rows_per_warp
    output = cute.make_rmem_tensor((4 * config.d_tiles, config.bands), Float32)
    top = cute.make_rmem_tensor((2, config.bands), Float32)
    total = cute.make_rmem_tensor((2, config.bands), Float32)
    turn = Int32(0)
    count = Int32(0)
    phases.wait_full(barriers + bar.Q_FULL, turn)
    live = record[unit.LIVE]
    while live != 0:
        head = record[unit.HEAD]
        row0 = record[unit.ROW0]
        q_start = record[unit.Q_START]
        len_q = record[unit.LEN_Q]
        len_kv = record[unit.LEN_KV]
        row = row0 + tile_row
        output.fill(0.0)
        top.fill(-Float32.inf)
        total.fill(0.0)
        tiles = tile_range(config, row0, len_q, len_kv, problem.left, problem.right)
        lane_row = row + cute.arch.lane_idx() // 4
        for span in cutlass.range_constexpr(len(spans(config))):
            lower, upper = span_tiles(span, tiles)
            count = walk_tiles(
                config,
                barriers,
                cells,
                tile_row,
                output,
                top,
                total,
                lower,
                upper,
                count,
                lane_row,
                len_q,
                len_kv,
                problem.left,
                problem.right,
                scale_log2,
                span != WHOLE,
                span == CUT_RIGHT,
            )
        finish_unit(
            config,
            cells.q,
            output,
            top,
            total,
            problem,
            head,
            q_start,
            tile_row,
            row,
            len_q,
        )
        # The staging was written through the generic proxy; the next Q tile arrives
        # through the async proxy.
        cute.arch.fence_proxy("async.shared", space="cta")
        phases.arrive_warp(barriers + bar.Q_EMPTY)
        turn = turn + 1
        phases.wait_full(barriers + bar.Q_FULL, turn)
        live = record[unit.LIVE]
