"""Which keys a query row sees.

Local row `i` of a sequence has a diagonal key: `i` when the mask is anchored at the
top left, `i + (len_kv - len_q)` when at the bottom right, per sequence. A band keeps
`diag - left <= j <= diag + right`, clipped to the sequence's own keys; `left` and
`right` are offsets (a window of w keys up to the diagonal has left = w - 1) and None
means unbounded. The whole band follows the diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
ANCHORS = ("top_left", "bottom_right")
CAUSAL = ("none", *ANCHORS)


@dataclass(frozen=True, kw_only=True)
class Band:
    """A mask in its one general form: an anchor and two offsets."""

    bottom_right: bool
    left: int | None
    right: int | None


def band(
    *,
    causal: str,
    window_left: int | None = None,
    window_right: int | None = None,
    anchor: str | None = None,
) -> Band:
    """Bring the declared mask to its band.

    A causal mask is a band with `right` = 0 and names its anchor itself; without one
    `anchor` does, and None means the top left.

    Raises:
        ValueError: an unknown choice, or `causal` given together with a right bound
            or another anchor.
    """
    if causal not in CAUSAL:
        raise ValueError(f"unknown causal mask {causal!r}; known: {', '.join(CAUSAL)}")
    if anchor not in (None, *ANCHORS):
        raise ValueError(f"unknown anchor {anchor!r}; known: {', '.join(ANCHORS)}")
    if causal == "none":
        return Band(
            bottom_right=anchor == "bottom_right", left=window_left, right=window_right
        )
    if window_right is not None:
        raise ValueError("causal already means window_right 0; give one of the two")
    if anchor not in (None, causal):
        raise ValueError(f"anchor {anchor} contradicts causal {causal}")
    return Band(bottom_right=causal == "bottom_right", left=window_left, right=0)


def key_range(mask: Band, *, len_q: int, len_kv: int) -> tuple[I64, I64]:
    """Return `(first, stop)` of the visible keys of each row, both `(len_q,)`.

    A row that sees nothing has `first == stop`. Visible keys are always contiguous,
    which is what lets kernels and this reference skip whole tiles.
    """
    diagonal = np.arange(len_q, dtype=np.int64)
    if mask.bottom_right:
        diagonal = diagonal + (len_kv - len_q)
    first = np.zeros(len_q, dtype=np.int64)
    stop = np.full(len_q, len_kv, dtype=np.int64)
    if mask.left is not None:
        first = np.clip(diagonal - mask.left, 0, len_kv)
    if mask.right is not None:
        stop = np.clip(diagonal + mask.right + 1, 0, len_kv)
    return first, np.maximum(first, stop)


def keep(mask: Band, *, len_q: int, len_kv: int) -> NDArray[np.bool_]:
    """Return the mask as booleans `(len_q, len_kv)`, True where a key is seen."""
    first, stop = key_range(mask, len_q=len_q, len_kv=len_kv)
    keys = np.arange(len_kv, dtype=np.int64)
    kept: NDArray[np.bool_] = (keys >= first[:, None]) & (keys < stop[:, None])
    return kept
