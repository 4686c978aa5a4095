"""Where the results of an operator go: into memory that is theirs already.

A result was allocated when the operator was called, so that its CPU kernel had better
write there. A second pass over the data costs as much as many operators do themselves.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from sidestream.harness.runtime import CallSite, CudaError
from sidestream.harness.vtorch.operator_schema import Operator

_OPTIONS = ("dtype", "layout", "device", "pin_memory", "memory_format")


@functools.cache
def out_overload(func: Any) -> Any:
    """Return the overload that writes into a tensor that is given, or None.

    It takes what `func` takes, and `out`. Those that torch generates are left out: they
    make a tensor of their own and copy it.
    """
    schema = func._schema
    wanted = [(a.name, str(a.type)) for a in schema.arguments]
    if len(schema.returns) != 1 or str(schema.returns[0].type) != "Tensor":
        return None
    if any(a.alias_info is not None for a in schema.arguments):
        return None
    packet = func.overloadpacket
    for name in packet.overloads():
        other = getattr(packet, name)
        arguments = other._schema.arguments
        outs = [a.name for a in arguments if a.is_out]
        taken = [(a.name, str(a.type)) for a in arguments if not a.is_out]
        if (
            outs == ["out"]
            and taken == wanted
            and torch.Tag.generated not in other.tags
        ):
            return other
    return None


def write_into(
    func: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    target: torch.Tensor,
) -> bool:
    """Let an operator write its one result into `target`, if it can."""
    direct = out_overload(func)
    if direct is None or any(kwargs.get(name) is not None for name in _OPTIONS):
        return False
    direct(*args, **kwargs, out=target)
    return True


def put(target: torch.Tensor, value: torch.Tensor) -> None:
    """Copy a value into a tensor of the same extents."""
    if (
        target.dtype == value.dtype
        and target.is_contiguous()
        and value.is_contiguous()
        and not (value.is_conj() or value.is_neg())
    ):
        size = target.numel() * target.element_size()
        ctypes.memmove(target.data_ptr(), value.data_ptr(), size)
    else:
        target.copy_(value)


@contextmanager
def blamed(op: Operator, site: CallSite) -> Iterator[None]:
    """Turn the failure of a landing into what CUDA reports, with the call at fault.

    Raises:
        CudaError: cudaErrorAssert.
    """
    try:
        yield
    except (RuntimeError, IndexError, ValueError) as error:
        raise CudaError(
            "cudaErrorAssert", f"{op.label}, called at {site}, failed: {error}"
        ) from error
