"""A real GPU in the terms that drivers know: chip, stream, memory."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.dsl.on_card import OnCard, watch_dsl
from sidestream.harness.run.card_fault import lasting

T = TypeVar("T")
GUARD = 4096
"""Bytes around every tensor of a call; a multiple of every alignment asked for."""
GUARD_BYTE = 0xC7
MOST_BYTES = 1 << 30
"""Memory of a card that is copied for the virtual run of one launch."""
_NON_BLOCKING = 1
"""`CU_STREAM_NON_BLOCKING`."""


def card_arch() -> str | None:
    """Return the PTX target of the current card, e.g. `sm_90a`; None without one."""
    if not torch.cuda.is_available():
        return None
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}a"


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a driver asks about the chip."""

    arch: str
    sms: int


@dataclass(kw_only=True)
class CardWorld:
    """One device and one stream; stands in for `VirtualCuda` where drivers want one.

    Attributes:
        device: Where tensors live.
        stream: The call's stream: has `cuda_stream`.
        chip: Target and multiprocessors.
        table: Host copies of the call's tensors.
        fill: Unused here: fresh memory is the allocator's.
        dsl: Sees the launches of CuTe DSL, or None.
    """

    device: torch.device
    stream: Any
    chip: Card
    table: AllocationTable = field(default_factory=AllocationTable)
    fill: bytes = b""
    dsl: OnCard | None = None

    def publish(self) -> None:
        """Do nothing: real tensors need no announcement."""

    def upload(self, value: torch.Tensor, name: str) -> torch.Tensor:
        """Copy a host tensor to the device."""
        return value.to(self.device)

    def on(self, stream: Any) -> AbstractContextManager[Any]:
        """Make a stream the current one inside."""
        return cast(AbstractContextManager[Any], torch.cuda.stream(stream))

    def another_stream(self) -> Any:
        """Return a stream that nothing orders with the call's."""
        make: Any = torch.cuda.Stream
        other = make()
        while other.cuda_stream == self.stream.cuda_stream:  # they come round again
            other = make()
        return other

    def stall(self, cycles: int) -> None:
        """Let the current stream spin for some clock cycles before what follows."""
        spin: Any = torch.cuda._sleep
        spin(cycles)

    def capture(self, call: Callable[[], T]) -> tuple[Callable[[], None], T]:
        """Capture a call on the stream; return what replays it, and its result.

        A replay goes to the current stream.

        Raises:
            RuntimeError: something in it cannot be captured.
        """
        # `torch.cuda.graph` would collect garbage and empty the cache first: tens of
        # milliseconds that have nothing to do with the capture.
        graph: Any = torch.cuda.CUDAGraph()
        with self.on(self.stream):
            graph.capture_begin()
            try:
                result = call()
            except BaseException:
                with suppress(RuntimeError):
                    graph.capture_end()
                _side_stream.cache_clear()  # nobody knows what state it is in
                raise
            with warnings.catch_warnings():
                # A call without work launches nothing.
                warnings.filterwarnings("ignore", message="The CUDA Graph is empty")
                graph.capture_end()

        return graph.replay, result

    def current_handle(self) -> int:
        """Return the handle of torch's current stream."""
        return int(torch.cuda.current_stream(self.device).cuda_stream)

    def blocking(self, handle: int) -> bool:
        """Tell whether a stream and the default stream order each other.

        Raises:
            OSError: there is no driver to ask.
        """
        flags = ctypes.c_uint(_NON_BLOCKING)
        stream = ctypes.c_void_p(handle)
        ctypes.CDLL("libcuda.so.1").cuStreamGetFlags(stream, ctypes.byref(flags))
        return not flags.value & _NON_BLOCKING

    def memory(self) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """Wait, then yield address and bytes of what torch has allocated on the card.

        Raises:
            MemoryError: it is more than one launch is worth.
        """
        self.wait()
        asked: Any = torch.cuda.memory_snapshot
        blocks = [
            (int(block["address"]), int(block["size"]))
            for segment in asked()
            if segment["device"] == self.device.index
            for block in segment["blocks"]
            if block["state"] == "active_allocated"
        ]
        if sum(size for _, size in blocks) > MOST_BYTES:
            raise MemoryError("too much memory is in use to be copied")
        for address, size in blocks:
            there = torch.as_tensor(_Raw(address, size), device=self.device)
            yield address, there.cpu().numpy()

    def complaint(self) -> str:
        """Return what the device complains about until the process ends, or ""."""
        return lasting(self.wait)

    def wait(self) -> None:
        """Wait for the device; raises what it has to complain about."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


class _Raw:
    """Bytes on the card, for whoever reads the CUDA array interface."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


def current_world(*, side: bool) -> CardWorld:
    """Return the current card, with a stream of its own or the default one."""
    device = torch.device("cuda", torch.cuda.current_device())
    chip = _chip(device)
    return CardWorld(
        device=device,
        stream=_side_stream(device) if side else torch.cuda.default_stream(),
        dsl=watch_dsl(arch=chip.arch),
        chip=chip,
    )


@cache
def _chip(device: torch.device) -> Card:
    properties = torch.cuda.get_device_properties(device)
    return Card(arch=card_arch() or "", sms=properties.multi_processor_count)


@cache
def _side_stream(device: torch.device) -> Any:
    """Return a stream for all cases: memory freed on one serves no other."""
    make: Any = torch.cuda.Stream
    return make(device)
