"""Factors of one-byte operands, read on the device, and the largest output.

Q, K, V and the output each stand for their numbers times a float32 factor that lies in
device memory: whoever quantised them left it there, and no host has to read it.
"""

import cutlass
from cutlass import Float32, cute

from sidestream.kernels.common.config import ForwardContract


@cute.jit
def read_factor(factor: cute.Pointer) -> Float32:
    """The one float32 at `factor`."""
    return cute.make_tensor(factor, cute.make_layout(1))[0]


@cute.jit
def output_factors(
    config: cutlass.Constexpr[ForwardContract],
    descale_v: cute.Pointer | None,
    scale_out: cute.Pointer | None,
) -> tuple[Float32, Float32]:
    """What P V and then O are multiplied by: 1 where there is no such factor."""
    of_values = Float32(1.0)
    of_output = Float32(1.0)
    if cutlass.const_expr(config.narrow):
        of_values = read_factor(descale_v)
    if cutlass.const_expr(config.narrow_output):
        of_output = read_factor(scale_out)
    return of_values, of_output


@cute.jit
def largest_magnitude(peak: Float32, a: Float32, b: Float32) -> Float32:
    """Largest of `peak`, |a| and |b|; a NaN is passed over."""
    return cute.arch.fmax(peak, cute.arch.fmax(cute.math.absf(a), cute.math.absf(b)))


@cute.jit
def raise_amax(amax: cute.Pointer, value: Float32) -> None:
    """Make `amax` at least the largest `value` of the warp, none of them negative.

    A maximum does not depend on who comes first, so that equal calls leave equal bits.
    A NaN is passed over: its pattern, which numbers are compared by, is the largest.
    """
    largest = cute.arch.warp_reduction_max(cute.arch.fmax(value, Float32(0.0)))
    if cute.arch.lane_idx() == 0:
        cute.arch.atomic_fmax(amax, largest, sign_bit=False, sem="relaxed", scope="gpu")
