"""The 16-bit float formats: rounding to them and their bit patterns, in numpy.

IEEE 754 binary16 and bfloat16 are both described by three numbers, so that every
error term in `sidestream.reference.tolerance` is computed from the format and not
typed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
U16 = NDArray[np.uint16]


@dataclass(frozen=True, kw_only=True)
class Format:
    """A binary floating-point format with round to nearest, ties to even."""

    name: str
    precision: int
    """Bits of the significand, the implicit one included."""
    min_exponent: int
    """Exponent of the smallest normal number, 2**min_exponent."""
    max_exponent: int
    """Exponent of the largest finite numbers, which lie in [2**e, 2**(e+1))."""

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of one rounding in the normal range, 2**-p."""
        return float(2.0**-self.precision)

    @property
    def smallest_normal(self) -> float:
        """Below this magnitude rounding has an absolute, not a relative, bound."""
        return float(2.0**self.min_exponent)

    @property
    def half_subnormal(self) -> float:
        """Largest absolute error of one rounding in the subnormal range."""
        return float(2.0 ** (self.min_exponent - self.precision))

    @property
    def largest(self) -> float:
        """Largest finite value."""
        return float((2.0 - 2.0 ** (1 - self.precision)) * 2.0**self.max_exponent)


FLOAT16 = Format(name="float16", precision=11, min_exponent=-14, max_exponent=15)
BFLOAT16 = Format(name="bfloat16", precision=8, min_exponent=-126, max_exponent=127)
FLOAT32 = Format(name="float32", precision=24, min_exponent=-126, max_exponent=127)

_FORMATS = {f.name: f for f in (FLOAT16, BFLOAT16, FLOAT32)}


def by_name(name: str) -> Format:
    """Return the format called `name`.

    Raises:
        ValueError: the name is none of float16, bfloat16, float32.
    """
    try:
        return _FORMATS[name]
    except KeyError:
        known = ", ".join(_FORMATS)
        raise ValueError(f"unknown float format {name!r}; known: {known}") from None


def round_to(values: Any, target: Format) -> F64:
    """Round float64 `values` to `target` once (no double rounding), as float64.

    Subnormals are kept, NaN stays NaN, and overflow gives infinity as IEEE 754
    round-to-nearest does.
    """
    x = np.asarray(values, dtype=np.float64)
    _, exponent = np.frexp(x)
    # frexp's significand lies in [0.5, 1), so the leading bit has weight exponent-1.
    last_bit = np.maximum(exponent - 1, target.min_exponent) - (target.precision - 1)
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = np.ldexp(np.rint(np.ldexp(x, -last_bit)), last_bit)
        overflow = np.abs(rounded) > target.largest
    rounded = np.where(overflow, np.copysign(np.inf, x), rounded)
    result: F64 = np.where(np.isfinite(x), rounded, x)
    return result


def to_bits(values: Any, target: Format) -> U16:
    """Return the 16-bit patterns of `values` rounded once to `target`.

    Raises:
        ValueError: `target` is not a 16-bit format.
    """
    rounded = round_to(values, target)
    if target is FLOAT16:
        return rounded.astype(np.float16).view(np.uint16)
    if target is BFLOAT16:
        # Exact: a rounded value has at most 8 significant bits and float32's range.
        # NaN payloads are quieted by the cast, so the upper half is still a NaN.
        words = np.ascontiguousarray(rounded.astype(np.float32)).view(np.uint32)
        return (words >> np.uint32(16)).astype(np.uint16).reshape(rounded.shape)
    raise ValueError(f"{target.name} has no 16-bit pattern")


def from_bits(bits: Any, source: Format) -> F64:
    """Return the float64 values of 16-bit patterns of `source`; exact.

    Raises:
        ValueError: `source` is not a 16-bit format.
    """
    words = np.ascontiguousarray(bits, dtype=np.uint16)
    if source is FLOAT16:
        with np.errstate(invalid="ignore"):  # signalling NaNs
            return words.view(np.float16).astype(np.float64)
    if source is BFLOAT16:
        wide = words.astype(np.uint32) << np.uint32(16)
        with np.errstate(invalid="ignore"):  # signalling NaNs
            return wide.view(np.float32).astype(np.float64)
    raise ValueError(f"{source.name} has no 16-bit pattern")
