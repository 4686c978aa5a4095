"""What an H200 answers to ex2, rcp and lg2 (`.approx.ftz.f32`), bit for bit.

`approximations.npz` holds one table for each, read off the card by
`hw_approximations_record.py`, which also held what follows against the card for every
input in the stated range:

    ex2   all inputs. |x| is cut to k = trunc(|x| 2^23); a negative x continues with
          the complement ~k, or with -k if that is a whole power. The result is
          table[k mod 2^23] times 2^floor(k / 2^23), flushed.
    rcp   all inputs. table[mantissa], scaled exactly and flushed.
    lg2   x from 255/256 up. A table from there to 2; beyond, the exponent plus
          table[mantissa], rounded towards zero.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

RECORD = Path(__file__).parent / "approximations.npz"
SIZE = 1 << 23
"""Entries of a table over all mantissas."""
LG2_FIRST = 0x3F7F_0000
"""The first input of the lg2 table; its last is just below 2."""
LG2_BELOW = 0x3F80_0000 - LG2_FIRST
NAN, INFINITY = 0x7FFF_FFFF, 0x7F80_0000
_CAP = 192.0


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Result words by mantissa; `about` names card, driver and date."""

    ex2: Words
    rcp: Words
    lg2: Words
    about: dict[str, Any]


def pack(table: Words) -> NDArray[np.uint8]:
    """Differences of neighbours, compressed: most are 0 or 1."""
    steps = np.diff(table.astype(np.int64), prepend=0).astype(np.int32)
    return np.frombuffer(zlib.compress(steps.tobytes(), 9), np.uint8)


def unpack(data: NDArray[np.uint8]) -> Words:
    """Undo `pack`."""
    steps = np.frombuffer(zlib.decompress(data.tobytes()), np.int32)
    return np.cumsum(steps, dtype=np.int64).astype(np.uint32)


def load() -> Tables:
    """Read the recorded tables."""
    with np.load(RECORD) as file:
        found = {name: unpack(file[name]) for name in ("ex2", "rcp", "lg2")}
        return Tables(about=json.loads(str(file["about"])), **found)


def ex2(tables: Tables, x: Words) -> Words:
    """Answer of the card to ex2.approx.ftz.f32, for any input."""
    size = x & 0x7FFF_FFFF
    flushed = np.where(size < 0x0080_0000, np.uint32(0), size)
    with np.errstate(invalid="ignore"):
        capped = np.fmin(flushed.view(np.float32).astype(np.float64), _CAP)
        k = np.trunc(capped * SIZE).astype(np.int64)
    below = np.where(k & (SIZE - 1), ~k, -k)
    k = np.where(x >> 31 != 0, below, k)
    power = k >> 23
    word = tables.ex2[k & (SIZE - 1)].astype(np.int64) + (power << 23)
    word = np.where(power < -126, 0, np.where(power > 127, INFINITY, word))
    return np.where(size > INFINITY, NAN, word).astype(np.uint32)


def rcp(tables: Tables, x: Words) -> Words:
    """Answer of the card to rcp.approx.ftz.f32, for any input."""
    exponent = (x >> 23 & 0xFF).astype(np.int64)
    entry = tables.rcp[x & (SIZE - 1)].astype(np.int64)
    word = entry - ((exponent - 127) << 23)
    word = np.where(word < 0x0080_0000, 0, word)
    word = np.where(exponent == 0, INFINITY, np.where(exponent == 255, 0, word))
    word |= (x & 0x8000_0000).astype(np.int64)
    nan = (x & 0x7FFF_FFFF) > INFINITY
    return np.where(nan, NAN, word).astype(np.uint32)


def lg2(tables: Tables, x: Words) -> Words:
    """Answer of the card to lg2.approx.ftz.f32, for finite x from 255/256 up."""
    exponent = np.maximum((x >> 23).astype(np.int64) - 127, 0)
    place = np.where(exponent > 0, (x & (SIZE - 1)) + LG2_BELOW, x - LG2_FIRST)
    entry = tables.lg2[place.astype(np.int64)].view(np.float32)
    exact = exponent + entry.astype(np.float64)
    near = exact.astype(np.float32)
    over = near.astype(np.float64) > exact
    down = near.view(np.uint32) - over.astype(np.uint32)
    return np.where(exponent > 0, down, entry.view(np.uint32)).astype(np.uint32)
