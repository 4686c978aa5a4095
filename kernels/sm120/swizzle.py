"""`ldmatrix` loads from a 128-byte-swizzled tile.

Eight rows at one column unit touch all banks once, which is what one 8x8 matrix of
`ldmatrix` reads.
"""

from typing import Any

import cutlass
from cutlass import Int32, cute
from cutlass.cute.nvgpu import warp as warp_ops

from sidestream.kernels.common.swizzle import unit_pointer


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
    row0: Int32,
    k_step: cutlass.Constexpr[int],
    fragment: cute.Tensor,
) -> None:
    """A fragment (16 rows x 16 columns) of `mma.m16n8k16` from a row-major tile.

    Matrices in register order: upper rows, lower rows, then both for columns 8-15.
    """
    lane = cute.arch.lane_idx()
    source = unit_pointer(tile, rows, row0 + lane % 16, 2 * k_step + lane // 16)
    load_matrices(dtype, source, fragment, transpose=False)


@cute.jit
def load_b_pair(
    dtype: cutlass.Constexpr[Any],
    tile: cute.Pointer,
    rows: cutlass.Constexpr[int],
    pair: cutlass.Constexpr[int],
    k_step: cutlass.Constexpr[int],
    fragment: cute.Tensor,
) -> None:
    """Two B fragments (16 k x 8 n each) where n runs over tile rows, k over columns.

    Elements 0-3 belong to rows 16*pair .. +7, elements 4-7 to the next eight rows.
    """
    lane = cute.arch.lane_idx()
    row = 16 * pair + (lane // 16) * 8 + lane % 8
    source = unit_pointer(tile, rows, row, 2 * k_step + (lane // 8) % 2)
    load_matrices(dtype, source, fragment, transpose=False)


@cute.jit
def load_b_pair_transposed(
    dtype: cutlass.Constexpr[Any],
    tile: cute.Pointer,
    rows: cutlass.Constexpr[int],
    pair: cutlass.Constexpr[int],
    k_step: cutlass.Constexpr[int],
    fragment: cute.Tensor,
) -> None:
    """Two B fragments where k runs over tile rows and n over columns.

    Elements 0-3 belong to columns 16*pair .. +7, elements 4-7 to the next eight.
    """
    lane = cute.arch.lane_idx()
    row = 16 * k_step + lane % 16
    source = unit_pointer(tile, rows, row, 2 * pair + lane // 16)
    load_matrices(dtype, source, fragment, transpose=True)
