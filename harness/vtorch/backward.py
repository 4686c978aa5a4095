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
        self.numbers: list[int] = []
        self.streams: list[Stream] = []
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
        thread = self._thread
        if thread.streams and thread.streams[-1] is stream:
            return
        number = torch._C._autograd._get_sequence_nr()
        if thread.numbers and thread.numbers[-1] == number:
            thread.streams[-1] = stream
        else:
            thread.numbers.append(number)
            thread.streams.append(stream)

    def stream_of(self, node: Any) -> Stream:
        """Return the stream of a node that runs now, ordered behind its inputs."""
        thread = self._thread
        if not thread.streams:
            return self._world.chosen()
        used = thread.passes[-1] if thread.passes else []
        number = node._sequence_nr()
        if number > _ACCUMULATE:
            return used[-1] if used else self._world.chosen()
        index = bisect_right(thread.numbers, number) - 1
        stream = thread.streams[index] if index >= 0 else self._world.default
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
                    if other is not caller:
                        self._world.runtime.wait_stream(caller, other)

        return call
