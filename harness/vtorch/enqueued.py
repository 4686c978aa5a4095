"""Operators that land later: results are allocated now, and filled at the landing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sidestream.harness.runtime import CallSite, Effects, Span, Stream, here
from sidestream.harness.runtime.op import Run
from sidestream.harness.vtorch.drawn import drawn
from sidestream.harness.vtorch.metadata import Meta, Metadata
from sidestream.harness.vtorch.operands import effects, fresh, same_device
from sidestream.harness.vtorch.operator_schema import (
    Operator,
    operator,
    replaced,
    tensors,
)
from sidestream.harness.vtorch.results import blamed, put, write_into
from sidestream.harness.vtorch.storages import DEVICE
from sidestream.harness.vtorch.tensor_spans import spans_of
from sidestream.harness.vtorch.touched import changes, indexed, touched
from sidestream.harness.vtorch.world import World, plain

COPY_CALL = torch.ops.aten.copy_.default
COPY = operator(COPY_CALL)
"""A copy, for operators that need one of their own."""


class Enqueued:
    """Puts operators on streams.

    Args:
        world: The device.
        metadata: Tells extents of results.
    """

    def __init__(self, world: World, metadata: Metadata) -> None:
        self._world = world
        self._metadata = metadata

    def enqueue(
        self,
        op: Operator,
        func: Any,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        given: list[tuple[int | str, torch.Tensor]],
        homes: list[int],
    ) -> Any:
        """Allocate the results of an operator, and let it fill them when it lands."""
        world = self._world
        if DEVICE in homes:  # else a factory, after the example of a host tensor
            same_device(op, world, given, homes)
        stream = self.stream_of(given, homes, world.wanted() if op.places else None)
        site = here()
        result = self._metadata.of(func, args, kwargs) if op.makes else None
        made: list[torch.Tensor] = []
        single = len(op.returns) == 1
        metas = [result] if single else list(result or op.returns)
        results = []
        for meta, key in zip(metas, op.returns, strict=True):
            if key is None:
                results.append(self._real(meta, made, stream, op.label, site))
                continue
            changed = kwargs[key] if isinstance(key, str) else args[key]
            if isinstance(meta, Meta) and tuple(changed.shape) != meta.size:
                self.reshape(changed, meta, stream, op.label)
            results.append(changed)
        if not op.empty:
            reads, writes = effects(op, given, homes)
            run = self._runner(op, func, args, kwargs, made, stream, site)
            if world.crossing and homes[:1] == [DEVICE] and indexed(op.name, args):
                rest = effects(op, given[1:], homes[1:])
                run = self._exactly(op, args, run, rest, spans_of(made))
            world.runtime.enqueue(
                kind=op.kind,
                label=op.label,
                stream=stream,
                reads=reads,
                writes=(*writes, *spans_of(made)),
                run=run,
                site=site,
            )
        if single:
            return results[0]
        return tuple(results) if results else None

    def stream_of(
        self,
        given: list[tuple[int | str, torch.Tensor]],
        homes: list[int],
        wanted: int | None = None,
    ) -> Stream:
        """Return the stream of an operator: the current one of its tensors' device.

        Not of the current device (torch notes, "CUDA semantics"). A factory has the
        device that it makes its tensor for.
        """
        if self._world.devices == 1:
            return self._world.current(0)
        if wanted is not None:
            return self._world.current(wanted)
        on = (t for (_, t), home in zip(given, homes, strict=True) if home == DEVICE)
        first = next(on, None)
        return self._world.current(None if first is None else self._world.where(first))

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor for later: raw device memory, or a copy of a host value."""
        if self._world.storages.home(tensor) == DEVICE:
            return self._world.storages.raw(tensor)
        return tensor.clone()

    def reshape(
        self, tensor: torch.Tensor, meta: Meta, stream: Stream, label: str
    ) -> None:
        """Give a tensor other extents, and more memory where it has too little."""
        held = tensor.untyped_storage().nbytes()
        made = self._world.storages.device(
            meta.dtype, meta.size, meta.stride, stream=stream, label=label
        )
        if made.untyped_storage().nbytes() <= held and tensor.numel():
            storage, offset = tensor.untyped_storage(), tensor.storage_offset()
            tensor.set_(storage, offset, meta.size, meta.stride)
            return
        old = tensor.detach()
        tensor.set_(made.untyped_storage(), 0, meta.size, meta.stride)
        if old.numel():
            kept = torch.as_strided(tensor, (old.numel(),), (1,))
            args = (kept, torch.as_strided(old, (old.numel(),), (1,)))
            given, homes = list(tensors(args, {})), [DEVICE, DEVICE]
            self.enqueue(COPY, COPY_CALL, args, {}, given, homes)

    def _real(
        self,
        meta: Any,
        made: list[torch.Tensor],
        stream: Stream,
        label: str,
        site: CallSite,
    ) -> Any:
        """Allocate what a result consists of; add the tensors to `made`.

        Not a function inside: one that calls itself would keep them alive in a cycle.
        """
        if isinstance(meta, Meta):
            new = self._world.storages.device(
                meta.dtype,
                meta.size,
                meta.stride,
                stream=stream,
                label=label,
                site=site,
            )
            made.append(new)
            return new
        if isinstance(meta, list):
            return [self._real(item, made, stream, label, site) for item in meta]
        return meta

    def _runner(
        self,
        op: Operator,
        func: Any,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        made: list[torch.Tensor],
        stream: Stream,
        site: CallSite,
    ) -> Run:
        """Return what carries an operator out on raw memory."""
        keep = self.keep
        args = replaced(args, keep)
        kwargs = {name: replaced(value, keep) for name, value in kwargs.items()}
        if "device" in kwargs:
            kwargs["device"] = torch.device("cpu")
        into = [keep(tensor) for tensor in made]

        def run() -> None:
            with plain(), blamed(op, site):
                if len(into) == 1 and write_into(func, args, kwargs, into[0]):
                    return
                got = func(*args, **kwargs)
                for target, value in zip(into, fresh(op, got), strict=True):
                    put(target, value)

        if not op.random:
            return run
        return drawn(self._world, op, func, args, kwargs, into, run, stream)

    def _exactly(
        self,
        op: Operator,
        args: Sequence[Any],
        run: Run,
        rest: tuple[list[Span], list[Span]],
        made: tuple[Span, ...],
    ) -> Run:
        """Let an operator with indices tell which part of its tensor it touched."""
        raw = replaced(args, self.keep)

        def landed() -> Effects:
            with plain():
                part = touched(op.name, raw)
            run()
            if changes(op.name):
                return Effects(reads=tuple(rest[0]), writes=part)
            return Effects(reads=(*rest[0], *part), writes=made)

        return landed
