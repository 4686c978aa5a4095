"""Operators that bring data to another tensor: on a device or over the link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sidestream.harness.vtorch.enqueued import COPY, COPY_CALL, Enqueued
from sidestream.harness.vtorch.metadata import Metadata
from sidestream.harness.vtorch.operator_schema import Operator, tensors
from sidestream.harness.vtorch.storages import DEVICE
from sidestream.harness.vtorch.transfers import Transfers
from sidestream.harness.vtorch.world import HOST, World


class Moves:
    """Carries out copies and conversions.

    Args:
        world: The device.
        enqueued: Puts what stays on a device on its stream.
        metadata: Tells extents of results.
        transfers: Does what crosses the link.
    """

    def __init__(
        self,
        world: World,
        enqueued: Enqueued,
        metadata: Metadata,
        transfers: Transfers,
    ) -> None:
        self._world = world
        self._enqueued = enqueued
        self._metadata = metadata
        self._transfers = transfers

    def copy(
        self, op: Operator, func: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> torch.Tensor:
        """Carry out `copy_`: on a device, between two, or over the link."""
        target: torch.Tensor = args[0]
        source: torch.Tensor = args[1]
        waits = not (args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        home = self._world.storages.home
        if home(target) == home(source) == DEVICE:
            if self._world.where(target) != self._world.where(source):
                self._transfers.across(target, source, label=op.label)
                return target
            given = list(tensors(args, kwargs))
            return self._on_device(op, func, args, kwargs, given, [DEVICE, DEVICE])
        if target.shape != source.shape:
            source = source.expand(target.shape)
        self._transfers.copy(target, source, waits=waits, label=op.label)
        return target

    def foreach_copy(
        self, op: Operator, func: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        """Carry out `_foreach_copy_`, pair by pair."""
        for target, source in zip(args[0], args[1], strict=True):
            self.copy(COPY, COPY_CALL, (target, source, *args[2:]), kwargs)

    def to_copy(
        self, op: Operator, func: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> torch.Tensor:
        """Carry out `_to_copy` to the device or `HOST` that the call names."""
        world = self._world
        source: torch.Tensor = args[0]
        kwargs = {k: v for k, v in kwargs.items() if k not in ("device", "pin_memory")}
        asynchronous = bool(kwargs.pop("non_blocking", False))
        there = world.storages.home(source) == DEVICE
        here_on = world.where(source) if there else HOST
        wanted = world.wanted()
        wanted = here_on if wanted is None else wanted
        if there and wanted == here_on:
            given: list[tuple[int | str, torch.Tensor]] = [(0, source)]
            return self._on_device(op, func, args, kwargs, given, [DEVICE])
        meta = self._metadata.of(func, args, kwargs)
        if wanted != HOST:
            made = world.storages.device(
                meta.dtype,
                meta.size,
                meta.stride,
                stream=world.current(wanted),
                label=op.label,
            )
            if there:
                self._transfers.across(made, source, label=op.label)
                return made
        elif asynchronous:  # torch pins what it copies to without waiting
            made = world.storages.pinned(meta.dtype, meta.size, meta.stride)
        else:
            made = torch.empty_strided(meta.size, meta.stride, dtype=meta.dtype)
        self._transfers.copy(made, source, waits=not asynchronous, label=op.label)
        return made

    def _on_device(
        self,
        op: Operator,
        func: Any,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        given: list[tuple[int | str, torch.Tensor]],
        homes: list[int],
    ) -> torch.Tensor:
        made: torch.Tensor = self._enqueued.enqueue(
            op, func, args, kwargs, given, homes
        )
        return made
