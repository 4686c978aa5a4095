import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestream.reference.narrow import (
    BFLOAT16,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FLOAT16,
    FLOAT32,
    by_name,
    from_bits,
    round_to,
    to_bits,
)

INDEPENDENT = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}
NARROW = [FLOAT16, BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2]


@pytest.mark.parametrize("target", NARROW, ids=lambda f: f.name)
def test_every_pattern_survives_a_round_trip(target):
    bits = np.arange(1 << target.width).astype(target.bits_type)
    values = from_bits(bits, target)
    with np.errstate(invalid="ignore"):
        other = bits.view(INDEPENDENT[target.name]).astype(np.float64)
    assert np.array_equal(values, other, equal_nan=True)
    number = ~np.isnan(values)
    assert np.array_equal(to_bits(values, target)[number], bits[number])
    assert np.all(np.isnan(from_bits(to_bits(values[~number], target), target)))


@given(st.floats(width=32))
def test_float16_rounding_agrees_with_numpy(x):
    with np.errstate(over="ignore"):
        want = np.float16(x)
    got = round_to([x], FLOAT16)[0]
    assert np.array_equal(got, np.float64(want), equal_nan=True)


@given(st.floats(width=32))
def test_bfloat16_rounding_agrees_with_an_independent_library(x):
    with np.errstate(over="ignore"):
        want = np.float32(x).astype(ml_dtypes.bfloat16)
    got = round_to([x], BFLOAT16)[0]
    assert np.array_equal(got, np.float64(want), equal_nan=True)


@given(st.floats(width=32))
def test_e4m3_rounding_agrees_with_an_independent_library(x):
    with np.errstate(over="ignore", invalid="ignore"):
        want = np.float32(x).astype(ml_dtypes.float8_e4m3fn)
    got = round_to([x], FLOAT8_E4M3FN)[0]
    assert np.array_equal(got, np.float64(want), equal_nan=True)


@given(st.floats(width=32))
def test_e5m2_rounding_agrees_with_an_independent_library(x):
    with np.errstate(over="ignore", invalid="ignore"):
        want = np.float32(x).astype(ml_dtypes.float8_e5m2)
    got = round_to([x], FLOAT8_E5M2)[0]
    assert np.array_equal(got, np.float64(want), equal_nan=True)


@pytest.mark.parametrize("x", [448.0, 463.9, 464.0, 464.1, -480.0, np.inf, 2.0**-10])
def test_e4m3_has_no_infinity_to_overflow_to(x):
    with np.errstate(over="ignore", invalid="ignore"):
        want = np.float64(np.float64(x).astype(ml_dtypes.float8_e4m3fn))
    assert np.array_equal(round_to([x], FLOAT8_E4M3FN)[0], want, equal_nan=True)


def test_rounding_happens_once():
    """2**-8 above one is a tie for bfloat16; the far bit must break it upwards."""
    above_tie = 1.0 + 2.0**-8 + 2.0**-40
    assert round_to([above_tie], BFLOAT16)[0] == 1.0 + 2.0**-7
    assert round_to([1.0 + 2.0**-8], BFLOAT16)[0] == 1.0


@pytest.mark.parametrize("target", [*NARROW, FLOAT32], ids=lambda f: f.name)
def test_derived_constants_are_those_of_the_format(target):
    info = ml_dtypes.finfo({"float32": np.float32, **INDEPENDENT}[target.name])
    assert target.unit_roundoff == float(info.eps) / 2
    assert target.smallest_normal == float(info.tiny)
    assert target.half_subnormal == float(info.smallest_subnormal) / 2
    assert target.largest == float(info.max)


def test_an_unknown_format_is_named():
    with pytest.raises(ValueError, match="float4"):
        by_name("float4")


def test_wide_formats_have_no_narrow_pattern():
    with pytest.raises(ValueError, match="float32"):
        to_bits([1.0], FLOAT32)
    with pytest.raises(ValueError, match="float32"):
        from_bits([1], FLOAT32)
