"""How far two results of a case are apart."""

from __future__ import annotations

import numpy as np
from hw_case import Case
from numpy.typing import NDArray

_STEP = 2.0**-20


def _ordered(words: NDArray[np.uint32], bits: int) -> NDArray[np.int64]:
    """Floats as integers whose distance counts units in the last place."""
    magnitude = (words & np.uint32((1 << (bits - 1)) - 1)).astype(np.int64)
    return np.where(words >> np.uint32(bits - 1), -magnitude, magnitude)


def _distance(
    got: NDArray[np.uint32], want: NDArray[np.uint32], bits: int, infinity: int
) -> NDArray[np.int64]:
    """Units in the last place; NaN is 0 from NaN and far from anything else."""
    mask = np.uint32((1 << (bits - 1)) - 1)
    nans = ((got & mask) > infinity).astype(int) + ((want & mask) > infinity)
    apart = np.abs(_ordered(got, bits) - _ordered(want, bits))
    return np.where(nans == 2, 0, np.where(nans == 1, 1 << 40, apart))


def distances(
    case: Case, got: NDArray[np.uint8], want: NDArray[np.uint8]
) -> NDArray[np.int64]:
    """Distance of every word, in the unit of `case.form`; 0 is bit for bit."""
    if case.ulp is None:
        return (got != want).astype(np.int64)
    g, w = got.view(np.uint32), want.view(np.uint32)
    if case.form == "f32":
        return _distance(g, w, 32, 0x7F800000)
    if case.form == "absolute":
        apart = np.abs(g.view(np.float32).astype(float) - w.view(np.float32))
        return (
            np.ceil(np.nan_to_num(apart, nan=np.inf) / _STEP)
            .clip(0, 1 << 40)
            .astype(np.int64)
        )
    infinity = {"f16x2": 0x7C00, "bf16x2": 0x7F80}[case.form]
    low = _distance(g & np.uint32(0xFFFF), w & np.uint32(0xFFFF), 16, infinity)
    high = _distance(g >> np.uint32(16), w >> np.uint32(16), 16, infinity)
    return np.maximum(low, high)


def difference(
    case: Case, got: NDArray[np.uint8], want: NDArray[np.uint8]
) -> str | None:
    """What is wrong, or None where the results agree as the case asks."""
    if got.nbytes != want.nbytes:
        return f"{got.nbytes} bytes where {want.nbytes} were recorded"
    apart = distances(case, got, want)
    bad = np.nonzero(apart > (case.ulp or 0))[0]
    if not len(bad):
        return None
    at = int(bad[0])
    size = 1 if case.ulp is None else 4
    word = at * size // 4
    g, w = (x[: x.nbytes // 4 * 4].view(np.uint32) for x in (got, want))
    shown = f"{g[word]:08x} is {w[word]:08x} on the card" if word < len(g) else ""
    return f"{len(bad)} of {len(apart)} differ, first in word {word}: {shown}"
