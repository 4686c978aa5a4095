"""A package that launches a CuTe DSL kernel: it scales the first rows of a buffer."""

from __future__ import annotations

from typing import Any

import cuda.bindings.driver as driver
import cutlass
import torch
from cutlass import cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_tensor

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
            (NVIDIA/cudnn-frontend#552), not for all of them.
        lengths_on_host: Whether execute reads the lengths back
            (NVIDIA/cudnn-frontend#606) instead of being told a bound.
        key_holds_strides: Whether the compiled code is kept by the stride of each call
            (NVIDIA/cudnn-frontend#1039).
        scales_on_host: Whether execute reads four device scales
            (NVIDIA/cudnn-frontend#619).
        fills_output: Whether execute clears what the kernel writes wholly.
        allocates: Whether execute asks the driver for scratch, and gives it back.
        pins: Whether execute asks the driver for pinned memory.
        keeps: Whether execute keeps its scratch, one for each call.
        keeps_pinned: Whether execute keeps its staging, one for each call.
        stages: Whether execute sends its metadata through pinned memory.
        grows_pinned: Whether execute stages twice as much at every call.
        grows: Whether execute has a history on the device that grows at every call.
        empties: Whether execute has the caching allocator give its memory back.
        returns: Whether execute makes its output, where it is given none.
    """

    def __init__(
        self,
        *,
        key_holds_total: bool = False,
        lengths_on_host: bool = False,
        key_holds_strides: bool = False,
        scales_on_host: bool = False,
        fills_output: bool = False,
        allocates: bool = False,
        pins: bool = False,
        keeps: bool = False,
        keeps_pinned: bool = False,
        stages: bool = False,
        grows_pinned: bool = False,
        grows: bool = False,
        empties: bool = False,
        returns: bool = False,
    ) -> None:
        self._key_holds_total = key_holds_total
        self._key_holds_strides = key_holds_strides
        self._scales_on_host = scales_on_host
        self._lengths_on_host = lengths_on_host
        self._fills_output = fills_output
        self._allocates = allocates
        self._pins = pins
        self._kept: list[torch.Tensor] = []
        self._keeps = keeps
        self._keeps_pinned = keeps_pinned
        self._stages = stages
        self._grows_pinned = grows_pinned
        self._grows = grows
        self._empties = empties
        self._calls = 0
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
            if self._scales_on_host:
                self._read_scales(lengths)
            if self._fills_output:
                y.zero_()
        self._scratch(stream)
        handle = driver.CUstream(stream.cuda_stream)
        total = rows if self._key_holds_total else None
        step = x.stride(0) if self._key_holds_strides else None
        key = total, step
        if key not in self._compiled:
            self._compiled[key] = self._compile(total, step, rows, handle)
        self._compiled[key](x, y, rows, handle)
        return y

    def _compile(
        self, total: int | None, step: int | None, rows: int, handle: Any
    ) -> Any:
        """Compile for one total and one stride, or for any where they are None."""
        extent = total or cute.sym_int()
        x = make_fake_tensor(
            cutlass.Float32, (extent,), stride=(step or cute.sym_int64(),)
        )
        y = make_fake_compact_tensor(cutlass.Float32, (extent,))
        return cute.compile(
            scale, x, y, cutlass.Int32(rows), handle, options="--enable-tvm-ffi"
        )

    def _read_scales(self, lengths: torch.Tensor) -> float:
        """Return the product of four scales, each read by a line of its own."""
        first, last = lengths[0], lengths[-1]
        q = first.item()
        k = last.item()
        v = first.item()
        o = last.item()
        return float(q * k * v * o)

    def _scratch(self, stream: Any) -> None:
        """Get scratch in one of the wrong ways, as told."""
        if self._allocates:
            driver.cuMemFree(driver.cuMemAlloc(4096)[1])
        if self._pins:
            driver.cuMemFreeHost(driver.cuMemHostAlloc(4096, 0)[1])
        if self._keeps:
            with torch.cuda.stream(stream):
                self._kept.append(torch.empty(1024, device="cuda"))
        if self._keeps_pinned:
            self._kept.append(torch.empty(1024, pin_memory=True))
        if self._stages:
            with torch.cuda.stream(stream):
                torch.arange(1024).pin_memory().to("cuda", non_blocking=True)
        self._calls += 1
        if self._grows_pinned:
            torch.empty(1024 << self._calls, pin_memory=True)
        if self._grows:
            with torch.cuda.stream(stream):
                torch.empty((5 << 20) * self._calls, device="cuda")
        if self._empties:
            with torch.cuda.stream(stream):
                torch.empty(1 << 22, device="cuda")
            torch.cuda.empty_cache()


class Planned(Scaled):
    """Asks the driver for its scratch when it is planned, and clears it then."""

    def __init__(self) -> None:
        super().__init__()
        self._memory = driver.cuMemAlloc(4096)[1]
        driver.cuMemsetD8(self._memory, 0, 4096)
