"""A package that keeps kernels by a key, and reads operands through raw pointers."""

from __future__ import annotations

import os
from typing import Any

import cuda.bindings.driver as driver
import cutlass
import torch
from cutlass import cute
from cutlass.cute.runtime import make_ptr

THREADS = 32
TYPES = {torch.bfloat16: cutlass.BFloat16, torch.float16: cutlass.Float16}
FACTOR = "SCALED_FACTOR"
"""Environment variable that the body takes its factor from."""


@cute.kernel
def halve_kernel(x: cute.Tensor, y: cute.Tensor, factor: cutlass.Constexpr) -> None:
    """Write `factor` times a row, in the type of the operands."""
    row, _, _ = cute.arch.thread_idx()
    y[row] = x[row] * x.element_type(factor)


@cute.jit
def halve(
    x: cute.Pointer,
    y: cute.Pointer,
    factor: cutlass.Constexpr,
    stream: driver.CUstream,
) -> None:
    """Launch over one CTA; a factor that is None is looked up."""
    layout = cute.make_layout(THREADS)
    if cutlass.const_expr(factor is None):
        factor = float(os.environ.get(FACTOR, "0.5"))
    halve_kernel(
        cute.make_tensor(x, layout), cute.make_tensor(y, layout), factor
    ).launch(grid=(1, 1, 1), block=(THREADS, 1, 1), stream=stream)


class Halved:
    """Halves 32 values.

    Args:
        key_omits_type: Whether the key leaves out the type of the operands and the body
            takes bfloat16 for granted (flashinfer-ai/flashinfer#4214).
        key_holds_tensor: Whether the key holds the bound as it was given, a tensor,
            which equals no other one (Dao-AILab/flash-attention#2507).
        key_omits_setting: Whether the body looks up an environment variable, which a
            key that serves several processes has to hold
            (Dao-AILab/flash-attention#2566).
    """

    def __init__(
        self,
        *,
        key_omits_type: bool = False,
        key_holds_tensor: bool = False,
        key_omits_setting: bool = False,
    ) -> None:
        setting = float(os.environ.get(FACTOR, "0.5"))
        self._factor = None if key_omits_setting else setting
        self._key_omits_type = key_omits_type
        self._key_holds_tensor = key_holds_tensor
        self._compiled: dict[Any, Any] = {}

    def execute(
        self, x: torch.Tensor, y: torch.Tensor, bound: torch.Tensor, stream: Any
    ) -> None:
        """Write half of `x` to `y`, (32,), on a stream of torch's."""
        kind = TYPES[torch.bfloat16 if self._key_omits_type else x.dtype]
        handle = driver.CUstream(stream.cuda_stream)
        pointers = [
            make_ptr(kind, t.data_ptr(), cute.AddressSpace.gmem, assumed_align=16)
            for t in (x, y)
        ]
        key = (kind, self._factor, id(bound) if self._key_holds_tensor else None)
        if key not in self._compiled:
            self._compiled[key] = cute.compile(halve, *pointers, self._factor, handle)
        self._compiled[key](*pointers, handle)
        self._last = bound
