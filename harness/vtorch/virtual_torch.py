"""The virtual device in place: while entered, torch has CUDA."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sidestream.harness.runtime import Landing, Runtime, Stream
from sidestream.harness.vtorch.calls import CallMode, Calls
from sidestream.harness.vtorch.operators import Operators
from sidestream.harness.vtorch.segments import Segments
from sidestream.harness.vtorch.surface import changes
from sidestream.harness.vtorch.world import World

if TYPE_CHECKING:
    from sidestream.harness.dsl.activation import Activation
    from sidestream.harness.dsl.chip import Chip


class VirtualTorch:
    """A CUDA device for torch, as long as entered.

    Operators land late; leaving does not land what is pending (`runtime.drain`).

    Args:
        chip: What the device is.
        landing: When operations land.
        activation: The virtual device that compiled kernels launch on, if there is
            one: its DLPack consumers then see device memory and the current stream.
        memory_bytes: Size of device memory; that of the chip if absent.
    """

    def __init__(
        self,
        chip: Chip,
        *,
        landing: Landing | None = None,
        activation: Activation | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        segments = Segments()
        self.runtime = Runtime(
            landing=landing,
            torch_version=_torch_version(),
            memory_bytes=memory_bytes or chip.memory_bytes,
            backing=segments,
        )
        self.world = World(self.runtime, segments, chip)
        self._activation = activation
        self._operators = Operators(self.world)
        self._calls = Calls(self.world)
        self._stack: ExitStack | None = None

    def __enter__(self) -> VirtualTorch:
        stack = ExitStack()
        world = self.world
        if self._activation is not None:
            native = self._activation.runtime
            stack.callback(native.device_ranges, [])
            stack.callback(native.current_stream, 0)
            world.segments.changed = self._publish
            world.stream_changed = self._follow
            self._publish()
            self._follow(world.current())
        for owner, name, value in changes(world):
            stack.enter_context(mock.patch.object(owner, name, value, create=True))
        stack.enter_context(
            mock.patch.object(torch.Tensor, "record_stream", self._record_stream())
        )
        start = threading.Thread.start
        stack.enter_context(
            mock.patch.object(threading.Thread, "start", self._starter(start))
        )
        stack.enter_context(self.modes())
        self._stack = stack
        return self

    def _record_stream(self) -> Callable[[torch.Tensor, Any], None]:
        def record_stream(value: torch.Tensor, stream: Any) -> None:
            self._calls.record_stream(value, stream)

        return record_stream

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._stack is not None:
            self._stack.__exit__(kind, error, trace)
            self._stack = None

    @contextmanager
    def modes(self) -> Iterator[None]:
        """Let the calling thread's calls of torch reach the device."""
        with _OperatorMode(self._operators), CallMode(self._calls):
            yield

    def _starter(
        self, start: Callable[[threading.Thread], None]
    ) -> Callable[[threading.Thread], None]:
        """Threads have modes of their own: give new ones those of the device."""

        def started(thread: threading.Thread) -> None:
            inner = thread.run

            def run() -> None:
                with self.modes():
                    inner()

            thread.run = run  # type: ignore[method-assign]  # this object's only
            start(thread)

        return started

    def _publish(self) -> None:
        if self._activation is not None:
            self._activation.runtime.device_ranges(self.world.segments.ranges())

    def _follow(self, stream: Stream) -> None:
        if self._activation is not None:
            self._activation.runtime.current_stream(stream.handle)


class _DeviceOperators:
    """Sends operators to `Operators`.

    Apart from the mode: torch wraps an operator hook that a mode defines itself, and
    the wrapper imports all of torch._dynamo, seconds that no eager call needs.
    """

    _operators: Operators

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        with torch._C.DisableTorchFunction():
            return self._operators.call(func, args, kwargs or {})


class _OperatorMode(_DeviceOperators, TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, operators: Operators) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._operators = operators


def _torch_version() -> tuple[int, int]:
    major, minor = torch.__version__.split("+")[0].split(".")[:2]
    return int(major), int(minor)
