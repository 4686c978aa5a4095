"""Sequence lengths: from counts or prefix sums to where each sequence lies.

Both declared forms name the same thing. `counts` is int32 `(B,)`. `prefix` is int32
`(B + 1,)` and may start at any base: element 0 is subtracted, so a nonzero base
means the same lengths in a buffer that is still addressed from token 0, and each
side (queries, keys) has a base of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
_LEAST, _MOST = -(1 << 31), (1 << 31) - 1


@dataclass(frozen=True, kw_only=True)
class Segments:
    """Where the sequences of one packed operand lie, in tokens from its start."""

    starts: I64
    """First token of each sequence, shape (B,)."""
    lengths: I64
    """Tokens of each sequence, shape (B,)."""

    def __post_init__(self) -> None:
        if self.starts.shape != self.lengths.shape or self.starts.ndim != 1:
            raise ValueError("starts and lengths must be one-dimensional and equal")
        if np.any(self.lengths < 0) or np.any(self.starts < 0):
            raise ValueError("starts and lengths must not be negative")

    @property
    def batch(self) -> int:
        """Number of sequences, empty ones included."""
        return int(self.lengths.size)

    @property
    def total(self) -> int:
        """Live tokens."""
        return int(self.lengths.sum())

    @property
    def end(self) -> int:
        """One past the last live token."""
        live = self.lengths > 0
        return int((self.starts + self.lengths)[live].max(initial=0))


def from_counts(counts: Any) -> Segments:
    """Read int lengths `(B,)`, packed one after another.

    Raises:
        ValueError: not one-dimensional, or a negative length.
    """
    lengths = np.asarray(counts, dtype=np.int64)
    if lengths.ndim != 1:
        raise ValueError(f"lengths must have shape (B,), not {lengths.shape}")
    if np.any(lengths < 0):
        raise ValueError(f"negative length at {int(np.argmax(lengths < 0))}")
    ends = np.cumsum(lengths, dtype=np.int64)
    return Segments(starts=ends - lengths, lengths=lengths)


def from_prefix(prefix: Any) -> Segments:
    """Read prefix sums `(B + 1,)` of any base; element 0 is the base.

    Raises:
        ValueError: not one-dimensional, empty, or decreasing somewhere.
    """
    sums = np.asarray(prefix, dtype=np.int64)
    if sums.ndim != 1 or sums.size == 0:
        raise ValueError(f"prefix sums must have shape (B + 1,), not {sums.shape}")
    lengths = np.diff(sums)
    if np.any(lengths < 0):
        raise ValueError(f"prefix sums decrease after {int(np.argmax(lengths < 0))}")
    return Segments(starts=sums[:-1] - sums[0], lengths=lengths)


def to_prefix(counts: Any, *, base: int = 0) -> I32:
    """Return int32 prefix sums `(B + 1,)` that start at `base`.

    Raises:
        ValueError: a sum does not fit int32, or a length is negative.
    """
    sums = np.empty(len(counts) + 1, np.int64)
    sums[0], sums[1:] = base, counts
    if len(counts) and sums[1:].min() < 0:
        raise ValueError(f"negative length at {int(np.argmax(sums[1:] < 0))}")
    np.cumsum(sums, out=sums)
    if sums[0] < _LEAST or sums[-1] > _MOST:  # they never decrease
        raise ValueError("prefix sums do not fit int32")
    return sums.astype(np.int32)


def declared(values: Any, *, form: str) -> Segments:
    """Read lengths in the declared `form`, 'counts' or 'prefix'.

    Raises:
        ValueError: an unknown form, or values that do not fit it.
    """
    if form == "counts":
        return from_counts(values)
    if form == "prefix":
        return from_prefix(values)
    raise ValueError(f"unknown lengths form {form!r}; known: counts, prefix")
