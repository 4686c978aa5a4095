"""The narrow float formats: rounding to them and their bit patterns, in numpy.

IEEE 754 binary16, bfloat16, OCP E4M3 and E5M2 are all described by a few numbers, so
that every error term in `sidestream.reference.tolerance` is computed from the format
and not typed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
Bits = NDArray[np.uint16] | NDArray[np.uint8]


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
    width: int
    """Bits of a pattern."""
    infinite: bool = True
    """Whether there are infinities; without them the largest pattern is the NaN."""

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
        taken = 1 if self.infinite else 2
        return float(
            (2.0 - taken * 2.0 ** (1 - self.precision)) * 2.0**self.max_exponent
        )

    @property
    def bits_type(self) -> type[np.unsignedinteger[Any]]:
        """The numpy type of one pattern."""
        types: dict[int, type[np.unsignedinteger[Any]]] = {
            8: np.uint8,
            16: np.uint16,
            32: np.uint32,
        }
        return types[self.width]


FLOAT16 = Format(
    name="float16", precision=11, min_exponent=-14, max_exponent=15, width=16
)
BFLOAT16 = Format(
    name="bfloat16", precision=8, min_exponent=-126, max_exponent=127, width=16
)
FLOAT32 = Format(
    name="float32", precision=24, min_exponent=-126, max_exponent=127, width=32
)
FLOAT8_E4M3FN = Format(
    name="float8_e4m3fn",
    precision=4,
    min_exponent=-6,
    max_exponent=8,
    width=8,
    infinite=False,
)
"""E4M3 of the OCP 8-bit floating point specification, revision 1.0."""

FLOAT8_E5M2 = Format(
    name="float8_e5m2", precision=3, min_exponent=-14, max_exponent=15, width=8
)
"""E5M2 of the same specification: the upper half of a binary16."""

_FORMATS = {f.name: f for f in (FLOAT16, BFLOAT16, FLOAT32, FLOAT8_E4M3FN, FLOAT8_E5M2)}


def by_name(name: str) -> Format:
    """Return the format called `name`.

    Raises:
        ValueError: the name is none of float16, bfloat16, float32, float8_e4m3fn and
            float8_e5m2.
    """
    try:
        return _FORMATS[name]
    except KeyError:
        known = ", ".join(_FORMATS)
        raise ValueError(f"unknown float format {name!r}; known: {known}") from None


def round_to(values: Any, target: Format) -> F64:
    """Round float64 `values` to `target` once (no double rounding), as float64.

    Subnormals are kept, NaN stays NaN, and overflow gives infinity as IEEE 754
    round-to-nearest does, or NaN in a format without infinities.
    """
    x = np.asarray(values, dtype=np.float64)
    _, exponent = np.frexp(x)
    # frexp's significand lies in [0.5, 1), so the leading bit has weight exponent-1.
    last_bit = np.maximum(exponent - 1, target.min_exponent) - (target.precision - 1)
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = np.ldexp(np.rint(np.ldexp(x, -last_bit)), last_bit)
        overflow = np.abs(rounded) > target.largest
    beyond = np.copysign(np.inf, x) if target.infinite else np.nan
    rounded = np.where(overflow, beyond, rounded)
    kept = x if target.infinite else np.full_like(x, np.nan)
    result: F64 = np.where(np.isfinite(x), rounded, kept)
    return result


def to_bits(values: Any, target: Format) -> Bits:
    """Return the 8- or 16-bit patterns of `values` rounded once to `target`.

    Raises:
        ValueError: `target` has wider patterns.
    """
    rounded = round_to(values, target)
    if target is FLOAT8_E4M3FN:
        return _to_e4m3(rounded)
    if target is FLOAT16:
        return rounded.astype(np.float16).view(np.uint16)
    if target is FLOAT8_E5M2:
        # Exact, as binary16 has the same exponents and more digits.
        halves = np.ascontiguousarray(rounded.astype(np.float16)).view(np.uint16)
        return (halves >> np.uint16(8)).astype(np.uint8).reshape(rounded.shape)
    if target is BFLOAT16:
        # Exact: a rounded value has at most 8 significant bits and float32's range.
        # NaN payloads are quieted by the cast, so the upper half is still a NaN.
        words = np.ascontiguousarray(rounded.astype(np.float32)).view(np.uint32)
        return (words >> np.uint32(16)).astype(np.uint16).reshape(rounded.shape)
    raise ValueError(f"{target.name} has no pattern of at most 16 bits")


def from_bits(bits: Any, source: Format) -> F64:
    """Return the float64 values of 8- or 16-bit patterns of `source`; exact.

    Raises:
        ValueError: `source` has wider patterns.
    """
    if source is FLOAT8_E4M3FN:
        return _E4M3_VALUES[np.asarray(bits, dtype=np.uint8)]
    words = np.ascontiguousarray(bits, dtype=np.uint16)
    if source is FLOAT8_E5M2:
        words = words << np.uint16(8)
    if source in (FLOAT16, FLOAT8_E5M2):
        with np.errstate(invalid="ignore"):  # signalling NaNs
            return words.view(np.float16).astype(np.float64)
    if source is BFLOAT16:
        wide = words.astype(np.uint32) << np.uint32(16)
        with np.errstate(invalid="ignore"):  # signalling NaNs
            return wide.view(np.float32).astype(np.float64)
    raise ValueError(f"{source.name} has no pattern of at most 16 bits")


_E4M3_NAN = 0x7F


def _e4m3_values() -> F64:
    """Return the value of each of the 256 patterns: 1 sign, 4 exponent, 3 fraction."""
    code = np.arange(256)
    exponent, fraction = (code >> 3) & 15, code & 7
    normal = (1.0 + fraction / 8.0) * 2.0 ** (exponent - 7.0)
    size = np.where(exponent == 0, fraction * 2.0**-9, normal)
    size[(code & _E4M3_NAN) == _E4M3_NAN] = np.nan
    return np.where(code >> 7, -size, size)


_E4M3_VALUES = _e4m3_values()


def _to_e4m3(rounded: F64) -> NDArray[np.uint8]:
    """Return the patterns of values that are E4M3 numbers or NaN."""
    size = np.abs(rounded)
    code = np.searchsorted(_E4M3_VALUES[:_E4M3_NAN], np.nan_to_num(size))
    code = np.where(np.isnan(rounded), _E4M3_NAN, code)
    return np.where(np.signbit(rounded), code | 0x80, code).astype(np.uint8)
