"""Blocks of 32 numbers with a common scale: quantising, and the order of the scales.

OCP Microscaling Formats (MX) specification, revision 1.0: a block of 32 elements of one
byte shares a scale, a power of two of eight bits without a sign (UE8M0): pattern c is
2**(c - 127), and 255 is NaN. Scaling and unscaling are exact, so that attention of the
products in float64 is what a kernel is compared with, and the bound of
`sidestream.reference.tolerance` needs no term for them.

Blocks lie along what a product contracts: columns of Q and K, tokens of V. The scales
of 128 rows and four blocks are an *atom* of 512 bytes, in the order of the PTX ISA for
tensor memory: that of row r and block b is byte 16*(r % 32) + 4*(r // 32) + b. Rows are
tokens of Q and K, and columns of V. Each sequence has atoms of its own, one for every
128 tokens or part of them, so that neither a block nor an atom crosses from one
sequence into the next, wherever it starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidestream.reference.narrow import F64, Format

BLOCK = 32
"""Elements that share a scale."""
ROWS = 128
"""Rows of an atom, and elements of its four blocks."""
ATOM_BYTES = 512
BIAS = 127
NAN = 255

Codes = NDArray[np.uint8]


def atoms_of(lengths: Sequence[int]) -> int:
    """Return how many atoms sequences of `lengths` have."""
    return sum(-(-length // ROWS) for length in lengths)


def _shared_codes(peaks: F64, target: Format) -> Codes:
    """Return the scale that brings the largest magnitude below 2 * 2**max_exponent.

    A block of zeros has the smallest scale. NaN and infinity count as zero: they stay
    what they are, whatever the scale.
    """
    peaks = np.where(np.isfinite(peaks), peaks, 0.0)
    _, exponent = np.frexp(peaks)
    wanted = np.where(peaks > 0.0, exponent - 1 - target.max_exponent, -BIAS)
    return (np.clip(wanted, -BIAS, NAN - 1 - BIAS) + BIAS).astype(np.uint8)


def factors(codes: Any) -> F64:
    """Return the numbers that scales stand for."""
    known = np.asarray(codes, np.uint8)
    result: F64 = np.ldexp(1.0, known.astype(np.int64) - BIAS)
    return np.where(known == NAN, np.nan, result)


def _held(values: F64, scale: F64, target: Format) -> F64:
    """Return elements, not yet rounded, within the numbers of the type."""
    return np.clip(values / scale, -target.largest, target.largest)


def quantise_columns(values: F64, target: Format) -> tuple[F64, Codes]:
    """Quantise (tokens, heads, dim) along its columns, as Q and K are.

    Returns:
        elements to be rounded to `target`, and scales (tokens, heads, blocks).
    """
    dim = values.shape[2]
    codes = np.zeros((*values.shape[:2], -(-dim // BLOCK)), np.uint8)
    elements = np.empty_like(values)
    for b in range(codes.shape[2]):
        columns = slice(b * BLOCK, min(dim, (b + 1) * BLOCK))
        part = values[..., columns]
        peaks = np.max(np.abs(part), axis=2, initial=0.0, where=np.isfinite(part))
        codes[..., b] = _shared_codes(peaks, target)
        elements[..., columns] = _held(part, factors(codes[..., b, None]), target)
    return elements, codes


def quantise_tokens(
    values: F64, lengths: Sequence[int], target: Format
) -> tuple[F64, Codes]:
    """Quantise (tokens, heads, dim) along its tokens, as V is, sequence by sequence.

    Returns:
        elements to be rounded to `target`, and scales (blocks, heads, dim): those of a
        sequence, `ceil(length / 32)` of them, behind those of the one before.
    """
    codes, elements = [], np.empty_like(values)
    start = 0
    for length in lengths:
        for first in range(start, start + length, BLOCK):
            rows = slice(first, min(start + length, first + BLOCK))
            part = values[rows]
            peaks = np.max(np.abs(part), axis=0, initial=0.0, where=np.isfinite(part))
            codes.append(_shared_codes(peaks, target))
            elements[rows] = _held(part, factors(codes[-1]), target)
        start += length
    shape = (0, *values.shape[1:])
    return elements, np.stack(codes) if codes else np.zeros(shape, np.uint8)


def _pack(rows: Codes) -> Codes:
    """Order (heads, atoms, 128 rows, 4 blocks) as memory does: (heads, atoms, 512)."""
    heads, atoms = rows.shape[:2]
    quarters = rows.reshape(heads, atoms, 4, 32, 4)
    return quarters.transpose(0, 1, 3, 2, 4).reshape(heads, atoms, ATOM_BYTES).copy()


def column_atoms(
    codes: Codes, lengths: Sequence[int], *, atoms: int, fill: int
) -> Codes:
    """Return the atoms (heads, atoms, 512) of scales of columns.

    Args:
        codes: (tokens, heads, blocks), as `quantise_columns` gives them.
        lengths: Tokens of each sequence.
        atoms: Capacity of a head, at least `atoms_of(lengths)`.
        fill: What belongs to no token or column.
    """
    rows = np.full((codes.shape[1], atoms, ROWS, 4), fill, np.uint8)
    token = atom = 0
    for length in lengths:
        for first in range(0, length, ROWS):
            count = min(ROWS, length - first)
            part = codes[token + first : token + first + count]
            rows[:, atom, :count, : codes.shape[2]] = part.transpose(1, 0, 2)
            atom += 1
        token += length
    return _pack(rows)


def token_atoms(
    codes: Codes, lengths: Sequence[int], *, atoms: int, fill: int
) -> Codes:
    """Return the atoms (heads, atoms, 512) of scales of tokens.

    Args:
        codes: (blocks, heads, dim), of `quantise_tokens`; dim is at most 128.
        lengths: Tokens of each sequence.
        atoms: Capacity of a head, at least `atoms_of(lengths)`.
        fill: What belongs to no token or column.
    """
    heads, dim = codes.shape[1:]
    rows = np.full((heads, atoms, ROWS, 4), fill, np.uint8)
    block = atom = 0
    for length in lengths:
        blocks = -(-length // BLOCK)
        for first in range(0, blocks, 4):
            count = min(4, blocks - first)
            part = codes[block + first : block + first + count]
            rows[:, atom, :dim, :count] = part.transpose(1, 2, 0)
            atom += 1
        block += blocks
    return _pack(rows)


def _at(held: Codes, row: Any, block: Any, atom: Any) -> Codes:
    """Return scales (heads, ...) of (heads, atoms, 512), by the rule of the PTX ISA."""
    return held[:, atom, 16 * (row % 32) + 4 * (row // 32) + block]


def _places(lengths: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, of each token, its number in its sequence and that one's first atom."""
    token = [np.arange(length) for length in lengths]
    first, atoms = [], 0
    for length in lengths:
        first.append(np.full(length, atoms))
        atoms += -(-length // ROWS)
    empty = np.zeros(0, np.int64)
    return np.concatenate([empty, *token]), np.concatenate([empty, *first])


def column_factors(held: Codes, lengths: Sequence[int], dim: int) -> F64:
    """Return the factor of every live element of Q or K, (tokens, heads, dim)."""
    token, first = _places(lengths)
    row, atom = (token % ROWS)[:, None], (first + token // ROWS)[:, None]
    found = _at(held, row, np.arange(dim)[None, :] // BLOCK, atom)
    return factors(found.transpose(1, 0, 2))


def token_factors(held: Codes, lengths: Sequence[int], dim: int) -> F64:
    """Return the factor of every live element of V, (tokens, heads, dim)."""
    token, first = _places(lengths)
    block, atom = (token % ROWS // BLOCK)[:, None], (first + token // ROWS)[:, None]
    found = _at(held, np.arange(dim)[None, :], block, atom)
    return factors(found.transpose(1, 0, 2))
