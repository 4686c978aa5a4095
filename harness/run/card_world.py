"""A real GPU in the terms that drivers know: chip, stream, memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import torch

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.dsl.on_card import OnCard, watch_dsl

T = TypeVar("T")
GUARD = 4096
"""Bytes around every tensor of a call; a multiple of every alignment asked for."""
GUARD_BYTE = 0xC7


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
        return make()

    def stall(self, cycles: int) -> None:
        """Let the current stream spin for some clock cycles before what follows."""
        spin: Any = torch.cuda._sleep
        spin(cycles)

    def capture(self, call: Callable[[], T]) -> tuple[Callable[[], None], T]:
        """Capture a call on the stream; return what replays it there, and its result.

        Raises:
            RuntimeError: something in it cannot be captured.
        """
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            result = call()

        def replay() -> None:
            with self.on(self.stream):
                graph.replay()

        return replay, result

    def wait(self) -> None:
        """Wait for the device; raises what it has to complain about."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def current_world(*, side: bool) -> CardWorld:
    """Return the current card, with a stream of its own or the default one."""
    make: Any = torch.cuda.Stream
    stream = make() if side else torch.cuda.default_stream()
    arch = card_arch() or ""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return CardWorld(
        device=torch.device("cuda", torch.cuda.current_device()),
        stream=stream,
        dsl=watch_dsl(arch=arch),
        chip=Card(arch=arch, sms=properties.multi_processor_count),
    )
