"""Operators on device tensors: called now, landing later.

Below autograd every operator arrives here. Views are made at once: they touch no data.
An operator whose result shows data to the host waits for the stream. For all others
the result is allocated and returned, and the CPU kernel runs on it at the landing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from sidestream.harness.runtime import here
from sidestream.harness.runtime.timeline import LINK_START, estimate
from sidestream.harness.vtorch import custom_operators
from sidestream.harness.vtorch.enqueued import Enqueued
from sidestream.harness.vtorch.metadata import Meta, Metadata
from sidestream.harness.vtorch.moves import Moves
from sidestream.harness.vtorch.operands import INDEXED, effects, same_device
from sidestream.harness.vtorch.operator_schema import (
    Operator,
    masks,
    operator,
    replaced,
    tensors,
)
from sidestream.harness.vtorch.results import blamed
from sidestream.harness.vtorch.shown import note
from sidestream.harness.vtorch.storages import DEVICE, PINNED
from sidestream.harness.vtorch.tensor_spans import spans
from sidestream.harness.vtorch.transfers import Transfers
from sidestream.harness.vtorch.world import HOST, World, is_cuda, plain

_METADATA = {
    *("aten::is_same_size", "aten::is_set_to", "aten::is_pinned"),
    *("aten::_has_compatible_shallow_copy_type", "aten::set_"),
    *("aten::_version", "aten::sym_size", "aten::sym_numel"),
}

_COLLECTIVES = ("c10d::", "_c10d_functional", "symm_mem::")
"""Operators over several processes."""
_COUNTED = {"aten::nonzero", "aten::masked_select", "aten::index"}
"""Operators that count first: their kernel reads the arguments behind the wait for the
number of results, once more."""


class Operators:
    """Carries out operators.

    Args:
        world: The device.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        metadata = Metadata(world.runtime.not_modelled)
        self._transfers = Transfers(world)
        self._enqueued = Enqueued(world, metadata)
        moves = Moves(world, self._enqueued, metadata, self._transfers)
        self._rules: dict[str, Callable[..., Any]] = {
            "aten::copy_": moves.copy,
            "aten::_to_copy": moves.to_copy,
            "aten::_local_scalar_dense": self._scalar,
            "aten::resize_": self._resize,
            "aten::_foreach_copy_": moves.foreach_copy,
        }

    def call(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Carry out one operator; torch functions and modes must be off."""
        op = operator(func)
        home = self._world.storages.home
        given = list(tensors(args, kwargs))
        homes = [home(tensor) for _, tensor in given]
        wanted = self._world.wanted() if op.places else None
        if op.places and is_cuda(kwargs.get("device")):
            # From below the Python calls: torch hides modes from what it calls itself,
            # such as the backward of an autograd function.
            wanted = self._world.device_index(kwargs["device"])
            kwargs = kwargs | {"device": _CPU}
            if op.name == "aten::_to_copy":
                with self._world.want(wanted):
                    return self._rules[op.name](op, func, args, kwargs)
        if DEVICE not in homes and wanted in (None, HOST):
            if PINNED in homes and not op.view and op.name not in _METADATA:
                self._touch(op, given, homes)
            return func(*args, **kwargs)
        if op.view or op.name in _METADATA or kwargs.get("device") == _META:
            return func(*args, **kwargs)
        if op.name.startswith(_COLLECTIVES):
            self._world.runtime.not_modelled(
                f"{op.label} (torch.distributed) of tensors of the device"
            )
        rule = self._rules.get(op.name)
        if rule is not None:
            return rule(op, func, args, kwargs)
        if wanted == HOST:
            return func(*replaced(args, _blank), **kwargs)
        if op.name in INDEXED and op.hands_out:
            if not masks(args[1]):
                return self._enqueued.enqueue(op, func, args, kwargs, given, homes)
            if op.name != "aten::index":
                # As `masked_fill_` where the value is one number of the host.
                if args[2].dim() or home(args[2]) == DEVICE:
                    self._world.wait(op.label, self._enqueued.stream_of(given, homes))
                return self._enqueued.enqueue(op, func, args, kwargs, given, homes)
        if op.hands_out:
            return self._read(op, func, args, kwargs, given, homes)
        return self._enqueued.enqueue(op, func, args, kwargs, given, homes)

    def custom(
        self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> torch.DispatchKeySet | None:
        """Return the key of an operator's body, if it is a package's; see `call`."""
        if custom_operators.of_torch(func):
            return None
        given = list(tensors(args, kwargs))
        homes = [self._world.storages.home(tensor) for _, tensor in given]
        if DEVICE in homes or not homes:
            return custom_operators.key(func, on_device=True)
        if PINNED in homes:  # a body in C++ calls nothing that would tell of it
            self._touch(operator(func), given, homes)
        return custom_operators.key(func, on_device=False)

    def _read(
        self,
        op: Operator,
        func: Any,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        given: list[tuple[int | str, torch.Tensor]],
        homes: list[int],
    ) -> Any:
        """Carry out an operator that the host waits for, then place its results."""
        world = self._world
        same_device(op, world, given, homes)
        stream, site = self._enqueued.stream_of(given, homes), here()
        keep = self._enqueued.keep
        raw, named = (
            replaced(args, keep),
            {k: replaced(v, keep) for k, v in kwargs.items()},
        )
        got: list[Any] = []

        def run() -> None:
            with plain(), blamed(op, site):
                got.append(func(*raw, **named))

        reads, writes = effects(op, given, homes)
        world.runtime.enqueue(
            kind="torch",
            label=op.label,
            stream=stream,
            reads=reads,
            writes=writes,
            run=run,
            site=site,
            # How many there are has to reach the host.
            seconds=estimate("torch", reads, writes) + LINK_START,
        )
        world.wait(op.label, stream, site=site)
        note(world, got[0], next((t for _, t in given), None))

        def place(value: torch.Tensor) -> torch.Tensor:
            again = reads if op.name in _COUNTED else ()
            return self._transfers.place(value, stream, op.label, site, again)

        result = replaced(got[0], place)
        return tuple(result) if isinstance(got[0], tuple) else result

    def _scalar(
        self, op: Operator, func: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        world = self._world
        stream, site = world.current(world.where(args[0])), here()
        raw = world.storages.raw(args[0])
        got: list[Any] = []

        def run() -> None:
            with plain():
                got.append(func(raw))

        world.runtime.enqueue(
            kind="copy",
            label=op.label,
            stream=stream,
            reads=spans(args[0]),
            run=run,
            site=site,
        )
        world.wait(op.label, stream, site=site)
        note(world, got[0], args[0])
        return got[0]

    def _resize(
        self, op: Operator, func: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> torch.Tensor:
        tensor: torch.Tensor = args[0]
        meta = Meta(torch.empty(tuple(args[1]), dtype=tensor.dtype, device="meta"))
        stream = self._world.current(self._world.where(tensor))
        self._enqueued.reshape(tensor, meta, stream, op.label)
        return tensor

    def _touch(
        self,
        op: Operator,
        given: list[tuple[int | str, torch.Tensor]],
        homes: list[int],
    ) -> None:
        """Tell the runtime which pinned bytes a host operator touches."""
        for (key, tensor), home in zip(given, homes, strict=True):
            if home != PINNED:
                continue
            for span in spans(tensor):
                if key not in op.unread:
                    self._world.runtime.host_access(span, write=False, label=op.label)
                if key in op.written:
                    self._world.runtime.host_access(span, write=True, label=op.label)


def _blank(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(
        tuple(tensor.shape), tuple(tensor.stride()), dtype=tensor.dtype
    )


_META = torch.device("meta")
_CPU = torch.device("cpu")
