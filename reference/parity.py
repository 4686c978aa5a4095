"""How far a result is from the reference, in units of its bound."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidestream.reference.tolerance import Bound

F64 = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Parity:
    """How far a result is from the reference, in units of the bound."""

    out: float
    """max |O - O_ref| / bound; infinite for a NaN or a row that must be exact."""
    lse: float | None
    """As `out`, for LSE; None when none was given."""
    out_at: tuple[int, int, int]
    """(token, head, column) of the worst output."""
    lse_at: tuple[int, int] | None
    amax: float | None = None
    """As `out`, for the largest |O|; None when none was given."""
    out_error: float
    """Largest absolute error of O; for reports, not for judgement."""
    lse_error: float | None
    amax_error: float | None = None

    @property
    def worst(self) -> float:
        """The larger ratio; at most 1.0 for a faithful implementation."""
        return max(self.out, self.lse or 0.0, self.amax or 0.0)


def compare(
    bounds: Bound,
    *,
    out: NDArray[Any],
    lse: NDArray[Any] | None,
    amax: float | None = None,
    rows: NDArray[np.bool_] | None = None,
) -> Parity:
    """Judge `out` (Tq, Hq, Dv), `lse` (Tq, Hq) and `amax` against the reference.

    Infinities must agree exactly. A NaN is infinitely wrong, also where the reference
    is NaN: rows whose inputs hold NaN are to be left out. `rows` (Tq,) picks the
    tokens to judge; by default all are. Rows outside every sequence are not
    outputs and must be left out too.

    Raises:
        ValueError: shapes that differ from the reference.
    """
    chosen = np.ones(bounds.out.shape[0], bool) if rows is None else rows
    ratio, error = _ratio(out, bounds.reference.out, bounds.out, chosen)
    where = np.unravel_index(int(np.argmax(ratio)), ratio.shape) if ratio.size else ()
    place = tuple(int(i) for i in where) or (0, 0, 0)
    parity = Parity(
        out=float(ratio.max(initial=0.0)),
        out_at=(place[0], place[1], place[2]),
        out_error=float(error.max(initial=0.0)),
        lse=None,
        lse_at=None,
        lse_error=None,
    )
    if amax is not None:
        ratio_of, off = _largest(amax, bounds, chosen)
        parity = replace(parity, amax=ratio_of, amax_error=off)
    if lse is None:
        return parity
    lse_ratio, lse_error = _ratio(lse, bounds.reference.lse, bounds.lse, chosen)
    flat = int(np.argmax(lse_ratio)) if lse_ratio.size else 0
    heads = max(1, bounds.lse.shape[1])
    return replace(
        parity,
        lse=float(lse_ratio.max(initial=0.0)),
        lse_at=(flat // heads, flat % heads),
        lse_error=float(lse_error.max(initial=0.0)),
    )


def amax_range(
    bounds: Bound, rows: NDArray[np.bool_] | None = None
) -> tuple[float, float, float]:
    """Return the largest |O| of `rows` at least, in the reference, and at most."""
    peaks = bounds.peaks if rows is None else bounds.peaks[:, rows]
    low, size, high = (float(x) for x in peaks.max(axis=1, initial=0.0))
    return low, size, high


def _largest(
    amax: float, bounds: Bound, rows: NDArray[np.bool_]
) -> tuple[float, float]:
    """Return error / limit and error of the largest |O|."""
    low, size, high = amax_range(bounds, rows)
    error, limit = abs(amax - size), (high - size if amax > size else size - low)
    if not math.isfinite(error):
        return math.inf, math.inf
    if error == 0.0:
        return 0.0, 0.0
    return (error / limit if limit > 0.0 else math.inf), error


def _ratio(
    actual: NDArray[Any], expected: F64, limit: F64, rows: NDArray[np.bool_]
) -> tuple[F64, F64]:
    """Return error / limit and error, zero where equal or not judged."""
    if actual.shape != expected.shape:
        raise ValueError(f"result is {actual.shape}, reference {expected.shape}")
    given = np.asarray(actual, np.float64)
    judged = np.broadcast_to(
        rows.reshape(-1, *([1] * (given.ndim - 1))), given.shape
    ) & ~(given == expected)
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.abs(given - expected)
        error = np.where(np.isfinite(error), error, np.inf)
        ratio = np.where(limit > 0.0, error / limit, np.inf)
        ratio = np.where(np.isnan(ratio), np.inf, ratio)
    return np.where(judged, ratio, 0.0), np.where(judged, error, 0.0)
