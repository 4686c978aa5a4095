"""State of one virtual device as torch sees it: current streams, memory, generators."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

from sidestream.harness.runtime import CallSite, CudaError, Runtime, Stream, here
from sidestream.harness.vtorch.backward import BackwardStreams
from sidestream.harness.vtorch.generators import Generators
from sidestream.harness.vtorch.segments import Segments
from sidestream.harness.vtorch.storages import Storages

if TYPE_CHECKING:
    from sidestream.harness.dsl.chip import Chip

DEVICE = torch.device("cuda:0")
DEFAULT, WARN, ERROR = 0, 1, 2
"""Values of `torch.cuda.get_sync_debug_mode`."""


class _Thread(threading.local):
    stream: Stream | None = None
    handle: int = 0
    wanted: str | None = None


class World:
    """One device.

    Args:
        runtime: Where operations go; its backing must be `segments`.
        segments: Memory of the runtime.
        chip: What the device is.
        storages: Makes what gives tensors their memory.
    """

    def __init__(
        self,
        runtime: Runtime,
        segments: Segments,
        chip: Chip,
        storages: Callable[[Runtime, Segments], Storages] = Storages,
    ) -> None:
        self.runtime = runtime
        self.segments = segments
        self.chip = chip
        self.storages = storages(runtime, segments)
        self.generators = Generators()
        self.sync_debug = DEFAULT
        self.crossing = False
        """Whether another stream than the default one was ever current."""
        self.stream_changed: Callable[[int], None] = lambda handle: None
        """Called when a thread's current stream changes, with its raw handle."""
        self.seen: Callable[[], AbstractContextManager[object]] = nullcontext
        """Lets the calling thread's Python calls of torch reach the device inside."""
        self.backward = BackwardStreams(self)
        self._default = runtime.stream(0)
        self._thread = _Thread()

    def current(self) -> Stream:
        """Return the calling thread's current stream; that of the forward in backward.

        An operator of autograd runs on the stream that its forward ran on ("CUDA
        semantics: Stream semantics of backward passes").
        """
        node: Any = torch._C._current_autograd_node()
        if node is not None:
            return self.backward.stream_of(node)
        return self._thread.stream or self._default

    def chosen(self) -> Stream:
        """Return the stream that the calling thread has set."""
        return self._thread.stream or self._default

    def handle(self) -> int:
        """Return the raw handle of the current stream, as it was given."""
        current = self.current()
        if current is self._thread.stream:
            return self._thread.handle
        return current.handle

    def chosen_handle(self) -> int:
        """Return the raw handle of the stream that the calling thread has set."""
        return self._thread.handle if self._thread.stream is not None else 0

    def choose(self, stream: Stream, *, handle: int | None = None) -> None:
        """Make a stream the calling thread's current one.

        Args:
            stream: The stream.
            handle: The raw handle that it was named by; 1 names the stream 0 as well.
        """
        handle = stream.handle if handle is None else handle
        self._thread.stream, self._thread.handle = stream, handle
        self.crossing = self.crossing or stream is not self._default
        self.backward.note(stream)
        self.stream_changed(handle)

    @contextmanager
    def innermost(self) -> Iterator[None]:
        """Let `innermost_handle` answer for this device inside."""
        _entered.append(self)
        try:
            yield
        finally:
            _entered.remove(self)

    @property
    def default(self) -> Stream:
        """The legacy default stream."""
        return self._default

    def wanted(self) -> str | None:
        """Return the device type that the call under way names: `cuda`, `cpu`, None."""
        return self._thread.wanted

    @contextmanager
    def want(self, kind: str | None) -> Iterator[None]:
        """Let factories and conversions inside make tensors of a device type."""
        before, self._thread.wanted = self._thread.wanted, kind
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
            CudaError: cudaErrorInvalidDevice for any other than device 0.
            ValueError: for one that is no CUDA device.
        """
        if isinstance(device, str):
            device = torch.device(device)
        if isinstance(device, torch.device):
            if device.type != "cuda":
                raise ValueError(f"Expected a cuda device, but got: {device}")
            device = device.index
        if device in (None, -1, 0):
            return 0
        raise CudaError(
            "cudaErrorInvalidDevice",
            f"invalid device ordinal {device}: the virtual GPU has device 0 only",
        )


_entered: list[World] = []


def innermost_handle(device: int = 0) -> int:
    """Return the raw handle of the current stream of the device entered last.

    Packages keep the function they ask for it, so that one function has to answer for
    every device that comes later.
    """
    return _entered[-1].handle() if _entered else 0


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
