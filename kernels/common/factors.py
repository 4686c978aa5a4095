"""Factors of one-byte operands, read on the device, and the largest output.

Q, K, V and the output each stand for their numbers times a float32 factor that lies in
device memory: whoever quantised them left it there, and no host has to read it.
"""

from cutlass import Float32, cute


@cute.jit
def read_factor(factor: cute.Pointer) -> Float32:
    """The one float32 at `factor`."""
    return cute.make_tensor(factor, cute.make_layout(1))[0]


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
