"""The virtual device in place: while entered, torch has CUDA."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    nullcontext,
)
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import TorchDispatchMode

from sidestream.harness.runtime import Landing, Runtime
from sidestream.harness.runtime.contexts import Contexts
from sidestream.harness.vtorch.attributes import Change, replaced_attributes
from sidestream.harness.vtorch.calls import CallMode, Calls
from sidestream.harness.vtorch.operators import Operators
from sidestream.harness.vtorch.segments import Segments
from sidestream.harness.vtorch.storages import Storages
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
        devices: How many there are, all of this chip.
        torch_version: Whose `ExternalStream(0)` it has; this torch's if absent.
        storages: Makes what gives tensors their memory; the runtime's caching
            allocator does if absent.
    """

    def __init__(
        self,
        chip: Chip,
        *,
        landing: Landing | None = None,
        activation: Activation | None = None,
        memory_bytes: int | None = None,
        devices: int = 1,
        torch_version: tuple[int, int] | None = None,
        storages: Callable[[Runtime, Segments], Storages] = Storages,
    ) -> None:
        segments = Segments()
        self.runtime = Runtime(
            devices=devices,
            landing=landing,
            torch_version=torch_version or _torch_version(),
            memory_bytes=memory_bytes or chip.memory_bytes,
            backing=segments,
        )
        self.contexts = Contexts(self.runtime, devices)
        self.world = World(self.runtime, segments, chip, self.contexts, storages)
        self._activation = activation
        self._operators = Operators(self.world)
        self._calls = Calls(self.world)
        self.world.seen = self._calls_seen
        self._stack: ExitStack | None = None

    def __enter__(self) -> Self:
        stack = ExitStack()
        world = self.world
        if self._activation is not None:
            native = self._activation.runtime
            stack.callback(native.device_ranges, [])
            stack.callback(native.show_devices, None)
            native.show_devices(self.contexts)
            for index in range(world.devices):
                stack.callback(native.current_stream, index, 0)
            world.segments.changed = self.publish
            world.stream_changed = native.current_stream
            self.publish()
            for index in range(world.devices):
                native.current_stream(index, world.handle(index))
        stack.enter_context(replaced_attributes(self.changes()))
        stack.enter_context(world.innermost())
        stack.enter_context(self.modes())
        self._stack = stack
        return self

    def changes(self) -> Iterator[Change]:
        """Yield everything that is replaced while entered."""
        yield from changes(self.world)
        yield torch.Tensor, "record_stream", self._record_stream()
        yield threading.Thread, "start", self._starter(threading.Thread.start)

    def ranges(self) -> list[tuple[int, int, int]]:
        """Return (start, end, index of the device) of all device memory."""
        return self.world.segments.ranges()

    def publish(self) -> None:
        """Tell the native side which addresses are device memory now."""
        if self._activation is not None:
            self._activation.runtime.device_ranges(self.ranges())

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
        with _OperatorMode(self._operators, self.modes), CallMode(self._calls):
            yield

    def _calls_seen(self) -> AbstractContextManager[object]:
        """See calls inside, also where torch hides the mode: within `backward`."""
        stack: list[object] = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
        if any(isinstance(mode, CallMode) for mode in stack):
            return nullcontext()
        return CallMode(self._calls)

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


class _DeviceOperators:
    """Sends operators to `Operators`.

    Apart from the mode: torch wraps an operator hook that a mode defines itself, and
    the wrapper imports all of torch._dynamo, seconds that no eager call needs.
    """

    _operators: Operators
    _modes: Callable[[], AbstractContextManager[object]]

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunction():
            key = self._operators.custom(func, args, kwargs)
            if key is None:
                return self._operators.call(func, args, kwargs)
        with self._modes():
            return func.redispatch(key, *args, **kwargs)


class _OperatorMode(_DeviceOperators, TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(
        self,
        operators: Operators,
        modes: Callable[[], AbstractContextManager[object]],
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._operators = operators
        self._modes = modes


def _torch_version() -> tuple[int, int]:
    major, minor = torch.__version__.split("+")[0].split(".")[:2]
    return int(major), int(minor)
