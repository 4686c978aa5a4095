"""Which elements an operator with indices reads or changes, known when it lands.

Two streams that work on different rows of one tensor are no race, so that for these
operators the bytes are those of the elements that the indices name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from sidestream.harness.runtime import Span
from sidestream.harness.vtorch.storages import extent

LARGEST = 1 << 22
"""Elements up to which this is worth its time; beyond, the whole tensor counts."""

Args = Sequence[Any]


_READS: dict[str, Callable[[torch.Tensor, Args], torch.Tensor]] = {
    "aten::index": lambda n, a: torch.ops.aten.index.Tensor(n, a[1]),
    "aten::index_select": lambda n, a: n.index_select(a[1], a[2]),
    "aten::gather": lambda n, a: n.gather(a[1], a[2]),
    "aten::take": lambda n, a: n.take(a[1]),
    "aten::embedding": lambda n, a: n[a[1]],
}
"""Given the numbers of a tensor's elements, return those that are read."""

_CHANGES: dict[str, Callable[[torch.Tensor, Args], torch.Tensor]] = {
    "aten::index_put_": lambda m, a: torch.ops.aten.index_put_.default(
        m, a[1], torch.ones((), dtype=torch.bool)
    ),
    "aten::index_copy_": lambda m, a: m.index_fill_(a[1], a[2], value=True),
    "aten::index_add_": lambda m, a: m.index_fill_(a[1], a[2], value=True),
    "aten::index_fill_": lambda m, a: m.index_fill_(a[1], a[2], value=True),
    "aten::scatter_": lambda m, a: m.scatter_(a[1], a[2], value=True),
    "aten::scatter_add_": lambda m, a: m.scatter_(a[1], a[2], value=True),
    "aten::scatter_reduce_": lambda m, a: m.scatter_(a[1], a[2], value=True),
    "aten::masked_fill_": lambda m, a: m.masked_fill_(a[1], value=True),
    "aten::masked_scatter_": lambda m, a: m.masked_fill_(a[1], value=True),
}
"""Given a mask of a tensor's extents, set it where the tensor is changed."""


def indexed(name: str, args: Args) -> bool:
    """Whether an operator touches only a part of its first argument."""
    if name not in _READS and name not in _CHANGES:
        return False
    return isinstance(args[0], torch.Tensor) and args[0].numel() <= LARGEST


def changes(name: str) -> bool:
    """Whether an operator changes the part, or only reads it."""
    return name in _CHANGES


def touched(name: str, args: Args) -> tuple[Span, ...]:
    """Return the bytes of the first argument that an operator touches.

    Args:
        name: E.g. `aten::gather`; one that is `indexed`.
        args: Raw tensors, with the data that the operator will see.
    """
    whole: torch.Tensor = args[0]
    reach = extent(whole.shape, whole.stride())
    numbers = torch.arange(reach).as_strided(whole.shape, whole.stride())
    if name in _READS:
        chosen = _READS[name](numbers, args)
    else:
        mask = torch.zeros(whole.shape, dtype=torch.bool)
        _CHANGES[name](mask, args)
        chosen = numbers[mask]
    return _runs(chosen, whole.data_ptr(), whole.element_size())


def _runs(chosen: torch.Tensor, address: int, size: int) -> tuple[Span, ...]:
    places = np.unique(chosen.numpy())
    if not len(places):
        return ()
    cuts = np.flatnonzero(np.diff(places) > 1) + 1
    return tuple(
        Span(address + int(run[0]) * size, len(run) * size)
        for run in np.split(places, cuts)
    )
