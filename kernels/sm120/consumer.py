"""A consumer warp: its query rows of every unit that its CTA claims."""

import cutlass
from cutlass import Float32, Int32, Int64, cute

from sidestream.kernels.common import phases
from sidestream.kernels.common.bounds import tile_range
from sidestream.kernels.common.element import output_type
from sidestream.kernels.common.factors import (
    largest_magnitude,
    output_factors,
    raise_amax,
    read_factor,
)
from sidestream.kernels.common.normalise import finish_row, store_lse
from sidestream.kernels.common.swizzle import UNITS
from sidestream.kernels.sm120 import barriers as bar
from sidestream.kernels.sm120 import record as unit_record
from sidestream.kernels.sm120.config import BAND, KernelConfig
from sidestream.kernels.sm120.epilogue import (
    stage_narrow,
    stage_output,
    store_rows,
)
from sidestream.kernels.sm120.mainloop import walk_tiles
from sidestream.kernels.sm120.softmax import quad_sum


@cute.jit
def row_magnitude(
    config: cutlass.Constexpr[KernelConfig],
    output: cute.Tensor,
    half: cutlass.Constexpr[int],
    factor: Float32,
) -> Float32:
    """Largest magnitude of the lane's part of a row of O times `factor`.

    Rounding keeps the order, so that the largest one is found before the product.
    """
    peak = Float32(0.0)
    for tile in cutlass.range_constexpr(config.d_tiles):
        index = 4 * tile + 2 * half
        peak = largest_magnitude(peak, output[index], output[index + 1])
    return peak * cute.math.absf(factor)


@cute.jit
def finish_unit(
    config: cutlass.Constexpr[KernelConfig],
    smem_q: cute.Pointer,
    output: cute.Tensor,
    top: cute.Tensor,
    total: cute.Tensor,
    out: cute.Pointer,
    lse: cute.Pointer,
    sinks: cute.Pointer,
    head: Int32,
    heads_q: Int32,
    q_start: Int32,
    tile_row: Int32,
    row: Int32,
    len_q: Int32,
    out_token_stride: Int64,
    out_head_stride: Int64,
    lse_head_stride: Int64,
    descale_v: cute.Pointer | None,
    scale_out: cute.Pointer | None,
    amax: cute.Pointer | None,
) -> None:
    """Normalise, store the warp's rows and free the Q tile's rows.

    `tile_row` is the warp's first row in the tile, `row` the same row in the sequence.
    """
    lane = cute.arch.lane_idx()
    sink = -Float32.inf
    if cutlass.const_expr(config.has_sinks):
        sink = cute.make_tensor(sinks, cute.make_layout(heads_q))[head]
    of_values, of_output = output_factors(config, descale_v, scale_out)
    largest = Float32(0.0)
    for slot in cutlass.range_constexpr(2 * config.bands):
        half, band = slot % 2, slot // 2
        reference = top[half, band]
        if cutlass.const_expr(config.bias > 0.0):
            reference = reference - config.bias
        factor, row_lse = finish_row(
            config, reference, quad_sum(total[half, band]), sink
        )
        local = row + (lane // 4 + 8 * half + BAND * band)
        if cutlass.const_expr(config.narrow):
            factor = factor * of_values
            magnitude = row_magnitude(config, output[None, band], half, factor)
            magnitude = cutlass.select_(local < len_q, magnitude, Float32(0.0))
            largest = cute.arch.fmax(largest, magnitude)
        if cutlass.const_expr(config.narrow_output):
            factor = factor * of_output
        for tile in cutlass.range_constexpr(config.d_tiles):
            for j in cutlass.range_constexpr(2):
                index = 4 * tile + 2 * half + j
                output[index, band] = output[index, band] * factor
        if cutlass.const_expr(config.lse != "none"):  # noqa: SIM102 - a stage each
            if lane % 4 == 0 and local < len_q:
                store_lse(
                    config,
                    lse,
                    Int64(q_start) + local,
                    head,
                    heads_q,
                    lse_head_stride,
                    row_lse,
                )
    if cutlass.const_expr(config.narrow):
        raise_amax(amax, largest)
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
            out + cute.assume(head * out_head_stride, divby=config.out_chunk // UNITS),
            Int64(q_start) + row,
            len_q - row,
            out_token_stride,
            out_turn,
        )


@cute.jit
def run_consumer(
    config: cutlass.Constexpr[KernelConfig],
    barriers: cute.Pointer,
    record: cute.Tensor,
    smem_q: cute.Pointer,
    smem_k: cute.Pointer,
    smem_v: cute.Pointer,
    out: cute.Pointer,
    lse: cute.Pointer,
    sinks: cute.Pointer,
    heads_q: Int32,
    left: Int32,
    right: Int32,
    scale_log2: Float32,
    out_token_stride: Int64,
    out_head_stride: Int64,
    lse_head_stride: Int64,
    descale_q: cute.Pointer | None,
    descale_k: cute.Pointer | None,
    descale_v: cute.Pointer | None,
    scale_out: cute.Pointer | None,
    amax: cute.Pointer | None,
) -> None:
    """Compute units until the loader publishes a dead record."""
    if cutlass.const_expr(config.narrow):
        scale_log2 = scale_log2 * (read_factor(descale_q) * read_factor(descale_k))
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    tile_row = warp * config.rows_per_warp
    output = cute.make_rmem_tensor((4 * config.d_tiles, config.bands), Float32)
    top = cute.make_rmem_tensor((2, config.bands), Float32)
    total = cute.make_rmem_tensor((2, config.bands), Float32)
    turn = Int32(0)
    count = Int32(0)
    phases.wait_full(barriers + bar.Q_FULL, turn)
    live = record[unit_record.LIVE]
    while live != 0:
        head = record[unit_record.HEAD]
        row0 = record[unit_record.ROW0]
        q_start = record[unit_record.Q_START]
        len_q = record[unit_record.LEN_Q]
        len_kv = record[unit_record.LEN_KV]
        row = row0 + tile_row
        output.fill(0.0)
        top.fill(-Float32.inf)
        total.fill(0.0)
        begin, plain_begin, plain_end, end = tile_range(
            config, row0, len_q, len_kv, left, right
        )
        lane_row = row + cute.arch.lane_idx() // 4
        # From the right: tiles that the right edge or the end of the keys cuts, whole
        # tiles, tiles that the left edge cuts (those end before len_kv).
        for span in cutlass.range_constexpr(3 if config.has_left else 2):
            lower, upper = begin, end
            if cutlass.const_expr(span == 0):
                lower = plain_end
            elif cutlass.const_expr(span == 1):
                lower, upper = plain_begin, plain_end
            else:
                upper = plain_begin
            count = walk_tiles(
                config,
                barriers,
                smem_q,
                smem_k,
                smem_v,
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
                left,
                right,
                scale_log2,
                span != 1,
                span == 0,
            )
        finish_unit(
            config,
            smem_q,
            output,
            top,
            total,
            out,
            lse,
            sinks,
            head,
            heads_q,
            q_start,
            tile_row,
            row,
            len_q,
            out_token_stride,
            out_head_stride,
            lse_head_stride,
            descale_v,
            scale_out,
            amax,
        )
        # The staging was written through the generic proxy; the next Q tile arrives
        # through the async proxy.
        cute.arch.fence_proxy("async.shared", space="cta")
        phases.arrive_warp(barriers + bar.Q_EMPTY)
        turn = turn + 1
        phases.wait_full(barriers + bar.Q_FULL, turn)
        live = record[unit_record.LIVE]
