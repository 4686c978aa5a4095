"""Descriptors, layouts and number formats of tcgen05.mma, stated for tests.

Layouts are the CuTe shapes and strides that PTX ISA, Canonical Layouts, tabulates, and
a swizzle that takes bits of the byte address; nothing here shares a formula with the
execution core. Number formats are those of ml_dtypes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike, NDArray

Bytes = NDArray[np.uint8]

NONE, BASE32, SW128, SW64, SW32 = 0, 1, 2, 4, 6
"""Swizzling modes as descriptors number them."""

SWIZZLES = {
    NONE: (0, 4, 3),
    SW32: (1, 4, 3),
    SW64: (2, 4, 3),
    SW128: (3, 4, 3),
    BASE32: (2, 5, 2),
}
"""Mode -> Swizzle<bits, base, shift> on byte addresses."""

WIDE = {NONE: 1, SW32: 2, SW64: 4, SW128: 8, BASE32: 8}
"""16-byte units of an atom's row."""

DTYPES: dict[str, DTypeLike] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "u8": np.uint8,
    "s8": np.int8,
}
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e2m3": 6, "e3m2": 6, "e2m1": 4}
"""Bits of an element; 8 for the others."""

CODES = {
    "f16": {"f16": 0, "bf16": 1},
    "tf32": {"tf32": 2},
    "f8f6f4": {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5},
    "i8": {"u8": 0, "s8": 1},
    "mxf4": {"e2m1": 1},
}
CODES["mxf8f6f4"] = CODES["f8f6f4"]
CODES["mxf4nvf4"] = CODES["mxf4"]
RESULTS = {"f16": 0, "f32": 1, "s32": 2}
DEPTH = {"f16": 16, "tf32": 8, "mxf4": 64, "mxf4nvf4": 64}
"""K of a kind; 32 for the others."""


def swizzled(address: NDArray[np.int64], mode: int) -> NDArray[np.int64]:
    """Byte addresses after the swizzle."""
    bits, base, shift = SWIZZLES[mode]
    mask = (1 << bits) - 1
    return address ^ ((address >> (base + shift) & mask) << base)


@dataclass(frozen=True, kw_only=True)
class Place:
    """How a matrix of rows (M or N) by K lies in shared memory.

    `lbo` and `sbo` are bytes; `start` is the address of the first element.
    """

    start: int
    mode: int = NONE
    mn: bool = False
    lbo: int = 0
    sbo: int = 0
    base: int = 0
    """Base offset: by how many 128-byte rows the swizzle pattern starts later."""

    def descriptor(self) -> int:
        """The 64-bit shared memory descriptor."""
        fields = (
            (self.start >> 4 & 0x3FFF, 0),
            (self.lbo >> 4, 16),
            (self.sbo >> 4, 32),
            (1, 46),
            (self.base, 49),
            (self.mode, 61),
        )
        return sum(value << at for value, at in fields)

    def addresses(self, rows: int, depth: int, bits: int) -> NDArray[np.int64]:
        """Byte address of every element `[row][k]`; `bits` is 8, 16 or 32."""
        r, k = np.arange(rows)[:, None], np.arange(depth)[None, :]
        size, unit = bits // 8, 128 // bits
        wide = WIDE[self.mode]
        if not self.mn and self.mode == NONE:
            # ((8, m), (T, 2k)) : ((1T, SBO), (1, LBO))
            at = (r % 8) * 16 + r // 8 * self.sbo + k % unit * size
            at = at + k // unit * self.lbo
        elif not self.mn:
            # ((8, m), (T, 2k)) : ((wide T, SBO), (1, T))
            at = (r % 8) * 16 * wide + r // 8 * self.sbo + k * size
        elif self.mode == NONE:
            # ((T, 1, m), (8, k)) : ((1, T, SBO), (1T, LBO))
            at = r % unit * size + r // unit * self.sbo
            at = at + k % 8 * 16 + k // 8 * self.lbo
        else:
            # ((T, wide, m), (8, k)) : ((1, T, LBO), (wide T, SBO)); 4 k for BASE32
            deep = 4 if self.mode == BASE32 else 8
            at = r % unit * size + r // unit % wide * 16 + r // (unit * wide) * self.lbo
            at = at + k % deep * 16 * wide + k // deep * self.sbo
        late = 128 * self.base
        return swizzled(self.start + at - late, self.mode) + late


