"""Varlen attention forward in float64, for the whole interface.

    problem = Problem(q=q, k=k, v=v, seq_q=from_counts([3, 0, 5]),
                      seq_kv=from_prefix([7, 11, 20, 25]), causal="bottom_right")
    result = attention(problem)      # result.out (Tq, Hq, Dv), result.lse (Tq, Hq)

Scores are `scale * q @ k.T`; a sink adds one more softmax column with a zero value,
in natural units and unscaled. Rows that see no key have O = 0 and LSE = -inf, or the
sink. Rows outside every sequence keep O = 0 and LSE = -inf here; implementations
must leave theirs untouched, which is a check of its own.

All sequences and heads are float64 from the first operation on, so the error of
the reference is about 1e-13 relative and plays no part in a comparison with 16-bit
kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidestream.reference.lengths import Segments
from sidestream.reference.mask import Band, band, key_range

F64 = NDArray[np.float64]

_TILE_SCORES = 1 << 18
"""Scores held at once (2 MiB): row blocks are sized so that they stay in cache."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One varlen attention forward, as plain data.

    `q` (Tq, Hq, D), `k` (Tk, Hk, D), `v` (Tk, Hk, Dv) are real arrays of any float
    type; only tokens inside a sequence are ever read. `sinks` is (Hq,) or None,
    `scale` defaults to 1/sqrt(D).

    Raises:
        ValueError: shapes that do not belong together, query heads that are not a
            multiple of key heads, segments that reach past an operand, an unknown
            mask, or a zero scale.
    """

    q: NDArray[Any]
    k: NDArray[Any]
    v: NDArray[Any]
    seq_q: Segments
    seq_kv: Segments
    causal: str = "none"
    window_left: int | None = None
    window_right: int | None = None
    anchor: str | None = None
    sinks: NDArray[Any] | None = None
    scale: float | None = None

    def __post_init__(self) -> None:
        for name in ("q", "k", "v"):
            if getattr(self, name).ndim != 3:
                raise ValueError(f"{name} must be (tokens, heads, dim)")
        if self.k.shape[:2] != self.v.shape[:2]:
            raise ValueError("k and v must have the same tokens and heads")
        if self.q.shape[2] != self.k.shape[2]:
            raise ValueError("q and k must have the same head dim")
        if self.heads_kv == 0 or self.heads_q % self.heads_kv:
            raise ValueError("query heads must be a multiple of key heads")
        if self.seq_q.batch != self.seq_kv.batch:
            raise ValueError("queries and keys must have the same batch")
        if self.seq_q.end > self.q.shape[0] or self.seq_kv.end > self.k.shape[0]:
            raise ValueError("a sequence reaches past its operand")
        if self.sinks is not None and self.sinks.shape != (self.heads_q,):
            raise ValueError("sinks must be (query heads,)")
        if self.scale == 0.0:
            raise ValueError("a zero scale is not served")
        _ = self.band

    @property
    def heads_q(self) -> int:
        """Query heads."""
        return int(self.q.shape[1])

    @property
    def heads_kv(self) -> int:
        """Key and value heads."""
        return int(self.k.shape[1])

    @property
    def group(self) -> int:
        """Query heads that share one key head; head h reads key head h // group."""
        return self.heads_q // self.heads_kv

    @property
    def band(self) -> Band:
        """The mask in its general form."""
        return band(
            causal=self.causal,
            window_left=self.window_left,
            window_right=self.window_right,
            anchor=self.anchor,
        )

    @property
    def softmax_scale(self) -> float:
        """Factor on the scores before softmax."""
        if self.scale is not None:
            return self.scale
        return 1.0 / math.sqrt(max(1, int(self.q.shape[2])))


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Output (Tq, Hq, Dv) and natural-log LSE (Tq, Hq), both float64."""

    out: F64
    lse: F64


@dataclass(frozen=True, kw_only=True)
class RowBlock:
    """A run of query rows of one sequence against every key that one of them sees.

    Arrays lead with (Hk, G): key heads, then query heads of the group.
    """

    tokens: slice
    """Rows of the packed queries."""
    q: F64
    """(Hk, G, R, D)"""
    k: F64
    """(Hk, N, D)"""
    v: F64
    """(Hk, N, Dv)"""
    kept: NDArray[np.bool_] | None
    """(R, N), or None when every row of the block sees every key of it."""
    sinks: F64 | None
    """(Hk, G, 1)"""

    def scores(self, scale: float) -> F64:
        """Return the scaled scores (Hk, G, R, N), -inf where masked."""
        heads, group, rows, dim = self.q.shape
        flat = (self.q * scale).reshape(heads, group * rows, dim)
        product: F64 = np.matmul(flat, self.k.transpose(0, 2, 1))
        scores = product.reshape(heads, group, rows, -1)
        if self.kept is not None:
            np.copyto(scores, -np.inf, where=~self.kept)
        return scores

    def weigh(self, weights: F64, values: F64) -> F64:
        """Return `weights` (Hk, G, R, N) times `values` (Hk, N, X)."""
        heads, group, rows, keys = weights.shape
        flat = weights.reshape(heads, group * rows, keys)
        product: F64 = np.matmul(flat, values)
        return product.reshape(heads, group, rows, -1)


def row_blocks(problem: Problem) -> Iterator[RowBlock]:
    """Yield the work of `problem`: row blocks that see at least one key."""
    heads, group = problem.heads_kv, problem.group
    sinks = None
    if problem.sinks is not None:
        sinks = np.asarray(problem.sinks, np.float64).reshape(heads, group, 1)
    for b in range(problem.seq_q.batch):
        len_q = int(problem.seq_q.lengths[b])
        len_kv = int(problem.seq_kv.lengths[b])
        if len_q == 0 or len_kv == 0:
            continue
        start_q, start_kv = int(problem.seq_q.starts[b]), int(problem.seq_kv.starts[b])
        keys = slice(start_kv, start_kv + len_kv)
        k = np.ascontiguousarray(problem.k[keys].transpose(1, 0, 2), np.float64)
        v = np.ascontiguousarray(problem.v[keys].transpose(1, 0, 2), np.float64)
        first, stop = key_range(problem.band, len_q=len_q, len_kv=len_kv)
        height = max(1, min(128, _TILE_SCORES // (problem.heads_q * len_kv)))
        for row in range(0, len_q, height):
            rows = slice(row, min(len_q, row + height))
            low, high = int(first[rows].min()), int(stop[rows].max())
            if not np.any(first[rows] < stop[rows]):
                continue
            columns = np.arange(low, high)
            kept = (columns >= first[rows, None]) & (columns < stop[rows, None])
            tokens = slice(start_q + rows.start, start_q + rows.stop)
            q = np.asarray(problem.q[tokens], np.float64)
            q = q.reshape(-1, heads, group, q.shape[-1]).transpose(1, 2, 0, 3)
            yield RowBlock(
                tokens=tokens,
                q=np.ascontiguousarray(q),
                k=k[:, low:high],
                v=v[:, low:high],
                kept=None if kept.all() else kept,
                sinks=sinks,
            )


def softmax(scores: F64, sinks: F64 | None) -> tuple[F64, F64, F64]:
    """Turn `scores` (Hk, G, R, N) into normalised weights, in place.

    Returns:
        weights (Hk, G, R, N), LSE (Hk, G, R), and the normaliser (Hk, G, R) in units
        of the row's largest weight. A row that sees nothing has zero weights.
    """
    peak = scores.max(axis=-1)
    if sinks is not None:
        peak = np.maximum(peak, sinks)
    shift = np.where(np.isneginf(peak), 0.0, peak)
    scores -= shift[..., None]
    weights = np.exp(scores, out=scores)
    norm = weights.sum(axis=-1)
    if sinks is not None:
        norm = norm + np.exp(sinks - shift)
    with np.errstate(divide="ignore"):
        lse = shift + np.log(norm)
    weights /= np.where(norm == 0.0, 1.0, norm)[..., None]
    return weights, lse, norm


def unpack(rows: F64) -> F64:
    """Bring (Hk, G, R, ...) to packed order (R, Hk * G, ...)."""
    moved = np.moveaxis(rows, 2, 0)
    return moved.reshape(moved.shape[0], -1, *moved.shape[3:])


def blank(problem: Problem) -> Attention:
    """Return the result of rows that see no key: O = 0, LSE = -inf or the sink."""
    tokens, heads = int(problem.q.shape[0]), problem.heads_q
    lse = np.full((tokens, heads), -np.inf)
    if problem.sinks is not None:
        for start, length in zip(
            problem.seq_q.starts, problem.seq_q.lengths, strict=True
        ):
            lse[start : start + length] = np.asarray(problem.sinks, np.float64)
    return Attention(out=np.zeros((tokens, heads, int(problem.v.shape[2]))), lse=lse)


def attention(problem: Problem) -> Attention:
    """Compute the reference output of `problem`."""
    result = blank(problem)
    with np.errstate(invalid="ignore"):
        for block in row_blocks(problem):
            scores = block.scores(problem.softmax_scale)
            weights, lse, _ = softmax(scores, block.sinks)
            result.out[block.tokens] = unpack(block.weigh(weights, block.v))
            result.lse[block.tokens] = unpack(lse)
    return result
