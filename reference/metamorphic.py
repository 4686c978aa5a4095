"""Relations between two calls: how a result must change when its inputs do.

A relation needs no reference, so it holds an implementation to account where a
reference is too slow or shares its mistake, and an `exact` one asks for equal bits.

    for relation in RELATIONS:
        if relation.applies(problem):
            twin = relation.transform(problem, rng)
            predicted = twin.predict(result_of(problem))
            judge(relation, predicted, result_of(twin.problem))

Every transformation of finite 16-bit operands gives operands that the same 16-bit
type holds, so a kernel can be fed both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidestream.reference.attention import Attention, Problem
from sidestream.reference.lengths import I64, Segments, from_counts


@dataclass(frozen=True, kw_only=True)
class Twin:
    """A changed problem, and its result told from that of the original."""

    problem: Problem
    predict: Callable[[Attention], Attention]


@dataclass(frozen=True, kw_only=True)
class Relation:
    """One way to change a problem with a known effect."""

    name: str
    why: str
    exact: bool
    """Equal bits are asked for: each output is computed from the same numbers in the
    same order, for any kernel that treats sequences and heads independently."""
    applies: Callable[[Problem], bool]
    transform: Callable[[Problem, np.random.Generator], Twin]


def _take(result: Attention, rows: I64) -> Attention:
    return Attention(out=result.out[rows], lse=result.lse[rows])


def _rows(segments: Segments, order: I64) -> I64:
    """Return the tokens of the sequences `order`, packed one after another."""
    runs = [
        np.arange(segments.starts[b], segments.starts[b] + segments.lengths[b])
        for b in order
    ]
    return np.concatenate([*runs, np.zeros(0, np.int64)]).astype(np.int64)


def _gather(problem: Problem, order: I64) -> Twin:
    """Keep the sequences `order`, in that order, without gaps or tails."""
    rows_q, rows_kv = _rows(problem.seq_q, order), _rows(problem.seq_kv, order)
    changed = replace(
        problem,
        q=problem.q[rows_q],
        k=problem.k[rows_kv],
        v=problem.v[rows_kv],
        seq_q=from_counts(problem.seq_q.lengths[order]),
        seq_kv=from_counts(problem.seq_kv.lengths[order]),
    )
    return Twin(problem=changed, predict=lambda result: _take(result, rows_q))


def permute_sequences(problem: Problem, rng: np.random.Generator) -> Twin:
    """Pack the sequences in another order."""
    return _gather(problem, rng.permutation(problem.seq_q.batch))


def split_batch(problem: Problem, rng: np.random.Generator) -> Twin:
    """Run a leading part of the batch alone."""
    return _gather(problem, np.arange(rng.integers(1, problem.seq_q.batch)))


def repeat_batch(problem: Problem, _: np.random.Generator) -> Twin:
    """Pack the batch twice, one copy after the other."""
    return _gather(problem, np.tile(np.arange(problem.seq_q.batch), 2))


def add_empty_sequences(problem: Problem, rng: np.random.Generator) -> Twin:
    """Put sequences without queries and keys between the others."""
    places = np.sort(rng.integers(0, problem.seq_q.batch + 1, size=3))
    packed = _gather(problem, np.arange(problem.seq_q.batch))
    changed = replace(
        packed.problem,
        seq_q=from_counts(np.insert(problem.seq_q.lengths, places, 0)),
        seq_kv=from_counts(np.insert(problem.seq_kv.lengths, places, 0)),
    )
    return Twin(problem=changed, predict=packed.predict)


def permute_keys(problem: Problem, rng: np.random.Generator) -> Twin:
    """Shuffle keys with their values inside each sequence."""
    rows = np.arange(problem.k.shape[0])
    for start, length in zip(
        problem.seq_kv.starts, problem.seq_kv.lengths, strict=True
    ):
        rows[start : start + length] = start + rng.permutation(int(length))
    changed = replace(problem, k=problem.k[rows], v=problem.v[rows])
    return Twin(problem=changed, predict=lambda result: result)


def permute_heads(problem: Problem, rng: np.random.Generator) -> Twin:
    """Shuffle key heads, each with the query heads of its group."""
    kv = rng.permutation(problem.heads_kv)
    q = (kv[:, None] * problem.group + np.arange(problem.group)).reshape(-1)
    changed = replace(
        problem,
        q=problem.q[:, q],
        k=problem.k[:, kv],
        v=problem.v[:, kv],
        sinks=None if problem.sinks is None else problem.sinks[q],
    )

    def predict(result: Attention) -> Attention:
        return Attention(out=result.out[:, q], lse=result.lse[:, q])

    return Twin(problem=changed, predict=predict)


def expand_groups(problem: Problem, _: np.random.Generator) -> Twin:
    """Give each query head a key head of its own, as a copy."""
    changed = replace(
        problem,
        k=np.repeat(problem.k, problem.group, axis=1),
        v=np.repeat(problem.v, problem.group, axis=1),
    )
    return Twin(problem=changed, predict=lambda result: result)


def halve_values(problem: Problem, _: np.random.Generator) -> Twin:
    """Halve V; a power of two changes exponents only (subnormals apart)."""
    return _scale_values(problem, 0.5)


def negate_values(problem: Problem, _: np.random.Generator) -> Twin:
    """Change the sign of V."""
    return _scale_values(problem, -1.0)


def _scale_values(problem: Problem, factor: float) -> Twin:
    def predict(result: Attention) -> Attention:
        return Attention(out=result.out * factor, lse=result.lse)

    return Twin(problem=replace(problem, v=problem.v * factor), predict=predict)


def negate_scores_twice(problem: Problem, _: np.random.Generator) -> Twin:
    """Change the sign of Q and of K: every product stays as it is."""
    changed = replace(problem, q=-problem.q, k=-problem.k)
    return Twin(problem=changed, predict=lambda result: result)


def equal_values(problem: Problem, _: np.random.Generator) -> Twin:
    """Set every value to 1: weights sum to 1, or to 1 - the sink's share."""
    changed = replace(problem, v=np.ones_like(problem.v))

    def predict(result: Attention) -> Attention:
        mass = np.where(np.isneginf(result.lse), 0.0, 1.0)
        if problem.sinks is not None:
            with np.errstate(invalid="ignore"):
                share = np.exp(np.asarray(problem.sinks, np.float64) - result.lse)
            mass = np.where(np.isneginf(result.lse), 0.0, 1.0 - share)
        spread = np.broadcast_to(mass[..., None], result.out.shape)
        return Attention(out=spread.copy(), lse=result.lse)

    return Twin(problem=changed, predict=predict)


