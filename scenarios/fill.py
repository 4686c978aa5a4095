"""Byte and bit patterns that memory holds before a kernel runs.

Scratch may hold anything, so a run is repeated over several patterns and must give
the same bits. Outputs start as a NaN that no kernel computes, so that a row that was
never written and a row that must not be written are both told apart from data.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]

OUT_SENTINEL = 0x7FD5
"""A quiet NaN in float16 and in bfloat16 alike."""
OUT_SENTINEL_8 = 0xFF
"""A NaN in E4M3 and in E5M2 alike; conversions give the one without the sign."""
AMAX_SENTINEL = 0x7149F2CA
"""1e30 in float32: what an earlier call may have left there, and no maximum takes."""
LSE_SENTINEL = 0x7FC0D5D5
"""A quiet NaN in float32."""


def out_sentinel(dtype: str) -> int:
    """Return the bits that an output of a type starts with."""
    return OUT_SENTINEL_8 if dtype.startswith("float8") else OUT_SENTINEL


_TYPES = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
TAIL_BITS = {
    name: dict(zip(_TYPES, bits, strict=True))
    for name, bits in {
        "nan": (0x7E00, 0x7FC0, 0x7F, 0x7F),
        "inf": (0x7C00, 0x7F80, 0x7F, 0x7C),
        "huge": (0x7BFF, 0x7F7F, 0x7E, 0x7B),
        "zero": (0x0000, 0x0000, 0x00, 0x00),
    }.items()
}
"""What tokens past the live total and gaps between strides hold, as bits of the input
type; E4M3 has no infinity, so its `inf` is the NaN."""

SCALE_FILL = {"nan": 0xFF, "inf": 0xFF, "huge": 0x86, "zero": 0x00}
"""What scales of no token or column hold, by the fill of tails: NaN, 2^7 or 2^-127."""

_WORDS = {
    "zeros": 0x00000000,
    "ones": 0xFFFFFFFF,  # -1 as int32, NaN as float32
    "canary": 0xA5A5A5A5,
    "one": 0x00000001,  # a plausible counter or flag left by an earlier launch
    "large": 0x7FFFFFFF,  # an index far past every bound
    "nan": 0x7FC00000,
}
SCRATCH = (*_WORDS, "random")
"""Names of the patterns scratch can be filled with."""


def scratch_bytes(pattern: str, size: int, *, seed: int = 0) -> U8:
    """Return `size` bytes of the scratch pattern called `pattern`.

    Raises:
        ValueError: no such pattern.
    """
    if pattern == "random":
        generator = np.random.default_rng(seed)
        return generator.integers(0, 256, size=size, dtype=np.uint8)
    if pattern not in _WORDS:
        raise ValueError(
            f"unknown scratch pattern {pattern!r}; known: {', '.join(SCRATCH)}"
        )
    words = np.full((size + 3) // 4, _WORDS[pattern], dtype="<u4")
    return words.view(np.uint8)[:size].copy()
