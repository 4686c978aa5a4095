"""Tensors grouped by device, as optimizers and norms ask torch for it.

torch's C++ side sees all tensors of the virtual devices on the host and puts those of
two devices into one group; multi-tensor operators take tensors of one device only.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

Lists = list[list[torch.Tensor | None]]
Groups = dict[tuple[torch.device, torch.dtype], tuple[Lists, list[int]]]


def by_device(
    found: Mapping[tuple[torch.device, torch.dtype], tuple[Lists, list[int]]],
) -> Groups:
    """Return groups by the devices that tensors say they are on.

    Args:
        found: By device and element type, lists of tensors that belong together by
            position, and where each position was in what was asked about, if that was
            asked for. The first list decides.
    """
    made: Groups = {}
    for (_, dtype), (lists, indices) in found.items():
        for at, first in enumerate(lists[0]):
            assert first is not None
            key = first.device, dtype
            into, where = made.setdefault(key, ([[] for _ in lists], []))
            for own, all_of in zip(into, lists, strict=True):
                own.extend(all_of[at : at + 1])  # a list that is not used is empty
            where.extend(indices[at : at + 1])
    return made
