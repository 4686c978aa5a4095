"""Addresses inside a 128-byte-swizzled tile.

A tile of R rows is stored as column blocks of R x 128 bytes. Within a block the 16-byte
unit u of row r lies at unit `u XOR (r mod 8)` (PTX ISA, "Swizzling Modes").
"""

import cutlass
from cutlass import Int32, cute

from sidestream.kernels.common.config import CHUNK

UNIT = 8
"""Two-byte elements in one 16-byte unit."""

UNITS = CHUNK // UNIT
"""16-byte units in a row of a column block."""


@cute.jit
def unit_pointer(
    tile: cute.Pointer, rows: cutlass.Constexpr[int], row: Int32, unit: Int32
) -> cute.Pointer:
    """Pointer to 16-byte unit `unit` of row `row` of an unswizzled-typed tile."""
    width = 128 // tile.dtype.width
    chunk = UNITS * width
    block = unit // UNITS
    inner = (unit % UNITS) ^ (row % UNITS)
    offset = block * (rows * chunk) + row * chunk + inner * width
    return tile + cute.assume(offset, divby=width)