def truncate(problem: Problem, rng: np.random.Generator) -> Twin:
    """Cut every sequence after its first rows; a causal row looks back only."""
    longest = np.minimum(problem.seq_q.lengths, problem.seq_kv.lengths)
    keep = np.array([int(rng.integers(0, n + 1)) for n in longest], np.int64)
    rows_q = _rows(replace(problem.seq_q, lengths=keep), np.arange(keep.size))
    rows_kv = _rows(replace(problem.seq_kv, lengths=keep), np.arange(keep.size))
    changed = replace(
        problem,
        q=problem.q[rows_q],
        k=problem.k[rows_kv],
        v=problem.v[rows_kv],
        seq_q=from_counts(keep),
        seq_kv=from_counts(keep),
    )
    return Twin(problem=changed, predict=lambda result: _take(result, rows_q))


def _always(_: Problem) -> bool:
    return True


def _unmasked(problem: Problem) -> bool:
    band = problem.band
    return band.left is None and band.right is None


def _looks_back(problem: Problem) -> bool:
    """Cutting keeps the diagonal: top left, or as many queries as keys."""
    band = problem.band
    square = np.array_equal(problem.seq_q.lengths, problem.seq_kv.lengths)
    return band.right == 0 and (not band.bottom_right or square)


RELATIONS: tuple[Relation, ...] = (
    Relation(
        name="permute-sequences",
        why="A sequence's result does not depend on where it is packed.",
        exact=True,
        applies=lambda problem: problem.seq_q.batch > 1,
        transform=permute_sequences,
    ),
    Relation(
        name="split-batch",
        why="A sequence's result does not depend on the other sequences.",
        exact=True,
        applies=lambda problem: problem.seq_q.batch > 1,
        transform=split_batch,
    ),
    Relation(
        name="repeat-batch",
        why="Two copies of a batch give two copies of its result.",
        exact=True,
        applies=_always,
        transform=repeat_batch,
    ),
    Relation(
        name="add-empty-sequences",
        why="A sequence without tokens has no effect.",
        exact=True,
        applies=_always,
        transform=add_empty_sequences,
    ),
    Relation(
        name="permute-keys",
        why="Without a mask, softmax and the weighted sum ignore the order of keys.",
        exact=False,
        applies=_unmasked,
        transform=permute_keys,
    ),
    Relation(
        name="permute-heads",
        why="A head's result does not depend on its number.",
        exact=True,
        applies=lambda problem: problem.heads_kv > 1,
        transform=permute_heads,
    ),
    Relation(
        name="expand-groups",
        why="Grouped heads read copies of one key head.",
        exact=False,
        applies=lambda problem: problem.group > 1,
        transform=expand_groups,
    ),
    Relation(
        name="halve-values",
        why="O is linear in V; a power of two rounds nowhere in the normal range.",
        exact=False,
        applies=_always,
        transform=halve_values,
    ),
    Relation(
        name="negate-values",
        why="O is linear in V, and rounding to nearest is symmetric.",
        exact=True,
        applies=_always,
        transform=negate_values,
    ),
    Relation(
        name="negate-scores-twice",
        why="(-q) . (-k) has the same products as q . k.",
        exact=True,
        applies=_always,
        transform=negate_scores_twice,
    ),
    Relation(
        name="equal-values",
        why="Weights sum to one, less what the sink takes.",
        exact=False,
        applies=_always,
        transform=equal_values,
    ),
    Relation(
        name="truncate",
        why="A causal row sees nothing after its diagonal.",
        exact=False,
        applies=_looks_back,
        transform=truncate,
    ),
)
"""Every relation; all hold for the whole interface where they apply."""


def rebase(prefix: NDArray[Any], base: int) -> NDArray[np.int32]:
    """Return prefix sums moved to another base: the same lengths, the same result.

    Raises:
        ValueError: a sum does not fit int32.
    """
    sums = np.asarray(prefix, np.int64)
    sums = sums - sums[:1] + base
    info = np.iinfo(np.int32)
    if sums.size and (sums.min() < info.min or sums.max() > info.max):
        raise ValueError("prefix sums do not fit int32")
    return sums.astype(np.int32)
