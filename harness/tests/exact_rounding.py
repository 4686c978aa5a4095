"""Floating point by exact rational arithmetic: the oracle of the numeric tests.

Nothing here uses the host's floating-point unit. A `Number` is a NaN, an infinity or a
signed rational; `Format.round` rounds it in any mode, `Format.read` decodes a pattern.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt


@dataclass(frozen=True)
class Number:
    """`kind` is `nan`, `inf` or `finite`; zeros keep their sign in `negative`."""

    kind: str
    negative: bool = False
    magnitude: Fraction = Fraction(0)

    @property
    def value(self) -> Fraction:
        """Signed value of a finite number."""
        return -self.magnitude if self.negative else self.magnitude

    def negated(self) -> Number:
        """The number with the other sign."""
        return Number(self.kind, not self.negative, self.magnitude)


NAN = Number("nan")
INF = Number("inf")


def finite(value: Fraction | int, *, negative_zero: bool = False) -> Number:
    """A finite number; zero is negative on request."""
    negative = value < 0 or (value == 0 and negative_zero)
    return Number("finite", negative, abs(Fraction(value)))


@dataclass(frozen=True)
class Format:
    """A binary floating-point format.

    Attributes:
        exponent: Exponent bits.
        fraction: Fraction bits.
        specials: `ieee` (infinities and NaNs), `nan` (only all ones is NaN) or `none`.
    """

    exponent: int
    fraction: int
    specials: str = "ieee"

    @property
    def bias(self) -> int:
        """Exponent bias."""
        return (1 << (self.exponent - 1)) - 1

    @property
    def sign(self) -> int:
        """The sign bit's weight."""
        return 1 << (self.exponent + self.fraction)

    @property
    def largest(self) -> int:
        """Pattern of the largest finite magnitude."""
        top = self.sign - 1
        if self.specials == "ieee":
            return (top >> self.fraction << self.fraction) - 1
        return top - 1 if self.specials == "nan" else top

    def read(self, pattern: int) -> Number:
        """Decode a pattern."""
        negative = bool(pattern & self.sign)
        magnitude = pattern & (self.sign - 1)
        if magnitude > self.largest:
            infinite = self.specials == "ieee" and magnitude == self.largest + 1
            return Number("inf", negative) if infinite else NAN
        exponent = magnitude >> self.fraction
        digits = magnitude & ((1 << self.fraction) - 1)
        if exponent:
            digits += 1 << self.fraction
        power = max(exponent, 1) - self.bias - self.fraction
        return Number("finite", negative, digits * Fraction(2) ** power)

    def round(self, number: Number, mode: str = "rn", *, finite: bool = False) -> int:
        """Pattern of a number rounded to this format; a NaN gives -1.

        Modes are PTX's: rn, rna, rz, rm, rp. With `finite`, what would be infinite
        becomes the largest number, as `.satfinite` asks.
        """
        if number.kind == "nan":
            return -1
        sign = self.sign if number.negative else 0
        if number.kind == "inf":
            return sign | (self.largest if finite else self.largest + 1)
        return sign | self._magnitude(
            number.magnitude, mode, finite=finite, negative=number.negative
        )

    def _magnitude(
        self, value: Fraction, mode: str, *, finite: bool, negative: bool
    ) -> int:
        if value == 0:
            return 0
        power = value.numerator.bit_length() - value.denominator.bit_length()
        if value < Fraction(2) ** power:
            power -= 1
        power = max(power, 1 - self.bias)
        scaled = value / Fraction(2) ** (power - self.fraction)
        digits = int(scaled)
        rest = scaled - digits
        half = Fraction(1, 2)
        up = {
            "rn": rest > half or (rest == half and digits % 2 == 1),
            "rna": rest >= half,
            "rz": False,
            "rm": negative and rest > 0,
            "rp": not negative and rest > 0,
        }[mode]
        digits += up
        pattern = ((power + self.bias - 1) << self.fraction) + digits
        if pattern <= self.largest:
            return pattern
        clamps = {"rz": True, "rm": not negative, "rp": negative}.get(mode, False)
        return self.largest if finite or clamps else self.largest + 1


F64 = Format(11, 52)
F32 = Format(8, 23)
F16 = Format(5, 10)
BF16 = Format(8, 7)
TF32 = Format(8, 10)
E5M2 = Format(5, 2)
E4M3 = Format(4, 3, "nan")
E3M2 = Format(3, 2, "none")
E2M3 = Format(2, 3, "none")
E2M1 = Format(2, 1, "none")


def _zero_sum(a: Number, b: Number, mode: str) -> Number:
    """The sign of an exact zero sum (IEEE 754-2019, 6.3)."""
    if a.magnitude == b.magnitude == 0 and a.negative == b.negative:
        return a
    return finite(0, negative_zero=mode == "rm")


def add(a: Number, b: Number, mode: str = "rn") -> Number:
    """The exact sum; the mode decides only the sign of a zero."""
    if "nan" in (a.kind, b.kind):
        return NAN
    if "inf" in (a.kind, b.kind):
        if a.kind == b.kind and a.negative != b.negative:
            return NAN
        return a if a.kind == "inf" else b
    total = a.value + b.value
    return finite(total) if total else _zero_sum(a, b, mode)


def mul(a: Number, b: Number) -> Number:
    """The exact product."""
    if "nan" in (a.kind, b.kind):
        return NAN
    negative = a.negative != b.negative
    if "inf" in (a.kind, b.kind):
        if (a.kind == "finite" and not a.magnitude) or (
            b.kind == "finite" and not b.magnitude
        ):
            return NAN
        return Number("inf", negative)
    return Number("finite", negative, a.magnitude * b.magnitude)


def div(a: Number, b: Number) -> Number:
    """The exact quotient."""
    if "nan" in (a.kind, b.kind) or a.kind == b.kind == "inf":
        return NAN
    negative = a.negative != b.negative
    if a.kind == "inf":
        return Number("inf", negative)
    if b.kind == "inf":
        return Number("finite", negative)
    if not b.magnitude:
        return NAN if not a.magnitude else Number("inf", negative)
    return Number("finite", negative, a.magnitude / b.magnitude)


def sqrt(a: Number) -> Number:
    """The square root to 400 bits, made inexact in its last place where it is not.

    That is far more than any format keeps, so that rounding it is rounding the root.
    """
    if a.kind == "finite" and not a.magnitude:
        return a
    if a.kind == "nan" or a.negative:
        return NAN
    if a.kind == "inf":
        return a
    scale = 1 << 2400
    whole = a.magnitude * scale
    floor = int(whole)
    root = isqrt(floor)
    exact = root * root == floor and whole == floor
    return finite(Fraction(2 * root + (not exact), 2 << 1200))
