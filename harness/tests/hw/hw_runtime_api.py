"""What rules may ask of a CUDA runtime: a card's and the virtual one's."""

from __future__ import annotations

from typing import Any, Protocol

Gate = Any
Stream = Any
Event = Any
Graph = Any


class Api(Protocol):
    """What a rule may ask. Calls that CUDA may refuse return the error's name."""

    legacy: Stream
    legacy_alias: Stream
    per_thread: Stream

    def stream(self, *, blocking: bool) -> Stream: ...

    def event(self, *, timing: bool = False) -> Event: ...

    def gate(self, stream: Stream) -> Gate:
        """Stall a stream until the rule is through."""

    def work(self, stream: Stream) -> str:
        """A small operation."""

    def held(self, stream: Stream) -> bool:
        """Whether an event recorded now on a stream waits for the gate."""

    def event_held(self, event: Event) -> bool: ...

    def blocks(self, call: Any) -> bool:
        """Whether a call returns only once the gate is open; opens it."""

    def record(self, event: Event, stream: Stream) -> str: ...

    def wait(self, stream: Stream, event: Event) -> str: ...

    def query_event(self, event: Event) -> str: ...

    def query_stream(self, stream: Stream) -> str: ...

    def sync_event(self, event: Event) -> str: ...

    def sync_stream(self, stream: Stream) -> str: ...

    def sync_device(self) -> str: ...

    def elapsed(self, start: Event, end: Event) -> str: ...

    def begin(self, stream: Stream, mode: str) -> str: ...

    def end(self, stream: Stream) -> tuple[str, Graph]: ...

    def capturing(self, stream: Stream) -> str: ...

    def nodes(self, graph: Graph) -> int: ...

    def launch(self, exec: Any, stream: Stream) -> str: ...

    def instantiate(self, graph: Graph) -> Any: ...

    def malloc(self) -> str: ...

    def free(self) -> str:
        """Free memory that was allocated when the API was made."""

    def copy(
        self, direction: str, stream: Stream, *, pinned: bool, blocking: bool
    ) -> str: ...

    def in_host_function(self, stream: Stream, call: Any) -> str:
        """What a call returns within a host function on a stream."""

    def destroy(self, stream: Stream) -> str: ...

    def priority(self, asked: int) -> int:
        """The priority of a stream made with an asked one."""

    def in_thread(self, call: Any) -> Any: ...


def pair(api: Api, name: str) -> Stream:
    if name == "legacy":
        return api.legacy
    if name == "alias":
        return api.legacy_alias
    if name == "per-thread":
        return api.per_thread
    return api.stream(blocking=name == "blocking")
