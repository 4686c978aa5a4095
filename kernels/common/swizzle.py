"""Addresses inside a 128-byte-swizzled tile.

A tile of R rows is stored as 64-column blocks of R x 128 bytes. Within a block the
16-byte unit u of row r lies at unit `u XOR (r mod 8)` (PTX ISA, "Swizzling Modes").
"""

import cutlass
from cutlass import Int32, cute

from sidestream.kernels.common.config import CHUNK

UNIT = 8
"""Two-byte elements in one 16-byte unit."""


@cute.jit
def unit_pointer(
    tile: cute.Pointer, rows: cutlass.Constexpr[int], row: Int32, unit: Int32
) -> cute.Pointer:
    """Pointer to 16-byte unit `unit` of row `row` of an unswizzled-typed tile."""
    per_block = CHUNK // UNIT
    block = unit // per_block
    inner = (unit % per_block) ^ (row % per_block)
    offset = block * (rows * CHUNK) + row * CHUNK + inner * UNIT
    return tile + cute.assume(offset, divby=UNIT)
