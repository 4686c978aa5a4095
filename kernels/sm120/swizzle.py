"""`ldmatrix` loads from a 128-byte-swizzled tile, in cells of 16 bits.

A cell is an element of two bytes, or two neighbours of one byte; what is said of
columns here counts cells.

Eight rows at one column unit touch all banks once, which is what one 8x8 matrix of
`ldmatrix` reads.

Loads walk a tile in steps of whole constants, so a lane keeps one number for each tile
it reads, the place of its row and unit in the first step, and every step costs one
exclusive or: a step along the columns flips unit bits, a step of eight rows or a block
of columns adds.
"""

from typing import Any

import cutlass
from cutlass import Int32, cute
from cutlass.cute.nvgpu import warp as warp_ops

from sidestream.kernels.common.config import CHUNK
from sidestream.kernels.common.swizzle import UNIT

UNITS = CHUNK // UNIT
"""16-byte units of a row in one block."""


@cute.jit
def origin(row: Int32, unit: Int32) -> Int32:
    """Elements from the tile's start to unit `unit` (0 to 7) of row `row`."""
    return row * CHUNK + (unit ^ (row % UNITS)) * UNIT


@cute.jit
def step_pointer(
    tile: cute.Pointer,
    rows: cutlass.Constexpr[int],
    start: Int32,
    row: cutlass.Constexpr[int],
    unit: cutlass.Constexpr[int],
) -> cute.Pointer:
    """Pointer `row` rows below and `unit` units right of `start` in a tile of `rows`.

    `row` is a multiple of 8; `unit` shares no bit with the unit that `start` is at.
    """
    offset = (start ^ (unit % UNITS * UNIT)) + (unit // UNITS * rows + row) * CHUNK
    return tile + cute.assume(offset, divby=UNIT)


@cute.jit
def a_origin(row0: Int32) -> Int32:
    """Where a lane's row of an A fragment starts: `row0` is the fragment's first.

    Matrices in register order: upper rows, lower rows, then both for columns 8-15.
    """
    lane = cute.arch.lane_idx()
    return origin(row0 + lane % 16, lane // 16)


@cute.jit
def b_origin() -> Int32:
    """Where a lane's row of two B fragments starts; n runs over rows, k over columns.

    Matrices in register order: rows 0-7 with columns 0-7 and 8-15, then rows 8-15.
    """
    lane = cute.arch.lane_idx()
    return origin((lane // 16) * 8 + lane % 8, (lane // 8) % 2)


@cute.jit
def load_matrices(
    dtype: cutlass.Constexpr[Any],
    source: cute.Pointer,
    fragment: cute.Tensor,
    transpose: cutlass.Constexpr[bool],
) -> None:
    """`ldmatrix.x4`: lanes 8i..8i+7 give the row addresses of matrix i.

    `fragment` has 8 elements; matrix i lands in elements 2i and 2i+1.
    """
    atom = cute.make_copy_atom(warp_ops.LdMatrix8x8x16bOp(transpose, 4), dtype)
    cute.copy(atom, cute.make_tensor(source, cute.make_layout(8)), fragment)


@cute.jit
def load_a(
    dtype: cutlass.Constexpr[Any],
    tile: cute.Pointer,
    rows: cutlass.Constexpr[int],
    start: Int32,
    row: cutlass.Constexpr[int],
    k_step: cutlass.Constexpr[int],
    fragment: cute.Tensor,
) -> None:
    """A fragment (16 rows x 16 columns) of `mma.m16n8k16` from a row-major tile.

    `start` is the `a_origin` of the warp's rows, `row` a constant number of rows more.
    """
    source = step_pointer(tile, rows, start, row, 2 * k_step)
    load_matrices(dtype, source, fragment, transpose=False)


@cute.jit
def load_b_pair(
    dtype: cutlass.Constexpr[Any],
    tile: cute.Pointer,
    rows: cutlass.Constexpr[int],
    start: Int32,
    pair: cutlass.Constexpr[int],
    k_step: cutlass.Constexpr[int],
    fragment: cute.Tensor,
) -> None:
    """Two B fragments (16 k x 8 n each) where n runs over tile rows, k over columns.

    Elements 0-3 belong to rows 16*pair .. +7, elements 4-7 to the next eight rows.
    `start` is `b_origin`.
    """
    source = step_pointer(tile, rows, start, 16 * pair, 2 * k_step)
    load_matrices(dtype, source, fragment, transpose=False)
