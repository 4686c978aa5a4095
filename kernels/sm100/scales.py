"""Scales of blocks of 32 elements: from global memory to where products read them.

The scales of 128 rows and 128 contracted elements are an atom of 512 bytes, in the
order that tensor memory has them in: that of row r and block b is byte
16*(r % 32) + 4*(r // 32) + b. Rows are those of Q or K, or the columns of V.
`tcgen05.cp` takes the atom to four columns, and to all four quarters of the lanes (PTX
ISA, "Block Scaling for tcgen05.mma").

An atom lands with its slice, on the same barrier. The matrix warp copies it to tensor
memory just before the products that read it: a copy and the products behind it run in
the order of their issue (PTX ISA, "Pipelined tcgen05 Instructions"). That the products
before are done with the place is known of each:

- K of a slot: the scores of the tile before in it were waited for by the softmax, which
  gave P_READY;
- V: P_READY comes from correction warps that have seen the product before;
- Q: all scores of the last unit were weighed.

P has one scale, 2^0, which is written once.
"""

from typing import Any, NamedTuple

import cutlass
from cutlass import Float8E8M0FNU, Int32, Int64, Uint32, cute
from cutlass._mlir import ir
from cutlass._mlir.dialects import llvm, nvvm
from cutlass.cute.nvgpu import cpasync

from sidestream.kernels.common.config import ATOM_BYTES, BLOCK
from sidestream.kernels.common.operands import Scales
from sidestream.kernels.sm100 import tensor_memory as tmem
from sidestream.kernels.sm100.config import SLOTS

Q_COLUMN = 384
P_COLUMN = 388
V_COLUMN = 392
K_COLUMN = 396
"""Of the first slot of scores; the second one's are behind. An atom takes COLUMNS."""
COLUMNS = 4
END_COLUMN = K_COLUMN + SLOTS * COLUMNS

ONES = 0x7F7F7F7F
"""Four scales of 2^0."""

_PLACE = 1 << 46 | (128 >> 4) << 32 | (16 >> 4) << 16
"""Descriptor of an atom without its address: rows of 16 bytes without a gap, which are
core matrices of 8 rows, 128 bytes apart, and no swizzle (PTX ISA, "Shared memory
descriptor")."""


class Atoms(NamedTuple):
    """Where the scales of a unit's Q, K or V begin, where there are any."""

    scales: Scales
    head: Int32
    first: Int32


@cute.jit
def load_atom(
    scales: Scales,
    head: Int32,
    atom: Int32,
    shared: cute.Pointer,
    full: cute.Pointer,
) -> None:
    """Load an atom of a head, of which `full` has been told to expect the bytes.

    One past the end gives what the last one has, so that lengths which say more than
    the buffer holds reach for nothing beyond it.
    """
    inside = cutlass.min(atom, scales.atoms - 1)
    offset = (Int64(head) * scales.atoms + inside) * ATOM_BYTES
    source = scales.pointer + cute.assume(offset, divby=ATOM_BYTES)
    row = cute.make_layout(ATOM_BYTES)
    kind = cute.make_copy_atom(
        cpasync.CopyBulkG2SOp(),
        scales.pointer.dtype,
        num_bits_per_copy=8 * ATOM_BYTES,
    )
    with cute.arch.elect_one():
        cute.copy(
            kind,
            cute.make_tensor(source, row),
            cute.make_tensor(shared, row),
            mbar_ptr=full,
        )


@cute.jit
def key_column(slot: Int32) -> Int32:
    """First column of the scales of K whose scores are in `slot`."""
    return K_COLUMN + COLUMNS * slot


@cute.jit
def place_atom(base: cute.Pointer, column: Int32, shared: cute.Pointer) -> None:
    """Issue the copy of an atom to tensor memory; the matrix warp's alone."""
    address = Int64(Uint32(shared.toint()) >> Uint32(4))
    target = llvm.inttoptr(
        ir.Type.parse("!llvm.ptr<6>"), (base + column).toint().ir_value()
    )
    with cute.arch.elect_one():
        nvvm.tcgen05_cp(
            nvvm.Tcgen05CpShape.SHAPE_32x128b,
            target,
            (address | Int64(_PLACE)).ir_value(),
            multicast=nvvm.Tcgen05CpMulticast.WARPX4,
        )


@cute.jit
def write_ones(base: cute.Pointer, thread: Int32) -> None:
    """Give P its scale: one lane of a thread, of a warpgroup that has all lanes.

    The next arrival on P_READY hands it over.
    """
    ones = cute.make_rmem_tensor(COLUMNS, Uint32)
    ones.fill(ONES)
    cells = cute.make_tensor(
        cute.recast_ptr(ones.iterator, dtype=cutlass.Float32), cute.make_layout(COLUMNS)
    )
    tmem.store_row(base, Int32(P_COLUMN), thread, COLUMNS, cells)
    tmem.wait_stores()


@cute.jit
def clear_dead_blocks(shared: cute.Pointer, keys: Int32, thread: Int32) -> None:
    """Make scales of V finite in blocks without any of the `keys` that there are.

    Whoever wrote the atom owes nothing there, and 0 times the pattern of NaN is NaN. A
    warpgroup of threads has a word each: the four blocks of a column.
    """
    live = (keys + (BLOCK - 1)) // BLOCK
    if live < COLUMNS:
        word = cute.make_tensor(
            cute.recast_ptr(shared + thread * COLUMNS, dtype=Uint32),
            cute.make_layout(1),
        )
        word[0] = word[0] & ((Uint32(1) << Uint32(8 * live)) - Uint32(1))


@cute.jit
def set_scales(
    mma: Any,
    base: cute.Pointer,
    column_a: Int32,
    column_b: Int32,
    block: cutlass.Constexpr[int],
) -> None:
    """Let the next product use scales `block` of both atoms."""
    for field, column in (
        (cute.nvgpu.tcgen05.Field.SFA, column_a),
        (cute.nvgpu.tcgen05.Field.SFB, column_b),
    ):
        first = cute.recast_ptr(base + column, dtype=Float8E8M0FNU)
        mma.set(field, first + block)
