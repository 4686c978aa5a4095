"""A finished row on its way out: 16 bytes from shared to global memory."""

import cutlass
from cutlass import Int32, Int64, Uint32, cute

from sidestream.kernels.common.config import ForwardContract
from sidestream.kernels.common.operands import Packed
from sidestream.kernels.common.swizzle import UNITS


@cute.jit
def copy_unit(source: cute.Pointer, target: cute.Pointer) -> None:
    """Copy 16 bytes."""
    words = cute.make_layout(4)
    vector = cute.make_rmem_tensor(4, Uint32)
    cute.autovec_copy(
        cute.make_tensor(cute.recast_ptr(source, dtype=Uint32), words), vector
    )
    cute.autovec_copy(
        vector, cute.make_tensor(cute.recast_ptr(target, dtype=Uint32), words)
    )


@cute.jit
def store_unit(
    config: cutlass.Constexpr[ForwardContract],
    source: cute.Pointer,
    out: cute.Pointer,
    first_token: Int64,
    row: Int32,
    column: Int32,
    token_stride: Int64,
) -> None:
    """Store what `source` has of a row.

    It goes `column` columns right of `out`, which is a column of a head of token 0;
    `row` counts from `first_token`.
    """
    offset = (first_token + row) * token_stride + column
    copy_unit(source, out + cute.assume(offset, divby=config.out_chunk // UNITS))


@cute.jit
def head_of(
    config: cutlass.Constexpr[ForwardContract], out: Packed, head: Int32
) -> cute.Pointer:
    """Column 0 of a head of token 0."""
    offset = head * out.head_stride
    return out.pointer + cute.assume(offset, divby=config.out_chunk // UNITS)
