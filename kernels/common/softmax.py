"""Online softmax of a row: its reference, its weights and their sum.

A thread holds the scores of a row, or some of them, in registers, as pairs of
neighbouring keys, `pitch` keys apart: 2 where it has all of the row, 8 in a fragment of
`mma.sync`, whose other pairs are with the other lanes of a quad. Everything here is one
row as one thread sees it. Where scores come from and where weights go is told in
`softmax.py` of each target.

The reference `top` of the exponentials is kept in log2 units, rounded after the product
with the scale. It is a maximum of rounded products, so an unchanged maximum gives a
factor of exactly 1 and no drift over long sequences. It follows the running maximum
only once that has grown by more than `lag`: until then weights reach at most 2^lag, the
factor is exactly 1 and nobody touches the output. The result is the same softmax, since
the reference cancels in the quotient.

Weights are all 2^`bias` as large, so that one byte does not lose the small ones. The
sum and the output grow by as much, and `finish_row` takes it off the reference.
"""

from typing import Protocol

import cutlass
from cutlass import Float32, cute
from cutlass._mlir.dialects import nvvm


class RowFacts(Protocol):
    """The plan-time facts that decide how a row is weighed."""

    @property
    def lag(self) -> float:
        """Growth of a row's maximum, in log2 units, that `top` may lag behind."""

    @property
    def bias(self) -> float:
        """Log2 of the factor on all weights of a row."""

    @property
    def f32x2(self) -> bool:
        """Whether every target has `fma.f32x2` and `max.f32` of three operands."""


@cute.jit
def finite_or_zero(value: Float32) -> Float32:
    """0 in place of -inf, so that -inf minus -inf never forms."""
    return cutlass.select_(value == -Float32.inf, Float32(0.0), value)


@cute.jit
def max3(a: Float32, b: Float32, c: Float32) -> Float32:
    """Largest of three, one instruction."""
    return Float32(nvvm.fmax(a.ir_value(), b.ir_value(), c=c.ir_value()))


@cute.jit
def row_peak(config: cutlass.Constexpr[RowFacts], scores: cute.Tensor) -> Float32:
    """Largest score; in four chains of pairs where an instruction takes three."""
    peak = -Float32.inf
    if cutlass.const_expr(config.f32x2):
        chains = cute.make_rmem_tensor(4, Float32)
        for j in cutlass.range_constexpr(4):
            chains[j] = cute.arch.fmax(scores[2 * j], scores[2 * j + 1])
        for j in cutlass.range_constexpr(8, cute.size(scores), 2):
            chain = (j // 2) % 4
            chains[chain] = max3(chains[chain], scores[j], scores[j + 1])
        peak = cute.arch.fmax(max3(chains[0], chains[1], chains[2]), chains[3])
    else:
        for j in cutlass.range_constexpr(cute.size(scores)):
            peak = cute.arch.fmax(peak, scores[j])
    return peak


@cute.jit
def raise_reference(
    config: cutlass.Constexpr[RowFacts],
    before: Float32,
    peak: Float32,
    scale_log2: Float32,
) -> tuple[Float32, Float32]:
    """Reference after scores up to `peak`, and the factor on what came before."""
    top = cute.arch.fmax(before, peak * scale_log2)
    if cutlass.const_expr(config.lag > 0.0):
        # Both may be -inf: their difference is NaN, and the comparison false.
        top = cutlass.select_(top - before <= config.lag, before, top)
    return top, cute.math.exp2(before - finite_or_zero(top), fastmath=True)


@cute.jit
def weigh_row(
    config: cutlass.Constexpr[RowFacts],
    scores: cute.Tensor,
    top: Float32,
    scale_log2: Float32,
    sums: cute.Tensor,
) -> None:
    """Turn scores into weights, 2^(score * scale - top + bias), in place.

    Weight i is added to number i of the partial sums, of which there may be any number
    that divides the scores'; an even one where arithmetic is in pairs.
    """
    base = finite_or_zero(top)
    if cutlass.const_expr(config.bias > 0.0):
        base = base - config.bias
    # In fours: the DSL warns of static loops of 64 turns.
    for four in cutlass.range_constexpr(0, cute.size(scores), 4):
        for i in cutlass.range_constexpr(four, four + 4, 2):
            slots = i % cute.size(sums), (i + 1) % cute.size(sums)
            if cutlass.const_expr(config.f32x2):
                pair = cute.arch.fma_packed_f32x2(
                    (scores[i], scores[i + 1]), (scale_log2, scale_log2), (-base, -base)
                )
                for j in cutlass.range_constexpr(2):
                    scores[i + j] = cute.math.exp2(pair[j], fastmath=True)
                sums[slots[0]], sums[slots[1]] = cute.arch.add_packed_f32x2(
                    (sums[slots[0]], sums[slots[1]]), (scores[i], scores[i + 1])
                )
            else:
                for j in cutlass.range_constexpr(2):
                    power = cute.math.fma(scores[i + j], scale_log2, -base)
                    scores[i + j] = cute.math.exp2(power, fastmath=True)
                    sums[slots[j]] = sums[slots[j]] + scores[i + j]


@cute.jit
def grown_sum(total: Float32, alpha: Float32, fresh: Float32) -> Float32:
    """Sum of a row's weights, on the reference that `fresh` ones are on."""
    return cute.math.fma(total, alpha, fresh)


@cute.jit
def scale_row(
    config: cutlass.Constexpr[RowFacts], values: cute.Tensor, factor: Float32
) -> None:
    """Multiply what a thread holds of a row of O by the row's factor."""
    for i in cutlass.range_constexpr(0, cute.size(values), 2):
        if cutlass.const_expr(config.f32x2):
            values[i], values[i + 1] = cute.arch.mul_packed_f32x2(
                (values[i], values[i + 1]), (factor, factor)
            )
        else:
            for j in cutlass.range_constexpr(2):
                values[i + j] = values[i + j] * factor
