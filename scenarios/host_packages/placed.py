"""A package whose kernel writes a byte at an offset that the device computes."""

from __future__ import annotations

from typing import Any

import cuda.bindings.driver as driver
import cuda.bindings.runtime as runtime
import cutlass
import torch
from cutlass import cute
from cutlass.cute.runtime import make_ptr

TILE = 128


@cute.kernel
def place_kernel(
    base: cute.Tensor,
    row: cutlass.Int32,
    stride: cutlass.Int32,
    narrow: cutlass.Constexpr,
) -> None:
    """Write 1 at the start of a row."""
    if cutlass.const_expr(narrow):
        base[cutlass.Int64(row * stride)] = cutlass.Uint8(1)
    else:
        base[cutlass.Int64(row) * cutlass.Int64(stride)] = cutlass.Uint8(1)


@cute.jit
def place(
    base: cute.Pointer,
    row: cutlass.Int32,
    stride: cutlass.Int32,
    narrow: cutlass.Constexpr,
    stream: driver.CUstream,
) -> None:
    """Launch one thread."""
    # Bytes from the base on, however far.
    bytes_ = cute.make_tensor(base, cute.make_layout(cutlass.Int64(1) << 40))
    place_kernel(bytes_, row, stride, narrow).launch(
        grid=(1, 1, 1), block=(1, 1, 1), stream=stream
    )


class Placed:
    """Marks rows, and semaphores of tiles.

    Args:
        narrow: Whether the offset of a row is computed in 32 bits, as that of a tensor
            map's base was in cuDNN frontend 1.27.0.
        asks_otherwise: Whether `semaphore_bytes` takes lengths for absent where
            `signal` does not (vllm-project/flash-attention#162).
        leaves_device: Whether `mark_at` leaves the device current that it worked on.
    """

    def __init__(
        self,
        *,
        narrow: bool = False,
        asks_otherwise: bool = False,
        leaves_device: bool = False,
    ) -> None:
        self._leaves_device = leaves_device
        self._narrow = narrow
        self._asks_otherwise = asks_otherwise
        self._compiled: Any = None

    def mark(self, rows: torch.Tensor, row: int, stream: Any) -> None:
        """Write 1 to the first byte of a row of `rows`, (n, bytes) uint8."""
        self._launch(rows.data_ptr(), row, rows.stride(0), stream.cuda_stream)

    def mark_at(self, address: int, handle: int, *, device: int) -> None:
        """Write 1 to a byte of a device on a stream given by its handle."""
        _, before = runtime.cudaGetDevice()
        runtime.cudaSetDevice(device)
        try:
            self._launch(address, 0, 1, handle)
        finally:
            if not self._leaves_device:
                runtime.cudaSetDevice(before)

    def semaphore_bytes(self, *, batch: int, longest: int) -> int:
        """Return the scratch that `signal` needs: a byte for each tile of a batch."""
        tiles = -(-longest // TILE)
        return tiles if self._asks_otherwise else tiles * batch

    def signal(
        self, scratch: torch.Tensor, *, batch: int, longest: int, stream: Any
    ) -> None:
        """Set the last tile's semaphore."""
        last = batch * -(-longest // TILE) - 1
        self._launch(scratch.data_ptr(), last, 1, stream.cuda_stream)

    def _launch(self, address: int, row: int, stride: int, stream: int) -> None:
        handle = driver.CUstream(stream)
        space = cute.AddressSpace.gmem
        base = make_ptr(cutlass.Uint8, address, space, assumed_align=1)
        numbers = cutlass.Int32(row), cutlass.Int32(stride)
        if self._compiled is None:
            self._compiled = cute.compile(place, base, *numbers, self._narrow, handle)
        self._compiled(base, *numbers, handle)
