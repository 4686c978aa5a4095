"""Tensor memory: the map of its columns, and how a thread reaches its own row.

All 512 columns belong to the CTA. Lane r of a region is row r of its sub-tile; thread
r of a warpgroup touches only that lane (PTX ISA, "Access restrictions").

    columns   0-127   S in slot 0, its first 64 columns also P
    columns 128-255   S in slot 1, P likewise
    columns 256-383   O of sub-tile 0
    columns 384-511   O of sub-tile 1

    columns 384-403   instead of it scales, where there are any (`scales.py`)

With two sub-tiles a slot is that of its sub-tile. A single one has up to 256 columns of
O, and its tiles of scores take turns.

P overwrites scores that its own thread has read, two 16-bit weights to a column.
"""

from typing import Any

import cutlass
from cutlass import Float32, Int32, cute
from cutlass._mlir.dialects import nvvm
from cutlass.cute.nvgpu import tcgen05

COLUMNS = 512
SLOT_COLUMNS = 128
O_COLUMN = (256, 384)

LANE_STRIDE = 1 << 16
"""Step between lanes in a tensor memory address (lane in the upper 16 bits)."""


@cute.jit
def fence_before() -> None:
    """Order earlier `tcgen05` operations before a later handover to other threads."""
    nvvm.tcgen05_fence(nvvm.Tcgen05FenceKind.BEFORE_THREAD_SYNC)


@cute.jit
def fence_after() -> None:
    """Order later `tcgen05` operations after a handover from other threads."""
    nvvm.tcgen05_fence(nvvm.Tcgen05FenceKind.AFTER_THREAD_SYNC)


@cute.jit
def region(base: cute.Pointer, column: Int32, columns: cutlass.Constexpr[int]) -> Any:
    """(128 lanes, `columns`) of 32-bit cells from `column` on."""
    return cute.make_tensor(
        base + column, cute.make_layout((128, columns), stride=(LANE_STRIDE, 1))
    )


@cute.jit
def load_row(
    base: cute.Pointer,
    column: Int32,
    thread: Int32,
    columns: cutlass.Constexpr[int],
    values: cute.Tensor,
) -> None:
    """Issue the load of `columns` float32 cells of the thread's row into `values`.

    `values` may be used at once; the cells may be written after `tcgen05.wait::ld`.
    """
    cells = region(base, column, columns)
    atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition(columns)), Float32)
    copy = tcgen05.make_tmem_copy(atom, cells).get_slice(thread)
    source = copy.partition_S(cells)
    target = cute.make_tensor(
        values.iterator, copy.partition_D(cute.make_identity_tensor(cells.shape)).shape
    )
    cute.copy(copy, source, target)


@cute.jit
def store_row(
    base: cute.Pointer,
    column: Int32,
    thread: Int32,
    columns: cutlass.Constexpr[int],
    values: cute.Tensor,
) -> None:
    """Issue the store of `columns` 32-bit cells of the thread's row from `values`.

    Complete only after `tcgen05.wait::st`.
    """
    cells = region(base, column, columns)
    atom = cute.make_copy_atom(tcgen05.St32x32bOp(tcgen05.Repetition(columns)), Float32)
    copy = tcgen05.make_tmem_copy(atom, cells).get_slice(thread)
    target = copy.partition_D(cells)
    source = cute.make_tensor(
        values.iterator, copy.partition_S(cute.make_identity_tensor(cells.shape)).shape
    )
    cute.copy(copy, source, target)


@cute.jit
def wait_loads() -> None:
    """Wait for this thread's loads (`tcgen05.wait::ld`)."""
    cute.arch.fence_view_async_tmem_load()


@cute.jit
def wait_stores() -> None:
    """Wait for this thread's stores (`tcgen05.wait::st`)."""
    cute.arch.fence_view_async_tmem_store()
