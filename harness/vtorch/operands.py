"""Operands and results of an operator: device bytes, devices, what is new."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from sidestream.harness.errors import UnsupportedError
from sidestream.harness.runtime import Span
from sidestream.harness.vtorch.operator_schema import Operator, tensors
from sidestream.harness.vtorch.storages import DEVICE
from sidestream.harness.vtorch.tensor_spans import spans

if TYPE_CHECKING:
    from sidestream.harness.vtorch.world import World

INDEXED = {
    "aten::index",
    "aten::index_put",
    "aten::index_put_",
    "aten::_index_put_impl_",
}
"""Operators whose second argument is index tensors, which may be on the host."""


def effects(
    op: Operator, given: Iterable[tuple[int | str, torch.Tensor]], homes: list[int]
) -> tuple[list[Span], list[Span]]:
    """Return the device bytes that an operator reads and changes."""
    reads: list[Span] = []
    writes: list[Span] = []
    for (key, tensor), home in zip(given, homes, strict=True):
        if home != DEVICE:
            continue
        touched = spans(tensor)
        if key not in op.unread:
            reads += touched
        if key in op.written:
            writes += touched
    return reads, writes


class MixedDevicesError(RuntimeError):
    """Tensors of the host, or of two devices, among each other."""


def same_device(
    op: Operator,
    world: World,
    given: list[tuple[int | str, torch.Tensor]],
    homes: list[int],
) -> None:
    """Refuse tensors of the host, or of two devices, among each other as torch does.

    Raises:
        MixedDevicesError: naming the operator; numbers and index tensors may mix.
    """
    device = _one_device(op, world, given, homes)
    for (key, tensor), home in zip(given, homes, strict=True):
        index = op.name in INDEXED and key == 1
        if home == DEVICE or index or (not tensor.dim() and key not in op.written):
            continue
        if tensor.device.type == "meta" or op.name.startswith("aten::_fused_"):
            continue
        raise MixedDevicesError(
            "Expected all tensors to be on the same device, but found at least two "
            f"devices, cuda:{device} and cpu! (argument {key} of {op.label})"
        )


def _one_device(
    op: Operator,
    world: World,
    given: list[tuple[int | str, torch.Tensor]],
    homes: list[int],
) -> int:
    """Return the index of the device that all device tensors lie on.

    Raises:
        RuntimeError: if there are two.
        UnsupportedError: for a multi-tensor operator over tensors of two devices,
            which torch takes apart.
    """
    if world.devices == 1:
        return 0
    device: int | None = None
    for (key, tensor), home in zip(given, homes, strict=True):
        if home != DEVICE:
            continue
        own = world.where(tensor)
        if device is None:
            device = own
        elif own != device and op.name.startswith("aten::_foreach_"):
            raise UnsupportedError(f"{op.label} over tensors of two devices")
        elif own != device:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two "
                f"devices, cuda:{device} and cuda:{own}! (argument {key} of {op.label})"
            )
    return device or 0


def fresh(op: Operator, got: Any) -> list[torch.Tensor]:
    """Return the tensors of a result that are not changed arguments."""
    values = [got] if len(op.returns) == 1 else list(got or ())
    made: list[torch.Tensor] = []
    for value, key in zip(values, op.returns, strict=True):
        if key is None:
            made += [t for _, t in tensors((value,), {})]
    return made
