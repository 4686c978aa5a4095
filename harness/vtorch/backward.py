"""Streams of the backward pass: each node runs where its forward ran.

Rules: torch notes, "CUDA semantics: Stream semantics of backward passes". The engine
lets a node wait for the streams that its gradients come from, and at the end the
caller's current stream wait for every stream on which gradients were accumulated.
Here a node waits for all streams that the pass has used before it.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from sidestream.harness.runtime import Stream

if TYPE_CHECKING:
    from sidestream.harness.vtorch.world import World

_ACCUMULATE = 1 << 62
"""Nodes without a forward of their own have a sequence number beyond this."""


class _Thread(threading.local):
    def __init__(self) -> None:
        self.noted: dict[int, tuple[list[int], list[Stream]]] = {}
        """By device: from which sequence number on a stream was current there."""
        self.passes: list[list[Stream]] = []


class BackwardStreams:
    """Knows by its sequence number which stream a node's forward ran on.

    Args:
        world: The device.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._thread = _Thread()

    def note(self, stream: Stream) -> None:
        """Take note that nodes made from now on belong to a stream."""
        numbers, streams = self._thread.noted.setdefault(stream.device, ([], []))
        if streams and streams[-1] is stream:
            return
        number = torch._C._autograd._get_sequence_nr()
        if numbers and numbers[-1] == number:
            streams[-1] = stream
        else:
            numbers.append(number)
            streams.append(stream)

    def stream_of(self, node: Any, device: int) -> Stream:
        """Return a device's stream for a node that runs now, behind its inputs."""
        thread, world = self._thread, self._world
        if not thread.noted and world.devices == 1:
            return world.chosen(device)
        numbers, streams = thread.noted.get(device, ([], []))
        used = thread.passes[-1] if thread.passes else []
        number = node._sequence_nr()
        if number > _ACCUMULATE:
            here = [stream for stream in used if stream.device == device]
            stream = here[-1] if here else world.chosen(device)
            if world.devices == 1:
                return stream
        else:
            index = bisect_right(numbers, number) - 1
            stream = streams[index] if index >= 0 else world.default(device)
        if used and used[-1] is not stream:
            for other in used:
                if other is not stream:
                    self._world.runtime.wait_stream(stream, other)
            if stream in used:
                used.remove(stream)
            used.append(stream)
        return stream

    def engine(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the call of the autograd engine."""

        def call(*args: Any, **kwargs: Any) -> Any:
            caller = self._world.current()
            used = [caller]
            self._thread.passes.append(used)
            try:
                with self._world.seen():
                    return run(*args, **kwargs)
            finally:
                self._thread.passes.pop()
                for other in used:
                    own = caller
                    if other.device != caller.device:
                        own = self._world.chosen(other.device)
                    if other is not own:
                        self._world.runtime.wait_stream(own, other)

        return call
