"""Drawn numbers as elements of one byte and scales of blocks of 32."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sidestream.reference import block_scales, narrow
from sidestream.scenarios.fill import SCALE_FILL
from sidestream.scenarios.scenario import Scenario

F64 = NDArray[np.float64]


def quantised(
    scenario: Scenario, numbers: dict[str, F64], generator: np.random.Generator
) -> tuple[dict[str, F64], tuple[NDArray[np.uint8], ...]]:
    """Return elements, not yet rounded, and the atoms of Q, K and V.

    Behind a tail of tokens comes an atom that belongs to none. Neighbouring blocks of
    drawn numbers nearly all have the same scale, so that one taken for another would
    not show: before, blocks of Q and V are multiplied by powers of two, from a quarter
    to 4, and those of K by their inverses, so that scores stay what they were.
    """
    target, fill = narrow.by_name(scenario.dtype), SCALE_FILL[scenario.tail_fill]
    blocks = -(-scenario.head_dim // block_scales.BLOCK)
    columns = 2.0 ** generator.integers(-2, 3, blocks)
    columns = columns.repeat(block_scales.BLOCK)[: scenario.head_dim]
    elements: dict[str, F64] = {}
    atoms = []
    for name, spread in (("q", columns), ("k", 1.0 / columns)):
        queries = name == "q"
        lengths = scenario.lengths_q if queries else scenario.lengths_kv
        tail = scenario.tail_q if queries else scenario.tail_kv
        count = block_scales.atoms_of(lengths) + (tail > 0)
        elements[name], codes = block_scales.quantise_columns(
            numbers[name] * spread, target
        )
        atoms.append(block_scales.column_atoms(codes, lengths, atoms=count, fill=fill))
    values = numbers["v"].copy()
    start = 0
    for length in scenario.lengths_kv:
        for first in range(start, start + length, block_scales.BLOCK):
            stop = min(start + length, first + block_scales.BLOCK)
            values[first:stop] *= 2.0 ** generator.integers(-2, 3, values.shape[1:])
        start += length
    elements["v"], codes = block_scales.quantise_tokens(
        values, scenario.lengths_kv, target
    )
    atoms.append(
        block_scales.token_atoms(codes, scenario.lengths_kv, atoms=count, fill=fill)
    )
    return elements, tuple(atoms)
