"""The correction warpgroup: keeps O on the softmax's reference and finishes rows.

Thread r owns row r of both sub-tiles. It hears of every tile from the softmax and, if
a row of its warp changed its reference, multiplies what O holds. At the end of a unit
it normalises O, rounds it into shared memory for the epilogue warps and stores the
log-sum-exp.

The first tile of a unit finds no O yet. The warpgroup uses that time to clear the rows
of V past the end of the keys: their weight is 0, but they belong to the next sequence
or to the capacity tail and may hold NaN or infinity, and 0 times those is NaN. Tiles
run from the right, so that only the first one has such rows.
"""

import cutlass
from cutlass import Float32, Int32, Int64, Uint32, cute

from sidestream.kernels.common.config import CHUNK
from sidestream.kernels.common.element import element_type
from sidestream.kernels.common.normalise import finish_row, store_lse
from sidestream.kernels.common.swizzle import UNIT, unit_pointer
from sidestream.kernels.sm100 import barriers as bar
from sidestream.kernels.sm100 import tensor_memory as tmem
from sidestream.kernels.sm100.config import GROUP, SUB_TILES, KernelConfig
from sidestream.kernels.sm100.unit import read_unit, unit_ranges

LOAD = 32
"""Columns of one load or store of tensor memory."""


@cute.jit
def clear_rows(
    config: cutlass.Constexpr[KernelConfig],
    tile: cute.Pointer,
    first: Int32,
    thread: Int32,
) -> None:
    """Zero the rows of a V tile from `first` on; whole rows, so swizzled or not."""
    zeros = cute.make_rmem_tensor(4, Uint32)
    zeros.fill(0)
    per_row = CHUNK // UNIT
    rows = GROUP // per_row
    for block in cutlass.range_constexpr(config.chunks):
        for step in cutlass.range_constexpr(config.tile_n // rows):
            row = step * rows + thread // per_row
            if row >= first:
                offset = (block * config.tile_n + row) * CHUNK
                offset = offset + (thread % per_row) * UNIT
                target = tile + cute.assume(offset, divby=UNIT)
                cute.autovec_copy(
                    zeros,
                    cute.make_tensor(
                        cute.recast_ptr(target, dtype=Uint32), cute.make_layout(4)
                    ),
                )


@cute.jit
def clear_tail(
    config: cutlass.Constexpr[KernelConfig],
    barriers: cute.Pointer,
    smem_kv: cute.Pointer,
    count: Int32,
    first: Int32,
    thread: Int32,
) -> None:
    """Clear V rows from `first` on in tile number `count` of the ring, once landed.

    The matrix instruction reads them through the async proxy, hence the fence; the
    arrival on P_READY that follows hands them over.
    """
    stage, parity = bar.stage_and_parity(count, config.stages)
    cute.arch.mbarrier_wait(barriers + (bar.TILE_FULL + stage), parity)
    elements = config.kv_bytes // 2
    tile = smem_kv + cute.assume(stage * elements, divby=elements)
    clear_rows(config, tile, first, thread)
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
    for part in cutlass.range_constexpr(config.width // LOAD):
        start = Int32(column + part * LOAD)
        tmem.load_row(base, start, thread, LOAD, values)
        tmem.wait_loads()
        for j in cutlass.range_constexpr(0, LOAD, 2):
            values[j], values[j + 1] = cute.arch.mul_packed_f32x2(
                (values[j], values[j + 1]), (alpha, alpha)
            )
        tmem.store_row(base, start, thread, LOAD, values)
    tmem.wait_stores()


@cute.jit
def stage_row(
    config: cutlass.Constexpr[KernelConfig],
    tile: cute.Pointer,
    row: Int32,
    column: cutlass.Constexpr[int],
    values: cute.Tensor,
) -> None:
    """Round 32 columns of a row and put them into the swizzled output tile."""
    rounded = cute.make_rmem_tensor(LOAD, element_type(config))
    rounded.store(values.load().to(element_type(config)))
    packed = cute.make_tensor(
        cute.recast_ptr(rounded.iterator, dtype=Uint32), cute.make_layout(LOAD // 2)
    )
    for unit in cutlass.range_constexpr(LOAD // UNIT):
        target = unit_pointer(tile, config.tile_m, row, Int32(column // UNIT + unit))
        cute.autovec_copy(
            cute.make_tensor(packed.iterator + 4 * unit, cute.make_layout(4)),
            cute.make_tensor(
                cute.recast_ptr(target, dtype=Uint32), cute.make_layout(4)
            ),
        )


@cute.jit
def stage_output(
    config: cutlass.Constexpr[KernelConfig],
    base: cute.Pointer,
    column: cutlass.Constexpr[int],
    tile: cute.Pointer,
    thread: Int32,
    factor: Float32,
    visits: Int32,
) -> None:
    """Normalise the thread's row of O into the output tile; zeros without tiles."""
    values = cute.make_rmem_tensor(LOAD, Float32)
    for part in cutlass.range_constexpr(config.width // LOAD):
        values.fill(0.0)
        if visits > 0:
            tmem.load_row(base, Int32(column + part * LOAD), thread, LOAD, values)
            tmem.wait_loads()
            for j in cutlass.range_constexpr(0, LOAD, 2):
                values[j], values[j + 1] = cute.arch.mul_packed_f32x2(
                    (values[j], values[j + 1]), (factor, factor)
                )
        stage_row(config, tile, thread, part * LOAD, values)


@cute.jit
def follow_tiles(
    config: cutlass.Constexpr[KernelConfig],
    barriers: cute.Pointer,
    base: cute.Pointer,
    messages: cute.Tensor,
    counts: cute.Tensor,
    thread: Int32,
    begin0: Int32,
    end0: Int32,
    begin1: Int32,
    end1: Int32,
    begin: Int32,
    end: Int32,
) -> None:
    """Hear of every tile of both sub-tiles and rescale O where a row asks for it."""
    for step in cutlass.range(end - begin, unroll=1):
        tile = end - 1 - step
        for sub in cutlass.range_constexpr(SUB_TILES):
            first, last = end0 - 1, begin0
            if cutlass.const_expr(sub == 1):
                first, last = end1 - 1, begin1
            if tile >= last and tile <= first:
                bar.wait_full(barriers + (bar.STATS_FULL + sub), counts[sub])
                alpha = messages[sub, thread, 0]
                cute.arch.mbarrier_arrive(barriers + (bar.STATS_EMPTY + sub))
                counts[sub] = counts[sub] + 1
                if tile < first and cute.arch.vote_any_sync(alpha != Float32(1.0)):
                    tmem.fence_after()
                    rescale(config, base, tmem.O_COLUMN[sub], thread, alpha)
                tmem.fence_before()
                cute.arch.mbarrier_arrive(barriers + (bar.P_READY + sub))


@cute.jit
def run_correction(
    config: cutlass.Constexpr[KernelConfig],
    barriers: cute.Pointer,
    records: cute.Tensor,
    base: cute.Pointer,
    messages: cute.Tensor,
    smem_kv: cute.Pointer,
    smem_out: cute.Pointer,
    lse: cute.Pointer,
    sinks: cute.Pointer,
    heads_q: Int32,
    left: Int32,
    right: Int32,
    lse_head_stride: Int64,
) -> None:
    """Correct and finish units until the dead record comes."""
    thread = cute.arch.thread_idx()[0] % GROUP
    counts = cute.make_rmem_tensor(SUB_TILES, Int32)
    products = cute.make_rmem_tensor(SUB_TILES, Int32)
    outputs = cute.make_rmem_tensor(SUB_TILES, Int32)
    counts.fill(0)
    products.fill(0)
    outputs.fill(0)
    count = Int32(0)
    turn = Int32(0)
    live, head, row0, q_start, len_q, len_kv = read_unit(barriers, records, turn)
    while live != 0:
        begin0, end0, begin1, end1, begin, end = unit_ranges(
            config, row0, len_q, len_kv, left, right
        )
        if begin < end and end * config.tile_n > len_kv:
            clear_tail(
                config,
                barriers,
                smem_kv,
                count + 1,
                len_kv - (end - 1) * config.tile_n,
                thread,
            )
        follow_tiles(
            config,
            barriers,
            base,
            messages,
            counts,
            thread,
            begin0,
            end0,
            begin1,
            end1,
            begin,
            end,
        )
        count = count + 2 * (end - begin)

        sink = -Float32.inf
        if cutlass.const_expr(config.has_sinks):
            sink = cute.make_tensor(sinks, cute.make_layout(heads_q))[head]
        for sub in cutlass.range_constexpr(SUB_TILES):
            visits = end0 - begin0
            if cutlass.const_expr(sub == 1):
                visits = end1 - begin1
            row = row0 + (sub * config.tile_m + thread)
            if row0 + sub * config.tile_m < len_q:
                top = -Float32.inf
                total = Float32(0.0)
                if visits > 0:
                    bar.wait_full(barriers + (bar.STATS_FULL + sub), counts[sub])
                    top = messages[sub, thread, 0]
                    total = messages[sub, thread, 1]
                    cute.arch.mbarrier_arrive(barriers + (bar.STATS_EMPTY + sub))
                    counts[sub] = counts[sub] + 1
                    bar.wait_full(barriers + (bar.O_FULL + sub), products[sub])
                    products[sub] = products[sub] + 1
                    tmem.fence_after()
                factor, row_lse = finish_row(config, top, total, sink)
                bar.wait_empty(barriers + (bar.DRAINED + sub), outputs[sub])
                stage_output(
                    config,
                    base,
                    tmem.O_COLUMN[sub],
                    smem_out + sub * (config.q_bytes // 2),
                    thread,
                    factor,
                    visits,
                )
                cute.arch.mbarrier_arrive(barriers + (bar.STAGED + sub))
                outputs[sub] = outputs[sub] + 1
                if cutlass.const_expr(config.lse != "none"):  # noqa: SIM102 - a stage each
                    if row < len_q:
                        store_lse(
                            config,
                            lse,
                            Int64(q_start) + row,
                            head,
                            heads_q,
                            lse_head_stride,
                            row_lse,
                        )
        turn = turn + 1
        live, head, row0, q_start, len_q, len_kv = read_unit(barriers, records, turn)
    tmem.fence_before()
