"""Facts of made-up calls, for the tests of checks."""

from __future__ import annotations

import numpy as np

from sidestream.harness.checks.observation import Execution, rows_of
from sidestream.reference.attention import Problem
from sidestream.reference.lengths import from_counts
from sidestream.reference.narrow import by_name, from_bits, to_bits
from sidestream.reference.tolerance import bound

LENGTHS = (3, 0, 2)
CAPACITY = 7
HEADS, DIM = 2, 8
ROWS = rows_of(LENGTHS, CAPACITY)
BF16 = by_name("bfloat16")


def execution(label="as declared", *, out=None, lse=None, **facts) -> Execution:
    """A finished call whose outputs hold small distinct numbers."""
    bits = np.arange(CAPACITY * HEADS * DIM, dtype=np.uint16)
    return Execution(
        label=label,
        out=bits.reshape(CAPACITY, HEADS, DIM) if out is None else out,
        lse=np.arange(CAPACITY * HEADS, dtype=np.float32).reshape(CAPACITY, HEADS)
        if lse is None
        else lse,
        **facts,
    )


def problem(seed=0) -> Problem:
    """A small causal problem with an empty sequence in the middle."""
    rng = np.random.default_rng(seed)
    kv = (4, 2, 6)

    def draw(tokens):
        return from_bits(to_bits(rng.standard_normal((tokens, HEADS, DIM)), BF16), BF16)

    return Problem(
        q=draw(CAPACITY),
        k=draw(sum(kv)),
        v=draw(sum(kv)),
        seq_q=from_counts(LENGTHS),
        seq_kv=from_counts(kv),
        causal="bottom_right",
    )


BOUNDS = bound(problem(), dtype="bfloat16")
OUT = from_bits(to_bits(BOUNDS.reference.out, BF16), BF16)
LSE = BOUNDS.reference.lse.astype(np.float32)
