"""The rules' questions, put to the virtual runtime."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from sidestream.harness.runtime import CudaError, Event, Landing, Runtime, Span, Stream


def answer(call: Callable[[], Any]) -> str:
    """Return the name of the error that a call gives."""
    try:
        done = call()
    except CudaError as error:
        return error.name
    return "cudaErrorNotReady" if done is False else "cudaSuccess"


class VirtualApi:
    """See `hw_runtime_api.Api`. Gates are operations that must not have landed."""

    def __init__(self) -> None:
        self.rt = Runtime(landing=Landing.parse("laziest"))
        self.rt.order.tell_threads_apart()
        self._gates: list[int] = []
        self._device = [Span(self.rt.cuda_malloc(1 << 20), 1 << 20) for _ in range(2)]
        self._extra = self.rt.cuda_malloc(64)
        block = self.rt.malloc_host(1 << 20)
        self._host = {
            True: Span(block.address, 1 << 20),
            False: Span(0x10_0000, 1 << 20),
        }

    @property
    def legacy(self) -> Stream:
        return self.rt.stream(0)

    @property
    def legacy_alias(self) -> Stream:
        return self.rt.stream(1)

    @property
    def per_thread(self) -> Stream:
        return self.rt.stream(2)

    def stream(self, *, blocking: bool) -> Stream:
        return self.rt.create_stream(blocking=blocking)

    def event(self, *, timing: bool = False) -> Event:
        return self.rt.create_event(timing=timing)

    def gate(self, stream: Stream) -> None:
        op = self.rt.enqueue(kind="launch", label="gate", stream=stream)
        assert op is not None
        self._gates.append(op.id)

    def work(self, stream: Stream) -> str:
        return answer(lambda: self.rt.enqueue(kind="fill", label="work", stream=stream))

    def held(self, stream: Stream) -> bool:
        event = self.event()
        self.rt.record_event(event, stream)
        return self.event_held(event)

    def event_held(self, event: Event) -> bool:
        assert event.record is not None
        return bool(self.rt.queue.needed([event.record.op]) & set(self._gates))

    def blocks(self, call: Callable[[], Any]) -> bool:
        call()
        return not any(self.rt.queue.holds(gate) for gate in self._gates)

    def record(self, event: Event, stream: Stream) -> str:
        return answer(lambda: self.rt.record_event(event, stream))

    def wait(self, stream: Stream, event: Event) -> str:
        return answer(lambda: self.rt.wait_event(stream, event))

    def query_event(self, event: Event) -> str:
        return answer(lambda: self.rt.query_event(event))

    def query_stream(self, stream: Stream) -> str:
        return answer(lambda: self.rt.query_stream(stream))

    def sync_event(self, event: Event) -> str:
        return answer(lambda: self.rt.synchronize_event(event))

    def sync_stream(self, stream: Stream) -> str:
        return answer(lambda: self.rt.synchronize_stream(stream))

    def sync_device(self) -> str:
        return answer(self.rt.synchronize_device)

    def elapsed(self, start: Event, end: Event) -> str:
        return answer(lambda: [self.rt.elapsed(start, end)])

    def begin(self, stream: Stream, mode: str) -> str:
        return answer(lambda: self.rt.begin_capture(stream, mode=mode))

    def end(self, stream: Stream) -> tuple[str, Any]:
        graphs: list[Any] = []
        name = answer(lambda: graphs.append(self.rt.end_capture(stream)))
        return name, graphs[0] if graphs else None

    def capturing(self, stream: Stream) -> str:
        try:
            return self.rt.capturing(stream)
        except CudaError as error:
            return error.name

    def nodes(self, graph: Any) -> int:
        return len(graph.nodes)

    def instantiate(self, graph: Any) -> Any:
        return self.rt.instantiate(graph)

    def launch(self, exec: Any, stream: Stream) -> str:
        return answer(lambda: self.rt.launch_graph(exec, stream))

    def malloc(self) -> str:
        return answer(lambda: self.rt.cuda_malloc(64))

    def free(self) -> str:
        return answer(lambda: self.rt.cuda_free(self._extra))

    def copy(
        self, direction: str, stream: Stream, *, pinned: bool, blocking: bool
    ) -> str:
        there, other = self._device
        host = self._host[pinned]
        ends = {"h2d": (there, host), "d2h": (host, there), "d2d": (other, there)}
        target, source = ends[direction]
        return answer(
            lambda: self.rt.copy(
                direction=direction,
                reads=[source],
                writes=[target],
                stream=stream,
                take=lambda: lambda: None,
                blocking=blocking,
            )
        )

    def in_host_function(self, stream: Stream, call: Callable[[], str]) -> str:
        answers: list[str] = []
        self.rt.launch_host_function(stream, lambda: answers.append(call()))
        self.sync_stream(stream)
        return answers[0]

    def destroy(self, stream: Stream) -> str:
        return answer(lambda: self.rt.destroy_stream(stream))

    def priority(self, asked: int) -> int:
        return self.rt.create_stream(priority=asked).priority

    def in_thread(self, call: Callable[[], Any]) -> Any:
        answers: list[Any] = []
        thread = threading.Thread(target=lambda: answers.append(call()))
        thread.start()
        thread.join()
        return answers[0]
