"""Scales of blocks: by hand, and there and back."""

import ml_dtypes
import numpy as np
import pytest

from sidestream.reference import block_scales as scales
from sidestream.reference import narrow

TYPES = pytest.mark.parametrize(
    "target",
    [narrow.FLOAT8_E4M3FN, narrow.FLOAT8_E5M2],
    ids=["e4m3", "e5m2"],
)
LENGTHS = (130, 0, 1, 33, 256)
HEADS = 2


def drawn(dim, seed=1):
    rng = np.random.default_rng(seed)
    shape = (sum(LENGTHS), HEADS, dim)
    return rng.standard_normal(shape) * 2.0 ** rng.integers(-9, 9, shape)


def test_a_scale_is_the_power_of_two_of_the_format():
    """Every finite pattern, against an implementation of the format by others."""
    codes = np.arange(255, dtype=np.uint8)
    np.testing.assert_array_equal(
        scales.factors(codes), codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    )
    assert np.isnan(scales.factors(np.uint8(255)))


def test_the_scale_of_a_block_follows_its_largest_number():
    values = np.zeros((1, 1, 96))
    values[0, 0, 5], values[0, 0, 6] = -511.0, 3.0
    values[0, 0, 40] = 0.75
    values[0, 0, 64:] = np.nan
    elements, codes = scales.quantise_columns(values, narrow.FLOAT8_E4M3FN)
    # 511 is below 2 * 2**8, and held to 448; 0.75 is 2**-1 at least; NaN counts as 0.
    np.testing.assert_array_equal(codes[0, 0], [127, 127 - 9, 0])
    assert elements[0, 0, 5] == -448.0
    assert elements[0, 0, 40] == 384.0
    assert np.isnan(elements[0, 0, 64:]).all()


@TYPES
@pytest.mark.parametrize("dim", [16, 112, 128])
def test_elements_times_scales_are_the_numbers_but_for_rounding(target, dim):
    values = drawn(dim)
    for elements, held, read in (
        (*_columns(values, target), scales.column_factors),
        (*_tokens(values, target), scales.token_factors),
    ):
        factor = read(held, LENGTHS, dim)
        back = narrow.round_to(elements, target) * factor
        small = factor * target.half_subnormal
        off = np.abs(back - values)
        # What saturates is less than the largest number by less than a step of it.
        limit = np.maximum(2.0 * target.unit_roundoff * np.abs(values), small)
        assert (off <= limit).all()


def _columns(values, target):
    elements, codes = scales.quantise_columns(values, target)
    atoms = scales.atoms_of(LENGTHS)
    return elements, scales.column_atoms(codes, LENGTHS, atoms=atoms, fill=255)


def _tokens(values, target):
    elements, codes = scales.quantise_tokens(values, LENGTHS, target)
    atoms = scales.atoms_of(LENGTHS)
    return elements, scales.token_atoms(codes, LENGTHS, atoms=atoms, fill=255)


def test_places_of_an_atom_by_hand():
    """Token 128 + 70 of the last sequence: atom 1 of it, row 70, lane 6, word 2."""
    first = scales.atoms_of(LENGTHS[:-1])
    start = sum(LENGTHS[:-1])
    atoms = scales.atoms_of(LENGTHS)
    codes = np.full((sum(LENGTHS), HEADS, 4), 1, np.uint8)
    codes[start + 198, 1, 3] = 77
    held = scales.column_atoms(codes, LENGTHS, atoms=atoms, fill=255)
    assert np.argwhere(held == 77).tolist() == [[1, first + 1, 6 * 16 + 2 * 4 + 3]]

    blocks = sum(-(-length // 32) for length in LENGTHS[:-1])
    codes = np.full((blocks + 8, HEADS, 128), 1, np.uint8)
    codes[blocks + 6, 1, 70] = 77
    held = scales.token_atoms(codes, LENGTHS, atoms=atoms, fill=255)
    assert np.argwhere(held == 77).tolist() == [[1, first + 1, 6 * 16 + 2 * 4 + 2]]


def test_what_belongs_to_nothing_is_filled():
    """Two atoms past the end, rows past a sequence's and blocks past the head dim."""
    _, codes = scales.quantise_columns(drawn(48), narrow.FLOAT8_E4M3FN)
    atoms = scales.atoms_of(LENGTHS) + 2
    held = scales.column_atoms(codes, LENGTHS, atoms=atoms, fill=255)
    assert (held != 255).sum() == sum(LENGTHS) * HEADS * 2
    _, codes = scales.quantise_tokens(drawn(48), LENGTHS, narrow.FLOAT8_E4M3FN)
    held = scales.token_atoms(codes, LENGTHS, atoms=atoms, fill=255)
    blocks = sum(-(-length // 32) for length in LENGTHS)
    assert (held != 255).sum() == blocks * HEADS * 48
