"""Lengths of sequences, with the values at which tiled kernels go wrong."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from hypothesis import strategies as st

TILES = (16, 32, 64, 128)
"""Rows or keys of the tiles in use; lengths next to their multiples are the edges."""

KINDS = ("free", "self", "decode")

Pairs = tuple[tuple[int, int], ...]


@functools.cache
def length(*, longest: int) -> st.SearchStrategy[int]:
    """Return lengths up to `longest`: empty, a few tokens, tile edges, anything.

    One choice from a sorted list, so that examples shrink by value and all lengths
    cost the shrinker the same.
    """
    edges = [
        multiple * tile + offset
        for tile in TILES
        for multiple in range(1, longest // tile + 1)
        for offset in (-1, 0, 1)
    ]
    few = [n for n in range(10) for _ in range(max(1, longest // 40))]
    # About as often as a few tokens: an empty sequence beside others breaks most.
    empty = [0] * (longest // 5)
    values = [*range(longest + 1), *edges, *edges, *few, *empty]
    return st.sampled_from(sorted(n for n in values if n <= longest))


def fit(pairs: Sequence[tuple[int, int]], *, max_pairs: int) -> Pairs:
    """Drop sequences from the end until the (query, key) pairs are few enough.

    A first sequence that alone has too many keeps its keys and loses queries.
    """
    kept: list[tuple[int, int]] = []
    left = max_pairs
    for queries, keys in pairs:
        if queries * keys > left:
            break
        kept.append((queries, keys))
        left -= queries * keys
    if not kept:
        queries, keys = pairs[0]
        kept.append((max_pairs // keys, keys))
    return tuple(kept)


@st.composite
def sequences(
    draw: st.DrawFn, *, max_batch: int = 8, longest: int = 200, max_pairs: int = 60_000
) -> Pairs:
    """Draw (query, key) lengths of a batch, at most `max_pairs` scores a head.

    Serving-like batches (at most one query over a cache) and self-attention are drawn
    as often as free pairs, and so are mixtures of the three.
    """
    mode = draw(st.sampled_from((*KINDS, "mixed")))
    some, kind = length(longest=longest), st.sampled_from(KINDS)
    drawn = draw(st.lists(st.tuples(kind, some, some), min_size=1, max_size=max_batch))
    pairs = [
        _pair(own if mode == "mixed" else mode, queries, keys)
        for own, queries, keys in drawn
    ]
    return fit(pairs, max_pairs=max_pairs)


def _pair(kind: str, queries: int, keys: int) -> tuple[int, int]:
    """Bend drawn lengths to their kind; each kind is drawn with the same choices."""
    if kind == "self":
        return keys, keys
    return (min(queries, 1), keys) if kind == "decode" else (queries, keys)
