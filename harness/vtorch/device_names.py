"""Devices by a bare index and by default, which a torch without accelerator lacks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from sidestream.harness.errors import UnsupportedError
from sidestream.harness.vtorch.attributes import Change

_LEGACY = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "ShortTensor": torch.int16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "BoolTensor": torch.bool,
}
"""Tensor types of `torch.cuda` from before there were devices."""


def named(device: Any) -> Any:
    """Return a device that was given as an index by its name."""
    if isinstance(device, int) and not isinstance(device, bool):
        return torch.device("cuda", device)
    return device


def with_named(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function take a bare index as its first argument or as `device`."""

    @functools.wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        if "device" in kwargs:
            kwargs["device"] = named(kwargs["device"])
        return function(*map(named, args[:1]), *args[1:], **kwargs)

    return call


def default_device() -> torch.device | None:
    """Return what `torch.set_default_device` or a `with` has set, or None."""
    stack: list[object] = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    contexts = (mode for mode in reversed(stack) if isinstance(mode, DeviceContext))
    context = next(contexts, None)
    return None if context is None else context.device


def changes() -> Iterator[Change]:
    """Yield what is replaced for calls that no mode sees."""
    # Modules and packed sequences ask it directly.
    yield torch._C._nn, "_parse_to", with_named(torch._C._nn._parse_to)
    for name, dtype in _LEGACY.items():
        yield torch.cuda, name, LegacyType(name, (), {"dtype": dtype})
    usual = torch.set_default_tensor_type

    def set_default(kind: Any) -> None:
        if isinstance(kind, LegacyType) or "cuda" in str(kind):
            raise UnsupportedError(
                f"torch.set_default_tensor_type of {kind} has no model; use "
                "torch.set_default_device and torch.set_default_dtype"
            )
        usual(kind)

    yield torch, "set_default_tensor_type", set_default


class LegacyType(type):
    """A tensor type of `torch.cuda`: asks what a tensor is, and makes none."""

    dtype: torch.dtype

    def __instancecheck__(cls, value: object) -> bool:
        if not isinstance(value, torch.Tensor):
            return False
        return value.is_cuda and value.dtype == cls.dtype

    def __call__(cls, *args: object, **kwargs: object) -> Any:
        """Refuse."""
        raise UnsupportedError(
            f"torch.cuda.{cls.__name__} makes no tensors on the virtual GPU; use "
            f"torch.tensor or torch.empty with dtype={cls.dtype}, device='cuda'"
        )

    def __repr__(cls) -> str:
        return f"torch.cuda.{cls.__name__}"
