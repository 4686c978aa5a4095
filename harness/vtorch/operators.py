"""Operators on device tensors: called now, landing later.

Below autograd every operator arrives here. Views are made at once: they touch no data.
An operator whose result shows data to the host waits for the stream. For all others
the result is allocated and returned, and the CPU kernel runs on it at the landing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from sidestream.harness.runtime import (
    CallSite,
    Effects,
    Span,
    Stream,
    here,
)
from sidestream.harness.runtime.op import Run
from sidestream.harness.runtime.timeline import LINK_START, estimate
from sidestream.harness.vtorch.metadata import Meta, Metadata
from sidestream.harness.vtorch.operands import INDEXED, effects, fresh, same_device
from sidestream.harness.vtorch.operator_schema import (
    Operator,
    masks,
    operator,
    replaced,
    tensors,
)
from sidestream.harness.vtorch.results import blamed, put, write_into
from sidestream.harness.vtorch.shown import note
from sidestream.harness.vtorch.storages import DEVICE, PINNED
from sidestream.harness.vtorch.tensor_spans import spans, spans_of
from sidestream.harness.vtorch.touched import changes, indexed, touched
from sidestream.harness.vtorch.transfers import Transfers
from sidestream.harness.vtorch.world import HOST, World, is_cuda, plain

_METADATA = {
    *("aten::is_same_size", "aten::is_set_to", "aten::is_pinned"),
    *("aten::_has_compatible_shallow_copy_type", "aten::set_"),
    *("aten::_version", "aten::sym_size", "aten::sym_numel"),
}

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
        self._metadata = Metadata()
        self._transfers = Transfers(world)
        self._rules: dict[str, Callable[..., Any]] = {
            "aten::copy_": self._copy,
            "aten::_to_copy": self._to_copy,
            "aten::_local_scalar_dense": self._scalar,
            "aten::resize_": self._resize,
            "aten::_foreach_copy_": self._foreach_copy,
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
                    return self._to_copy(op, func, args, kwargs)
        if DEVICE not in homes and wanted in (None, HOST):
            if PINNED in homes and not op.view and op.name not in _METADATA:
                self._touch(op, given, homes)
            return func(*args, **kwargs)
        if op.view or op.name in _METADATA or kwargs.get("device") == _META:
            return func(*args, **kwargs)
        rule = self._rules.get(op.name)
        if rule is not None:
            return rule(op, func, args, kwargs)
        if wanted == HOST:
            return func(*replaced(args, _blank), **kwargs)
        if op.name in INDEXED and op.hands_out:
            if not masks(args[1]):
                return self._enqueue(op, func, args, kwargs, given, homes)
            if op.name != "aten::index":
                # As `masked_fill_` where the value is one number of the host.
                if args[2].dim() or home(args[2]) == DEVICE:
                    self._world.wait(op.label, self._stream(given, homes))
                return self._enqueue(op, func, args, kwargs, given, homes)
        if op.hands_out:
            return self._read(op, func, args, kwargs, given, homes)
        return self._enqueue(op, func, args, kwargs, given, homes)

    def _stream(
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

    def _enqueue(
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
        stream = self._stream(given, homes, world.wanted() if op.places else None)
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
                self._reshape(changed, meta, stream, op.label)
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
        keep = self._keep
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
        return self._drawn(op, func, args, kwargs, into, run, stream)

    def _exactly(
        self,
        op: Operator,
        args: Sequence[Any],
        run: Run,
        rest: tuple[list[Span], list[Span]],
        made: tuple[Span, ...],
    ) -> Run:
        """Let an operator with indices tell which part of its tensor it touched."""
        raw = replaced(args, self._keep)

        def landed() -> Effects:
            with plain():
                part = touched(op.name, raw)
            run()
            if changes(op.name):
                return Effects(reads=tuple(rest[0]), writes=part)
            return Effects(reads=(*rest[0], *part), writes=made)

        return landed

    def _drawn(
        self,
        op: Operator,
        func: Any,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        into: list[torch.Tensor],
        run: Run,
        stream: Stream,
    ) -> Run:
        """Let a random operator draw its numbers now; in a graph, at every replay."""
        world = self._world
        generators = world.generators
        if world.runtime.capturing(stream) != "none":

            def replay() -> None:
                with generators.drawing(stream.device):
                    run()

            return replay
        read = [t for key, t in tensors(args, kwargs) if key not in op.unread]
        if read:
            if kwargs.get("generator") is not None:
                kwargs["generator"] = _branch(kwargs["generator"])
                return run
            state = generators.branch(stream.device)

            def later() -> None:
                with plain(), generators.drawing_from(state):
                    run()

            return later
        changed = [t for key, t in tensors(args, kwargs) if key in op.written]
        blanks = {id(t): torch.empty_like(t) for _, t in tensors(args, kwargs)}
        with plain(), generators.drawing(stream.device):
            got = func(
                *replaced(args, lambda t: blanks[id(t)]),
                **{k: replaced(v, lambda t: blanks[id(t)]) for k, v in kwargs.items()},
            )
        targets = changed or into
        drawn = [blanks[id(t)] for t in changed] or [got]

        def place() -> None:
            with plain():
                for target, value in zip(targets, drawn, strict=True):
                    put(target, value)

        return place

    def _keep(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor for later: raw device memory, or a copy of a host value."""
        if self._world.storages.home(tensor) == DEVICE:
            return self._world.storages.raw(tensor)
        return tensor.clone()

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
        stream, site = self._stream(given, homes), here()
        keep = self._keep
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

    def _copy(
        self, op: Operator, func: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> torch.Tensor:
        target: torch.Tensor = args[0]
        source: torch.Tensor = args[1]
        waits = not (args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        home = self._world.storages.home
        if home(target) == home(source) == DEVICE:
            if self._world.where(target) != self._world.where(source):
                self._transfers.across(target, source, label=op.label)
                return target
            given = list(tensors(args, kwargs))
            homes = [DEVICE, DEVICE]
            result: torch.Tensor = self._enqueue(op, func, args, kwargs, given, homes)
            return result
        if target.shape != source.shape:
            source = source.expand(target.shape)
        self._transfers.copy(target, source, waits=waits, label=op.label)
        return target

    def _foreach_copy(
        self, op: Operator, func: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        for target, source in zip(args[0], args[1], strict=True):
            self._copy(_COPY, _COPY_CALL, (target, source, *args[2:]), kwargs)

    def _to_copy(
        self, op: Operator, func: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> torch.Tensor:
        world = self._world
        source: torch.Tensor = args[0]
        kwargs = {k: v for k, v in kwargs.items() if k not in ("device", "pin_memory")}
        asynchronous = bool(kwargs.pop("non_blocking", False))
        there = world.storages.home(source) == DEVICE
        here_on = world.where(source) if there else HOST
        wanted = world.wanted()
        wanted = here_on if wanted is None else wanted
        if there and wanted == here_on:
            given, homes = [(0, source)], [DEVICE]
            result: torch.Tensor = self._enqueue(op, func, args, kwargs, given, homes)  # type: ignore[arg-type]
            return result
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
        self._reshape(tensor, meta, stream, op.label)
        return tensor

    def _reshape(
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
            self._copy(_COPY, _COPY_CALL, args, {})

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


def _branch(generator: torch.Generator) -> torch.Generator:
    made = torch.Generator()
    made.set_state(generator.get_state())
    torch.empty(1).uniform_(generator=generator)
    return made


_META = torch.device("meta")
_CPU = torch.device("cpu")
_COPY_CALL = torch.ops.aten.copy_.default
_COPY = operator(_COPY_CALL)
