"""Packed token buffers: pointers, tensor maps and the TMA views of one head."""

from typing import Any

import cutlass
from cutlass import Float32, Int32, Int64, cute
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.cute.runtime import make_ptr

from sidestream.kernels.common.config import CHUNK, ForwardContract
from sidestream.kernels.common.element import element_type


@cute.jit
def token_tensor(
    pointer: cute.Pointer,
    tokens: Int32,
    head_dim: cutlass.Constexpr[int],
    heads: Int32,
    token_stride: Int64,
    head_stride: Int64,
) -> cute.Tensor:
    """Global (token, column, head) view; strides are multiples of 16 bytes."""
    return cute.make_tensor(
        pointer,
        cute.make_layout(
            (tokens, head_dim, heads),
            stride=(
                cute.assume(token_stride, divby=8),
                1,
                cute.assume(head_stride, divby=8),
            ),
        ),
    )


@cute.jit
def tile_layout(
    config: cutlass.Constexpr[ForwardContract],
    rows: cutlass.Constexpr[int],
    extents: cutlass.Constexpr[tuple[int, ...]],
) -> cute.ComposedLayout:
    """128-byte-swizzled shared layout (row, column in block, *extents), dense."""
    atom = warpgroup.make_smem_layout_atom(
        warpgroup.SmemLayoutAtomKind.K_SW128, element_type(config)
    )
    shape = (rows, CHUNK, *extents)
    return cute.tile_to_shape(atom, shape, tuple(range(len(shape))))


@cute.jit
def tma_load(
    tokens: cute.Tensor,
    layout: cute.ComposedLayout,
    rows: cutlass.Constexpr[int],
    *,
    multicast: cutlass.Constexpr[bool] = False,
) -> tuple[cute.CopyAtom, cute.Tensor]:
    """A TMA load of `rows` x 64 boxes; columns past the head dimension read as zero."""
    box = cute.select(layout, mode=[0, 1])
    kind = cpasync.CopyBulkTensorTileG2SOp()
    if cutlass.const_expr(multicast):
        kind = cpasync.CopyBulkTensorTileG2SMulticastOp()
    return cpasync.make_tiled_tma_atom(kind, tokens, box, (rows, CHUNK))


@cute.jit
def tma_views(
    atom: cute.CopyAtom,
    smem: cute.Tensor,
    tokens: cute.Tensor,
    rows: cutlass.Constexpr[int],
    head: Int32,
    start: Int32,
) -> tuple[cute.Tensor, cute.Tensor]:
    """Shared and global sides of the copies of one head from token `start` on.

    Shared: (box, buffer, 64-column block). Global: (box, tile of `rows` tokens, block).
    """
    view = cute.domain_offset((start, 0), tokens[None, None, head])
    tiles = cute.local_tile(view, (rows, CHUNK), (None, None))
    return cpasync.tma_partition(
        atom,
        0,
        cute.make_layout(1),
        cute.group_modes(smem, 0, 2),
        cute.group_modes(tiles, 0, 2),
    )


def pointers(
    config: ForwardContract,
    addresses: tuple[int, ...],
) -> list[Any]:
    """DSL pointers for q, k, v, out, lse, sinks, both lengths and the workspace."""
    types = [element_type(config)] * 4 + [Float32] * 2 + [Int32] * 3
    aligns = [16] * 4 + [4] * 4 + [128]
    return [
        make_ptr(kind, address, cute.AddressSpace.gmem, assumed_align=align)
        for kind, address, align in zip(types, addresses, aligns, strict=True)
    ]
