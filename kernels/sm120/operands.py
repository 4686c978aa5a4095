"""What `mma.sync` multiplies: its shape by element type, and fragments of one byte.

`ldmatrix` moves cells of 16 bits. In tiles of one-byte elements a cell is a pair of
neighbouring columns, and the fragments of Q and K are the same 32-bit words as ever: 16
bytes of a row for each of eight lanes' rows (PTX ISA, "Matrix Fragments for
mma.m16n8k32").

Values are contracted over keys, which are rows of their tile. A transposed load gives
a lane a pair of columns, and of each the keys 2t and 2t+1 of every eight. `prmt` parts
the columns and joins the keys of two groups of eight, so that a register has

    keys 2t, 2t+1, 8+2t, 9+2t of one column,

and two products of 8 columns are left: the even columns of 16, and the odd ones. These
are also the keys whose scores the lane has in two neighbouring accumulator tiles.
Weights are packed in that order, and no lane needs what another one has: the order of
keys inside a product is the same on both sides, and the sum does not know it.
"""

from typing import Any

import cutlass
from cutlass import Float32, Uint16, Uint32, cute
from cutlass.cute.nvgpu import warp as warp_ops

from sidestream.kernels.common.element import element_type
from sidestream.kernels.sm120.config import KernelConfig

PARTED = (0x6420, 0x7531)
"""Selectors of `prmt` for the lower and the upper bytes of the cells of two words."""


def cell_type(config: KernelConfig) -> Any:
    """The type that `ldmatrix` moves: the element itself, or two of one byte."""
    return Uint16 if config.narrow else element_type(config)


def product(config: KernelConfig) -> Any:
    """The matrix instruction: 16 rows, 8 columns, 32 bytes of what is contracted."""
    dtype = element_type(config)
    shape = (16, 8, config.k_width)
    if config.narrow:
        return cute.make_mma_atom(warp_ops.MmaFP8Op(dtype, Float32, shape))
    return cute.make_mma_atom(warp_ops.MmaF16BF16Op(dtype, Float32, shape))


@cute.jit
def words(fragment: cute.Tensor, count: cutlass.Constexpr[int]) -> cute.Tensor:
    """A register fragment as packed 32-bit words."""
    return cute.make_tensor(
        cute.recast_ptr(fragment.iterator, dtype=Uint32), cute.make_layout(count)
    )


@cute.jit
def operand(config: cutlass.Constexpr[KernelConfig], cells: cute.Tensor) -> cute.Tensor:
    """A fragment of cells as elements of the inputs' type."""
    result = cells
    if cutlass.const_expr(config.narrow):
        result = cute.make_tensor(
            cute.recast_ptr(cells.iterator, dtype=element_type(config)),
            cute.make_layout(2 * cute.size(cells)),
        )
    return result


@cute.jit
def part_columns(cells: cute.Tensor, side: cutlass.Constexpr[int]) -> cute.Tensor:
    """B fragment of the even (`side` 0) or odd columns of a transposed load.

    `cells` are the four words of 32 keys by a pair of columns; the result has two.
    """
    parted = cute.make_rmem_tensor(2, Uint32)
    for half in cutlass.range_constexpr(2):
        parted[half] = Uint32(
            cute.arch.prmt(cells[2 * half], cells[2 * half + 1], PARTED[side])
        )
    return parted


@cute.jit
def pack_weights(
    config: cutlass.Constexpr[KernelConfig],
    scores: cute.Tensor,
    weights: cute.Tensor,
) -> None:
    """Round a band's weights to an A fragment, in the order of keys of the values.

    `scores` has the accumulators of as many keys as a product contracts: of 16 they
    are the fragment's own order, of 32 the two tiles of a word are joined.
    """
    if cutlass.const_expr(config.narrow):
        ordered = cute.make_rmem_tensor(16, Float32)
        for i in cutlass.range_constexpr(16):
            tiles, half, tile, j = i // 8, i // 4 % 2, i // 2 % 2, i % 2
            ordered[i] = scores[4 * (2 * tiles + tile) + 2 * half + j]
        weights.store(ordered.load().to(element_type(config)))
    else:
        weights.store(scores.load().to(element_type(config)))
