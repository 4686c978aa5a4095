"""State of the virtual devices as torch sees it: current ones, memory, generators."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

from sidestream.harness.runtime import CallSite, CudaError, Runtime, Stream, here
from sidestream.harness.runtime.contexts import Contexts
from sidestream.harness.vtorch.backward import BackwardStreams
from sidestream.harness.vtorch.generators import Generators
from sidestream.harness.vtorch.segments import Segments
from sidestream.harness.vtorch.storages import Storages

if TYPE_CHECKING:
    from sidestream.harness.dsl.chip import Chip

HOST = -1
"""Stands for the host where the index of a device is asked for."""
DEFAULT, WARN, ERROR = 0, 1, 2
"""Values of `torch.cuda.get_sync_debug_mode`."""


class _Thread(threading.local):
    wanted: int | None = None

    def __init__(self) -> None:
        self.streams: dict[int, tuple[Stream, int]] = {}


class World:
    """The devices of one machine, all of one chip.

    Args:
        runtime: Where operations go; its backing must be `segments`.
        segments: Memory of the runtime.
        chip: What the devices are.
        contexts: The current devices of threads.
        storages: Makes what gives tensors their memory.
    """

    def __init__(
        self,
        runtime: Runtime,
        segments: Segments,
        chip: Chip,
        contexts: Contexts,
        storages: Callable[[Runtime, Segments], Storages] = Storages,
    ) -> None:
        self.runtime = runtime
        self.segments = segments
        self.chip = chip
        self.contexts = contexts
        self.devices = contexts.devices
        self.storages = storages(runtime, segments)
        self.generators = Generators(self.devices, self.device)
        self.sync_debug = DEFAULT
        self.crossing = False
        """Whether another stream than the default one was ever current."""
        self.stream_changed: Callable[[int, int], None] = lambda device, handle: None
        """Called when a thread's current stream of a device changes, with the index of
        the device and the stream's raw handle."""
        self.seen: Callable[[], AbstractContextManager[object]] = nullcontext
        """Lets the calling thread's Python calls of torch reach the device inside."""
        self.backward = BackwardStreams(self)
        self._defaults = [runtime.stream(0, device=d) for d in range(self.devices)]
        self._thread = _Thread()

    def device(self) -> int:
        """Return the index of the calling thread's current device."""
        return self.contexts.device() if self.devices > 1 else 0

    def current(self, device: int | None = None) -> Stream:
        """Return the calling thread's current stream; that of the forward in backward.

        An operator of autograd runs on the stream that its forward ran on ("CUDA
        semantics: Stream semantics of backward passes").

        Args:
            device: Index of the device, the current one if absent.
        """
        device = self.device() if device is None else device
        node: Any = torch._C._current_autograd_node()
        if node is not None:
            return self.backward.stream_of(node, device)
        return self.chosen(device)

    def chosen(self, device: int) -> Stream:
        """Return the stream of a device that the calling thread has set."""
        set_here = self._thread.streams.get(device)
        return self._defaults[device] if set_here is None else set_here[0]

    def handle(self, device: int | None = None) -> int:
        """Return the raw handle of the current stream, as it was given."""
        device = self.device() if device is None else device
        current = self.current(device)
        if current is self.chosen(device):
            return self.chosen_handle(device)
        return current.handle

    def chosen_handle(self, device: int) -> int:
        """Return the raw handle of the stream that the calling thread has set."""
        set_here = self._thread.streams.get(device)
        return 0 if set_here is None else set_here[1]

    def choose(self, stream: Stream, *, handle: int | None = None) -> None:
        """Make a stream the calling thread's current one of its device.

        Args:
            stream: The stream.
            handle: The raw handle that it was named by; 1 names the stream 0 as well.
        """
        handle = stream.handle if handle is None else handle
        self._thread.streams[stream.device] = stream, handle
        self.crossing = self.crossing or stream is not self._defaults[0]
        self.backward.note(stream)
        self.stream_changed(stream.device, handle)

    def set_device(self, device: int) -> None:
        """Make a device the calling thread's current one.

        Raises:
            CudaError: cudaErrorInvalidDevice.
        """
        self.crossing = self.crossing or device != 0
        self.contexts.set_device(device)

    @contextmanager
    def innermost(self) -> Iterator[None]:
        """Let `innermost_handle` answer for this device inside."""
        _entered.append(self)
        try:
            yield
        finally:
            _entered.remove(self)

    def default(self, device: int) -> Stream:
        """Return the legacy default stream of a device."""
        return self._defaults[device]

    def wanted(self) -> int | None:
        """Return the index of the device that the call under way names, or `HOST`.

        None where it names none.
        """
        return self._thread.wanted

    @contextmanager
    def want(self, device: int | None) -> Iterator[None]:
        """Let factories and conversions inside make tensors for a device or `HOST`."""
        before, self._thread.wanted = self._thread.wanted, device
        try:
            yield
        finally:
            self._thread.wanted = before

    def wait(self, call: str, stream: Stream, *, site: CallSite | None = None) -> None:
        """Let the host wait for a stream because an operator has to.

        Raises:
            RuntimeError: if `torch.cuda.set_sync_debug_mode("error")` is in force.
            CudaError: during a capture.
        """
        self.may_wait(call)
        self.runtime.synchronize_stream(stream, call=call, site=site or here())

    def may_wait(self, call: str) -> None:
        """Tell of a wait of an operator, as `set_sync_debug_mode` says.

        Raises:
            RuntimeError: in the mode `error`.
        """
        if self.sync_debug == ERROR:
            raise RuntimeError(f"called a synchronizing CUDA operation: {call}")
        if self.sync_debug == WARN:
            warnings.warn(
                f"called a synchronizing CUDA operation: {call}", stacklevel=4
            )

    def device_index(self, device: object = None) -> int:
        """Return the index that `device` means; None is the current device.

        Raises:
            CudaError: cudaErrorInvalidDevice for one that is not there.
            ValueError: for one that is no CUDA device.
        """
        if isinstance(device, str):
            device = torch.device(device)
        if isinstance(device, torch.device):
            if device.type != "cuda":
                raise ValueError(f"Expected a cuda device, but got: {device}")
            device = device.index
        if device in (None, -1):
            return self.device()
        if isinstance(device, int) and 0 <= device < self.devices:
            self.crossing = self.crossing or device != 0
            return device
        raise CudaError(
            "cudaErrorInvalidDevice",
            f"invalid device ordinal {device}: there are {self.devices} virtual GPUs; "
            "sidestream run --devices N sets how many",
        )

    def where(self, tensor: torch.Tensor) -> int:
        """Return the index of the device that a tensor of the device lies on."""
        return self.storages.index(tensor) if self.devices > 1 else 0


_entered: list[World] = []


def innermost_handle(device: int = 0) -> int:
    """Return the raw handle of a device's current stream, of the world entered last.

    Packages keep the function they ask for it, so that one function has to answer for
    every world that comes later.
    """
    return _entered[-1].handle(device) if _entered else 0


def is_cuda(device: object) -> bool:
    """Whether a `device` argument names a CUDA device."""
    if isinstance(device, int) and not isinstance(device, bool):
        return True
    if isinstance(device, str):
        return device.split(":")[0] == "cuda"
    return isinstance(device, torch.device) and device.type == "cuda"


@contextmanager
def plain() -> Iterator[None]:
    """Run torch on host memory as if there were no virtual device."""
    with (
        torch._C.DisableTorchFunction(),
        torch._C._DisableTorchDispatch(),
        torch._C._AutoDispatchBelowAutograd(),
    ):
        yield
