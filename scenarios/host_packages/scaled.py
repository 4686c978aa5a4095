"""A package that launches a CuTe DSL kernel: it scales the first rows of a buffer."""

from __future__ import annotations

from typing import Any

import cuda.bindings.driver as driver
import cutlass
import torch
from cutlass import cute
from cutlass.cute.runtime import make_fake_compact_tensor

THREADS = 32


@cute.kernel
def scale_kernel(x: cute.Tensor, y: cute.Tensor, rows: cutlass.Int32) -> None:
    """Write twice the rows below `rows`."""
    thread, _, _ = cute.arch.thread_idx()
    cta, _, _ = cute.arch.block_idx()
    row = cta * THREADS + thread
    if row < rows:
        y[row] = x[row] * 2.0


@cute.jit
def scale(
    x: cute.Tensor, y: cute.Tensor, rows: cutlass.Int32, stream: driver.CUstream
) -> None:
    """Launch over as many CTAs as the rows need."""
    grid = ((rows + THREADS - 1) // THREADS, 1, 1)
    scale_kernel(x, y, rows).launch(grid=grid, block=(THREADS, 1, 1), stream=stream)


class Scaled:
    """Scales float32 rows.

    Args:
        key_holds_total: Whether the compiled code is kept by the total of each call
            (NVIDIA/cudnn-frontend#1039), not for all of them.
        lengths_on_host: Whether execute reads the lengths back
            (NVIDIA/cudnn-frontend#606) instead of being told a bound.
        fills_output: Whether execute clears what the kernel writes wholly.
        allocates: Whether execute asks the driver for scratch, and gives it back.
        pins: Whether execute asks the driver for pinned memory.
        keeps: Whether execute keeps its scratch, one for each call.
        returns: Whether execute makes its output, where it is given none.
    """

    def __init__(
        self,
        *,
        key_holds_total: bool = False,
        lengths_on_host: bool = False,
        fills_output: bool = False,
        allocates: bool = False,
        pins: bool = False,
        keeps: bool = False,
        returns: bool = False,
    ) -> None:
        self._key_holds_total = key_holds_total
        self._lengths_on_host = lengths_on_host
        self._fills_output = fills_output
        self._allocates = allocates
        self._pins = pins
        self._kept: list[torch.Tensor] | None = [] if keeps else None
        self._returns = returns
        self._compiled: dict[Any, Any] = {}

    def execute(
        self,
        x: torch.Tensor,
        y: torch.Tensor | None,
        lengths: torch.Tensor,
        stream: Any,
    ) -> torch.Tensor:
        """Write twice `x` to `y` on a stream of torch's, and return it."""
        rows = x.numel()
        if y is None:
            assert self._returns
            with torch.cuda.stream(stream):
                y = torch.empty_like(x)
        with torch.cuda.stream(stream):
            if self._lengths_on_host:
                rows = sum(lengths.tolist())
            if self._fills_output:
                y.zero_()
        self._scratch(stream)
        handle = driver.CUstream(stream.cuda_stream)
        key = rows if self._key_holds_total else None
        if key not in self._compiled:
            extent = rows if self._key_holds_total else cute.sym_int()
            fake = make_fake_compact_tensor(cutlass.Float32, (extent,))
            self._compiled[key] = cute.compile(
                scale, fake, fake, cutlass.Int32(rows), handle
            )
        self._compiled[key](x, y, rows, handle)
        return y

    def _scratch(self, stream: Any) -> None:
        """Get scratch in one of the wrong ways, as told."""
        if self._allocates:
            driver.cuMemFree(driver.cuMemAlloc(4096)[1])
        if self._pins:
            driver.cuMemFreeHost(driver.cuMemHostAlloc(4096, 0)[1])
        if self._kept is not None:
            with torch.cuda.stream(stream):
                self._kept.append(torch.empty(1024, device="cuda"))


class Planned(Scaled):
    """Asks the driver for its scratch when it is planned, and clears it then."""

    def __init__(self) -> None:
        super().__init__()
        self._memory = driver.cuMemAlloc(4096)[1]
        driver.cuMemsetD8(self._memory, 0, 4096)
