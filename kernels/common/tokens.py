"""Packed token buffers: pointers, tensor maps and the TMA views of one head."""

from typing import Any

import cutlass
from cutlass import Float32, Int32, Int64, Uint8, cute
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.cute.runtime import make_ptr

from sidestream.kernels.common.config import ROW_BYTES, ForwardContract
from sidestream.kernels.common.element import element_type, output_type
from sidestream.kernels.common.operands import Source

UNIT_BITS = 128
"""What every address and stride is a multiple of."""


def block_columns(tensor: cute.Tensor) -> int:
    """Columns of one column block of a tensor's elements."""
    return 8 * ROW_BYTES // int(tensor.element_type.width)


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
                cute.assume(token_stride, divby=UNIT_BITS // pointer.dtype.width),
                1,
                cute.assume(head_stride, divby=UNIT_BITS // pointer.dtype.width),
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
    shape = (rows, config.chunk, *extents)
    return cute.tile_to_shape(atom, shape, tuple(range(len(shape))))


@cute.jit
def allocate_tiles(
    smem: Any,
    config: cutlass.Constexpr[ForwardContract],
    layout: cute.ComposedLayout,
) -> cute.Tensor:
    """Room for what a `tile_layout` holds; swizzles repeat every 1024 bytes."""
    return smem.allocate_tensor(
        element_type(config), layout.outer, byte_alignment=1024, swizzle=layout.inner
    )


@cute.jit
def unswizzled(tensor: cute.Tensor, dtype: cutlass.Constexpr[Any]) -> cute.Pointer:
    """The tile's pointer without a swizzle type; addresses are swizzled explicitly."""
    return cute.recast_ptr(tensor.iterator, cute.make_swizzle(0, 4, 3), dtype=dtype)


@cute.jit
def tma_load(
    tokens: cute.Tensor,
    layout: cute.ComposedLayout,
    rows: cutlass.Constexpr[int],
    *,
    multicast: cutlass.Constexpr[bool] = False,
) -> tuple[cute.CopyAtom, cute.Tensor]:
    """A TMA load of `rows` x 128-byte boxes; columns past the head dimension are 0."""
    box = cute.select(layout, mode=[0, 1])
    kind = cpasync.CopyBulkTensorTileG2SOp()
    if cutlass.const_expr(multicast):
        kind = cpasync.CopyBulkTensorTileG2SMulticastOp()
    return cpasync.make_tiled_tma_atom(kind, tokens, box, (rows, block_columns(tokens)))


@cute.jit
def tma_views(
    source: Source,
    smem: cute.Tensor,
    rows: cutlass.Constexpr[int],
    head: Int32,
    start: Int32,
) -> tuple[cute.Tensor, cute.Tensor]:
    """Shared and global sides of the copies of one head from token `start` on.

    Shared: (box, buffer, column block). Global: (box, tile of `rows` tokens, block).
    """
    view = cute.domain_offset((start, 0), source.tokens[None, None, head])
    tiles = cute.local_tile(view, (rows, block_columns(smem)), (None, None))
    return cpasync.tma_partition(
        source.atom,
        0,
        cute.make_layout(1),
        cute.group_modes(smem, 0, 2),
        cute.group_modes(tiles, 0, 2),
    )


def pointers(
    config: ForwardContract,
    addresses: tuple[int, ...],
) -> list[Any]:
    """DSL pointers for q, k, v, out, lse, sinks, both lengths and the workspace.

    Behind them come those of one-byte operands, or None: float32 factors of q, k, v and
    the output, the output's largest magnitude, and the scales of q, k and v.
    """
    types = [element_type(config)] * 3 + [output_type(config)]
    types += [Float32] * 2 + [Int32] * 3 + [Float32] * 5 + [Uint8] * 3
    aligns = [16] * 4 + [4] * 4 + [128] + [4] * 5 + [16] * 3
    used = [True] * 9 + [config.descaled] * 3 + [config.narrow_output, config.narrow]
    used += [config.block_scaled] * 3
    return [
        make_ptr(kind, address, cute.AddressSpace.gmem, assumed_align=align)
        if present
        else None
        for kind, address, align, present in zip(
            types, addresses, aligns, used, strict=True
        )
    ]