def compact(start: int, mode: int, *, mn: bool, rows: int, bits: int) -> Place:
    """The densest layout of `rows` rows of 32 bytes of K."""
    wide = WIDE[mode]
    if not mn and mode == NONE:
        return Place(start=start, mode=mode, lbo=128, sbo=256)
    if not mn:
        return Place(start=start, mode=mode, sbo=128 * wide)
    depth, unit = 256 // bits, 128 // bits
    if mode == NONE:
        groups = -(-rows // unit)
        return Place(start=start, mn=True, sbo=128, lbo=128 * groups)
    deep = 4 if mode == BASE32 else 8
    atom = deep * 16 * wide
    return Place(start=start, mode=mode, mn=True, sbo=atom, lbo=atom * (depth // deep))


def instruction(
    kind: str,
    m: int,
    n: int,
    *,
    a: str,
    b: str,
    d: str = "f32",
    mn_a: bool = False,
    mn_b: bool = False,
    negate_a: bool = False,
    negate_b: bool = False,
    saturate: bool = False,
    max_shift: int = 0,
    sfa: int = 0,
    sfb: int = 0,
    ue8m0: bool = True,
) -> int:
    """The 32-bit instruction descriptor."""
    bits = CODES[kind][a] << 7 | CODES[kind][b] << 10 | (n >> 3) << 17
    bits |= negate_a << 13 | negate_b << 14 | mn_a << 15 | mn_b << 16
    if kind.startswith("mx"):
        bits |= sfb << 4 | ue8m0 << 23 | (m >> 7) << 27 | sfa << 29
    else:
        bits |= saturate << 3 | RESULTS[d] << 4 | (m >> 4) << 24 | max_shift << 30
    return bits


def raw(values: NDArray[np.generic], name: str) -> NDArray[np.generic]:
    """Numbers rounded to a type, in the type's own dtype."""
    return np.asarray(values, np.float64).astype(np.float32).astype(DTYPES[name])


def numbers(elements: NDArray[np.generic], name: str) -> NDArray[np.float64]:
    """The exact values of elements as the tensor core reads them."""
    if name == "tf32":
        bits = np.asarray(elements, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
        return bits.view(np.float32).astype(np.float64)
    if name in ("u8", "s8"):
        return elements.astype(np.float64)
    return elements.astype(np.float32).astype(np.float64)


def rows_of_bytes(elements: NDArray[np.generic], name: str, packed: bool) -> Bytes:
    """K-major rows of 32 bytes; `packed`: two 4-bit elements a byte, no padding."""
    rows, _ = elements.shape
    if name not in ("e2m1", "e2m3", "e3m2"):
        return np.ascontiguousarray(elements).view(np.uint8).reshape(rows, 32)
    codes = np.ascontiguousarray(elements).view(np.uint8).astype(np.uint64)
    if name == "e2m1" and packed:
        return (codes[:, ::2] | codes[:, 1::2] << np.uint64(4)).astype(np.uint8)
    width = BITS[name]
    out = np.zeros((rows, 2, 16), np.uint8)
    for half in range(2):
        for r in range(rows):
            total = 0
            for j in range(16):
                total |= int(codes[r, 16 * half + j]) << (width * j)
            out[r, half, : 2 * width] = list(total.to_bytes(2 * width, "little"))
    return out.reshape(rows, 32)


def in_cells(elements: NDArray[np.generic], name: str, packed: bool) -> Bytes:
    """Rows as matrix A lies in tensor memory: 8 words of 32 bits, as bytes."""
    if name in ("e2m1", "e2m3", "e3m2") and not packed:
        codes = np.ascontiguousarray(elements).view(np.uint8)
        return codes << 2 if name == "e2m1" else codes
    return rows_of_bytes(elements, name, packed)


def place(
    image: Bytes, base: int, where: Place, elements: NDArray[np.generic], name: str
) -> None:
    """Write a matrix of whole-byte elements into an image that starts at `base`."""
    bits = BITS.get(name, 8)
    size = bits // 8
    flat = np.ascontiguousarray(elements).view(np.uint8).reshape(*elements.shape, size)
    at = where.addresses(*elements.shape, bits) - base
    for j in range(size):
        image[at + j] = flat[:, :, j]


def place_rows(image: Bytes, base: int, where: Place, rows: Bytes) -> None:
    """Write K-major rows of bytes into an image that starts at `base`."""
    at = replace(where).addresses(*rows.shape, 8) - base
    image[at] = rows
