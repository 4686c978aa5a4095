"""What the host read where it waited: the value, and what had written it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from sidestream.harness.runtime import Runtime
from sidestream.harness.vtorch.storages import DEVICE
from sidestream.harness.vtorch.tensor_spans import spans
from sidestream.harness.vtorch.world import World, plain

_FEW = 4
"""Elements of a tensor that are told."""


def note(world: World, value: Any, source: torch.Tensor | None = None) -> None:
    """Tell the last wait in the log which value it was for.

    Args:
        world: The device.
        value: What the host got: a number, a host tensor or several.
        source: The device tensor that it came from.
    """
    text = _spelled(value)
    if source is not None and source.numel():
        text += _origin(world, source)
    waits = world.runtime.host_waits
    waits[-1] = replace(waits[-1], detail=text)


def _spelled(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(_spelled(one) for one in value)
    if not isinstance(value, torch.Tensor):
        return repr(value)
    with plain():
        first = value.detach().reshape(-1)[:_FEW].tolist()
    kind = str(value.dtype).removeprefix("torch.")
    more = ", ..." if value.numel() > _FEW else ""
    told = ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in first)
    return f"{kind} {tuple(value.shape)} [{told}{more}]"


def _origin(world: World, source: torch.Tensor) -> str:
    """Name the operation that wrote a device tensor last, where one is known."""
    if world.storages.home(source) != DEVICE:
        return ""
    runtime: Runtime = world.runtime
    op = runtime.last_writer(spans(source)[0])
    return f", written by {op.label} at {op.site}," if op is not None else ""
