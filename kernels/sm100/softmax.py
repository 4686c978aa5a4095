"""A softmax warpgroup: turns the scores of one sub-tile into weights, row by row.

Thread r owns row r. It reads the row's scores from tensor memory, masks them where the
tile needs it, writes unnormalised weights over them and tells the correction warps by
how much earlier sums have to shrink.

The reference `top` of the exponentials (log2 units, rounded after the product with the
scale) follows the running maximum only once that has grown by more than `config.lag`:
until then weights reach at most 2^8, which float16 holds with room, the factor is
exactly 1 and nobody touches the output. The result is the same softmax, since the
reference cancels in the quotient.

Weights of one byte are all 2^`config.bias` as large, so that small ones are not lost.
The reference that is told at the end is lower by as much, and so the sum, O, the
log-sum-exp and a sink agree as ever.
"""

import cutlass
from cutlass import Float32, Int32, cute
from cutlass._mlir.dialects import nvvm

from sidestream.kernels.common import phases
from sidestream.kernels.common.bounds import row_limits
from sidestream.kernels.common.element import element_type
from sidestream.kernels.common.factors import read_factor
from sidestream.kernels.common.normalise import finite_or_zero
from sidestream.kernels.sm100 import barriers as bar
from sidestream.kernels.sm100 import tensor_memory as tmem
from sidestream.kernels.sm100 import unit as record
from sidestream.kernels.sm100.config import GROUP, KernelConfig

LOAD = 32
"""Columns of one load or store of tensor memory."""


@cute.jit
def max3(a: Float32, b: Float32, c: Float32) -> Float32:
    """Largest of three, one instruction."""
    return Float32(nvvm.fmax(a.ir_value(), b.ir_value(), c=c.ir_value()))


@cute.jit
def mask_row(
    config: cutlass.Constexpr[KernelConfig],
    scores: cute.Tensor,
    key0: Int32,
    row: Int32,
    len_q: Int32,
    len_kv: Int32,
    left: Int32,
    right: Int32,
) -> None:
    """Replace scores of keys that the row does not keep by -inf.

    A select, not arithmetic: keys past the end may have produced NaN scores.
    """
    first, last = row_limits(config, row, len_q, len_kv, left, right)
    first = first - key0
    last = last - key0
    for j in cutlass.range(config.tile_n, unroll_full=True):
        keep = last >= j
        if cutlass.const_expr(config.has_left):
            keep = keep and first <= j
        scores[j] = cutlass.select_(keep, scores[j], -Float32.inf)


@cute.jit
def row_peak(config: cutlass.Constexpr[KernelConfig], scores: cute.Tensor) -> Float32:
    """Largest score of the row, two elements an instruction in four chains."""
    chains = cute.make_rmem_tensor(4, Float32)
    for j in cutlass.range_constexpr(4):
        chains[j] = cute.arch.fmax(scores[2 * j], scores[2 * j + 1])
    for j in cutlass.range_constexpr(8, config.tile_n, 2):
        chain = (j // 2) % 4
        chains[chain] = max3(chains[chain], scores[j], scores[j + 1])
    return cute.arch.fmax(max3(chains[0], chains[1], chains[2]), chains[3])


@cute.jit
def weigh_row(
    config: cutlass.Constexpr[KernelConfig],
    scores: cute.Tensor,
    base: Float32,
    scale_log2: Float32,
) -> Float32:
    """Turn scores into 2^(score * scale - base) in place; returns their sum."""
    sums = cute.make_rmem_tensor(4, Float32)
    sums.fill(0.0)
    scale = (scale_log2, scale_log2)
    shift = (-base, -base)
    for step in cutlass.range(config.tile_n // 4, unroll_full=True):
        for half in cutlass.range_constexpr(2):
            j = 4 * step + 2 * half
            pair = cute.arch.fma_packed_f32x2((scores[j], scores[j + 1]), scale, shift)
            even = cute.math.exp2(pair[0], fastmath=True)
            odd = cute.math.exp2(pair[1], fastmath=True)
            scores[j] = even
            scores[j + 1] = odd
            sums[2 * half], sums[2 * half + 1] = cute.arch.add_packed_f32x2(
                (sums[2 * half], sums[2 * half + 1]), (even, odd)
            )
    even, odd = cute.arch.add_packed_f32x2((sums[0], sums[1]), (sums[2], sums[3]))
    return even + odd


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
            mask_row(config, scores, key0, row, len_q, len_kv, left, right)

        before = state[0]
        after = cute.arch.fmax(before, row_peak(config, scores) * scale_log2)
        # Both may be -inf: their difference is NaN, and the comparison false.
        top = cutlass.select_(after - before <= config.lag, before, after)
        reference = finite_or_zero(top)
        alpha = cute.math.exp2(before - reference, fastmath=True)
        # With two sub-tiles it is the last message of a unit that may not have been
        # read yet: within a unit the scores that were waited for come behind P_READY of
        # the tile before, which the correction warps give after reading. Any span can
        # hold the first tile. A single one has scores before that.
        phases.wait_empty(barriers + (bar.STATS_EMPTY + sub), counts[1])
        message[0] = alpha
        cute.arch.mbarrier_arrive(barriers + (bar.STATS_FULL + sub))

        if cutlass.const_expr(config.narrow):
            reference = reference - config.bias
        fresh = weigh_row(config, scores, reference, scale_log2)
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
        state[1] = cute.math.fma(state[1], alpha, fresh)
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
    left: Int32,
    right: Int32,
    scale_log2: Float32,
    descale_q: cute.Pointer | None,
    descale_k: cute.Pointer | None,
) -> None:
    """Weigh the scores of sub-tile `sub` until the dead record comes."""
    thread = cute.arch.thread_idx()[0] % GROUP
    message = messages[sub, thread, None]
    state = cute.make_rmem_tensor(2, Float32)
    counts = cute.make_rmem_tensor(2, Int32)
    facts = cute.make_rmem_tensor(record.WORDS, Int32)
    counts.fill(0)
    if cutlass.const_expr(config.narrow):
        scale_log2 = scale_log2 * (read_factor(descale_q) * read_factor(descale_k))
    turn = Int32(0)
    record.read_unit(barriers, records, turn, facts)
    while facts[record.LIVE] != 0:
        begin, plain_begin, plain_end, end = record.sub_tile_tiles(facts, sub)
        if begin < end:
            state[0] = -Float32.inf
            state[1] = Float32(0.0)
            # From the right: tiles that the right edge or the end of the keys cuts,
            # whole tiles, tiles that the left edge cuts.
            for span in cutlass.range_constexpr(3 if config.has_left else 2):
                lower, upper = begin, end
                if cutlass.const_expr(span == 0):
                    lower = plain_end
                elif cutlass.const_expr(span == 1):
                    lower, upper = plain_begin, plain_end
                else:
                    upper = plain_begin
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
                    facts[record.ROW0] + (sub * config.tile_m + thread),
                    facts[record.LEN_Q],
                    facts[record.LEN_KV],
                    left,
                    right,
                    scale_log2,
                    span != 1,
                )
            phases.wait_empty(barriers + (bar.STATS_EMPTY + sub), counts[1])
            message[0] = state[0]
            if cutlass.const_expr(config.narrow):
                message[0] = state[0] - config.bias
            message[1] = state[1]
            cute.arch.mbarrier_arrive(barriers + (bar.STATS_FULL + sub))
            counts[1] = counts[1] + 1
        turn = turn + 1
        record.read_unit(barriers, records, turn, facts)
