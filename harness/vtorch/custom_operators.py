"""Operators that packages define in Python: their bodies run where they are called.

What such a body calls are operators of torch and launches, each of which goes to its
stream by itself. Operators of torch are carried out by their CPU kernels instead.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

_OF_TORCH = frozenset({"aten", "prims", "prim", "c10d", "_c10d_functional", "symm_mem"})


@functools.cache
def of_torch(func: Any) -> bool:
    """Whether an overload is torch's own."""
    return str(func.namespace) in _OF_TORCH


@functools.cache
def key(func: Any, *, on_device: bool) -> torch.DispatchKeySet | None:
    """Return the key by which an overload's kernel for CUDA or the CPU is called.

    None where it has no such kernel.
    """
    name = f"{func._schema.name}.{func._schema.overload_name}".removesuffix(".")
    device = "CUDA" if on_device else "CPU"
    if not torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, device):
        return None
    return torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, device))
