"""Factors of one-byte operands, read on the device, and the largest output.

Q, K, V and the output each stand for their numbers times a float32 factor that lies in
device memory: whoever quantised them left it there, and no host has to read it.
"""

import cutlass
from cutlass import Boolean, Float32, cute

from sidestream.kernels.common.config import ForwardContract
from sidestream.kernels.common.operands import Factors, Problem


@cute.jit
def read_factor(factor: cute.Pointer) -> Float32:
    """The one float32 at `factor`."""
    return cute.make_tensor(factor, cute.make_layout(1))[0]


@cute.jit
def score_scale(
    config: cutlass.Constexpr[ForwardContract],
    problem: Problem,
) -> Float32:
    """What a product of a query and a key is multiplied by, in log2 units."""
    scale = problem.scale_log2
    if cutlass.const_expr(config.descaled):
        factors = problem.factors
        scale = scale * (
            read_factor(factors.descale_q) * read_factor(factors.descale_k)
        )
    return scale


@cute.jit
def output_factors(
    config: cutlass.Constexpr[ForwardContract], factors: Factors
) -> tuple[Float32, Float32]:
    """What P V and then O are multiplied by: 1 where there is no such factor."""
    of_values = Float32(1.0)
    of_output = Float32(1.0)
    if cutlass.const_expr(config.descaled):
        of_values = read_factor(factors.descale_v)
    if cutlass.const_expr(config.narrow_output):
        of_output = read_factor(factors.scale_out)
    return of_values, of_output


@cute.jit
def stored_factor(
    config: cutlass.Constexpr[ForwardContract],
    factor: Float32,
    of_values: Float32,
    of_output: Float32,
) -> tuple[Float32, Float32]:
    """What a row of sums is multiplied by to be the output, and to be what is stored.

    `factor` normalises the row; the others are those of `output_factors`.
    """
    if cutlass.const_expr(config.descaled):
        factor = factor * of_values
    stored = factor
    if cutlass.const_expr(config.narrow_output):
        stored = factor * of_output
    return factor, stored


@cute.jit
def largest_magnitude(peak: Float32, values: cute.Tensor) -> Float32:
    """Largest of `peak` and the magnitudes of an even number; a NaN is passed over."""
    for i in cutlass.range_constexpr(0, cute.size(values), 2):
        pair = cute.math.absf(values[i]), cute.math.absf(values[i + 1])
        peak = cute.arch.fmax(peak, cute.arch.fmax(pair[0], pair[1]))
    return peak


@cute.jit
def row_magnitude(peak: Float32, factor: Float32, live: Boolean) -> Float32:
    """Largest magnitude of a row of the output, 0 of one that is nobody's.

    `peak` is that of the sums. Rounding keeps the order, so that the largest one is
    found before the product with `factor`.
    """
    return cutlass.select_(live, peak * cute.math.absf(factor), Float32(0.0))


@cute.jit
def raise_amax(amax: cute.Pointer, value: Float32) -> None:
    """Make `amax` at least the largest `value` of the warp, none of them negative.

    A maximum does not depend on who comes first, so that equal calls leave equal bits.
    A NaN is passed over: its pattern, which numbers are compared by, is the largest.
    """
    largest = cute.arch.warp_reduction_max(cute.arch.fmax(value, Float32(0.0)))
    if cute.arch.lane_idx() == 0:
        cute.arch.atomic_fmax(amax, largest, sign_bit=False, sem="relaxed", scope="gpu")
