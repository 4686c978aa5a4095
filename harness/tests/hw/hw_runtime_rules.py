"""Questions about the CUDA runtime that a card and the virtual runtime both answer.

Each rule is a function of an `Api`, `hw_runtime_card` or `hw_runtime_virtual`, and
returns something JSON can hold: names of errors, whether a stream is held up by
another, whether a call blocks.
"""

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


def _pair(api: Api, name: str) -> Stream:
    if name == "legacy":
        return api.legacy
    if name == "alias":
        return api.legacy_alias
    if name == "per-thread":
        return api.per_thread
    return api.stream(blocking=name == "blocking")


_PAIRS = (
    ("legacy", "blocking"),
    ("blocking", "legacy"),
    ("legacy", "non-blocking"),
    ("non-blocking", "legacy"),
    ("legacy", "per-thread"),
    ("per-thread", "legacy"),
    ("alias", "legacy"),
    ("alias", "blocking"),
    ("blocking", "blocking"),
    ("per-thread", "blocking"),
    ("non-blocking", "non-blocking"),
)


def _order(first: str, second: str) -> Any:
    def rule(api: Api) -> bool:
        one, two = _pair(api, first), _pair(api, second)
        api.gate(one)
        api.work(two)
        return api.held(two)

    return rule


def legacy_joins_blocking_streams(api: Api) -> bool:
    one, two = api.stream(blocking=True), api.stream(blocking=True)
    api.gate(one)
    api.work(api.legacy)
    api.work(two)
    return api.held(two)


def _waiting(call: str, gated: str, waited: str) -> Any:
    def rule(api: Api) -> bool:
        one, two = _pair(api, gated), _pair(api, waited)
        api.gate(one)
        if call == "stream":
            return api.blocks(lambda: api.sync_stream(two))
        return api.blocks(api.sync_device)

    return rule


def free_waits(api: Api) -> bool:
    api.gate(api.stream(blocking=False))
    return api.blocks(api.free)


def event_never_recorded(api: Api) -> list[Any]:
    stream, event = api.stream(blocking=False), api.event()
    answers = [api.wait(stream, event), api.query_event(event), api.sync_event(event)]
    return [*answers, api.held(stream)]


def wait_takes_the_last_record(api: Api) -> list[bool]:
    one, two, three = (api.stream(blocking=False) for _ in range(3))
    event = api.event()
    api.record(event, one)
    api.wait(two, event)
    api.gate(three)
    api.record(event, three)
    early = api.held(two)
    api.wait(two, event)
    return [early, api.held(two)]


def record_on_legacy_covers_blocking(api: Api) -> bool:
    stream, event = api.stream(blocking=True), api.event()
    api.gate(stream)
    api.record(event, api.legacy)
    return api.event_held(event)


def wait_on_legacy_holds_blocking(api: Api) -> list[bool]:
    gated, event = api.stream(blocking=False), api.event()
    blocking, free = api.stream(blocking=True), api.stream(blocking=False)
    api.gate(gated)
    api.record(event, gated)
    api.wait(api.legacy, event)
    return [api.held(blocking), api.held(free)]


def _copy(direction: str, *, pinned: bool, blocking: bool) -> Any:
    def rule(api: Api) -> bool:
        stream = api.legacy if blocking else api.stream(blocking=False)
        api.gate(stream)
        return api.blocks(
            lambda: api.copy(direction, stream, pinned=pinned, blocking=blocking)
        )

    return rule


def _in_host_function(call: str) -> Any:
    def rule(api: Api) -> str:
        stream, other = api.stream(blocking=False), api.stream(blocking=False)
        event, fresh = api.event(), api.event()
        api.record(event, other)
        api.sync_stream(other)
        calls = {
            "query event": lambda: api.query_event(event),
            "record event": lambda: api.record(fresh, other),
            "work": lambda: api.work(other),
            "malloc": api.malloc,
            "sync event": lambda: api.sync_event(event),
            "query stream": lambda: api.query_stream(other),
        }
        answer: str = api.in_host_function(stream, calls[call])
        return answer

    return rule


def elapsed_errors(api: Api) -> list[str]:
    stream = api.stream(blocking=False)
    start, end, plain = api.event(timing=True), api.event(timing=True), api.event()
    answers = [api.elapsed(start, end)]
    api.record(start, stream)
    api.record(plain, stream)
    api.gate(stream)
    api.record(end, stream)
    return [*answers, api.elapsed(start, end), api.elapsed(start, plain)]


def capture_of_legacy(api: Api) -> str:
    return api.begin(api.legacy, "relaxed")


def capture_twice(api: Api) -> str:
    stream = api.stream(blocking=False)
    api.begin(stream, "global")
    answer = api.begin(stream, "global")
    api.end(stream)
    return answer


def _during(call: str, mode: str, *, elsewhere: bool) -> Any:
    """An unsafe call, by the thread of the capture or by another one."""

    def rule(api: Api) -> list[str]:
        stream, other, event = (
            api.stream(blocking=False),
            api.stream(blocking=False),
            api.event(),
        )
        api.record(event, other)
        api.sync_stream(other)
        calls = {
            "malloc": api.malloc,
            "free": api.free,
            "query event": lambda: api.query_event(event),
            "sync event": lambda: api.sync_event(event),
            "query stream": lambda: api.query_stream(other),
            "sync stream": lambda: api.sync_stream(other),
            "sync device": api.sync_device,
            "sync captured": lambda: api.sync_stream(stream),
            "query captured": lambda: api.query_stream(stream),
            "work elsewhere": lambda: api.work(other),
            "work on legacy": lambda: api.work(api.legacy),
            **{
                f"{'blocking' if blocking else 'async'} {d} {host}": (
                    lambda d=d, host=host, blocking=blocking: api.copy(
                        d,
                        api.legacy if blocking else other,
                        pinned=host == "pinned",
                        blocking=blocking,
                    )
                )
                for d in ("h2d", "d2h")
                for host in ("pinned", "pageable")
                for blocking in (True, False)
            },
        }
        api.begin(stream, mode)
        made = calls[call]
        answer = api.in_thread(made) if elsewhere else made()
        state = api.capturing(stream)
        return [answer, state, api.end(stream)[0]]

    return rule


def _legacy_during_capture(mode: str) -> Any:
    def rule(api: Api) -> list[str]:
        stream = api.stream(blocking=True)
        api.begin(stream, mode)
        asked = api.capturing(api.legacy)
        answer = api.work(api.legacy)
        return [asked, answer, api.capturing(stream), api.end(stream)[0]]

    return rule


def _captured_copy(direction: str, *, pinned: bool) -> Any:
    def rule(api: Api) -> list[str]:
        stream = api.stream(blocking=False)
        api.begin(stream, "global")
        answer = api.copy(direction, stream, pinned=pinned, blocking=False)
        return [answer, api.end(stream)[0]]

    return rule


def _fork(join: str) -> Any:
    def rule(api: Api) -> list[Any]:
        stream, other, event = (
            api.stream(blocking=False),
            api.stream(blocking=False),
            api.event(),
        )
        api.begin(stream, "global")
        api.work(stream)
        api.record(event, stream)
        api.wait(other, event)
        if join != "empty branch":
            api.work(other)
        if join in ("joined", "late work"):
            back = api.event()
            api.record(back, other)
            api.wait(stream, back)
        if join == "late work":
            api.work(other)
        answer, graph = api.end(stream)
        after = [api.capturing(stream), api.capturing(other)]
        return [answer, api.nodes(graph) if answer == "cudaSuccess" else 0, *after]

    return rule


def outside_event(api: Api) -> list[str]:
    stream, event = api.stream(blocking=False), api.event()
    api.record(event, api.stream(blocking=False))
    api.begin(stream, "global")
    answer = api.wait(stream, event)
    return [answer, api.capturing(stream), api.end(stream)[0]]


def unrecorded_event_in_capture(api: Api) -> list[str]:
    stream = api.stream(blocking=False)
    api.begin(stream, "global")
    answer = api.wait(stream, api.event())
    return [answer, api.end(stream)[0]]


def merge(api: Api) -> list[str]:
    one, two, event = (
        api.stream(blocking=False),
        api.stream(blocking=False),
        api.event(),
    )
    api.begin(one, "global")
    api.begin(two, "global")
    api.record(event, one)
    answer = api.wait(two, event)
    states = [api.capturing(one), api.capturing(two)]
    return [answer, *states, api.end(one)[0], api.end(two)[0]]


def captured_event_elsewhere(api: Api) -> list[str]:
    stream, event = api.stream(blocking=False), api.event()
    api.begin(stream, "global")
    api.record(event, stream)
    answers = [api.query_event(event), api.capturing(stream)]
    answers.append(api.sync_event(event))
    return [*answers, api.end(stream)[0]]


def legacy_waits_for_captured_event(api: Api) -> list[str]:
    stream, event = api.stream(blocking=False), api.event()
    api.begin(stream, "global")
    api.record(event, stream)
    answer = api.wait(api.legacy, event)
    return [answer, api.capturing(stream), api.end(stream)[0]]


def event_of_an_ended_capture(api: Api) -> list[str]:
    stream, event = api.stream(blocking=False), api.event()
    api.begin(stream, "global")
    api.record(event, stream)
    api.end(stream)
    return [
        api.query_event(event),
        api.wait(api.stream(blocking=False), event),
        api.record(event, stream),
    ]


def end_on_another_stream(api: Api) -> list[str]:
    one, two, event = (
        api.stream(blocking=False),
        api.stream(blocking=False),
        api.event(),
    )
    api.begin(one, "global")
    api.record(event, one)
    api.wait(two, event)
    answer = api.end(two)[0]
    return [answer, api.capturing(one), api.end(one)[0]]


def end_without_begin(api: Api) -> str:
    return api.end(api.stream(blocking=False))[0]


def _end_in_another_thread(mode: str) -> Any:
    def rule(api: Api) -> list[str]:
        stream = api.stream(blocking=False)
        api.begin(stream, mode)
        answer = api.in_thread(lambda: api.end(stream)[0])
        state = api.capturing(stream)
        if state != "none":
            api.end(stream)
        return [answer, state]

    return rule


def work_in_a_broken_capture(api: Api) -> list[str]:
    stream = api.stream(blocking=False)
    api.begin(stream, "global")
    api.sync_stream(stream)
    answer = api.work(stream)
    event = api.event()
    return [answer, api.record(event, stream), api.end(stream)[0]]


def _replays(*, same: bool) -> Any:
    """Whether a second replay waits for the first, on another stream."""

    def rule(api: Api) -> bool:
        stream, other = api.stream(blocking=False), api.stream(blocking=False)
        api.begin(stream, "global")
        api.work(stream)
        graph = api.end(stream)[1]
        first = api.instantiate(graph)
        second = first if same else api.instantiate(graph)
        api.gate(stream)
        api.launch(first, stream)
        api.launch(second, other)
        return api.held(other)

    return rule


def destroy_busy_stream(api: Api) -> list[Any]:
    stream = api.stream(blocking=False)
    api.gate(stream)
    answer = api.destroy(stream)
    return [answer, api.blocks(api.sync_device)]


def priorities(api: Api) -> list[int]:
    return [api.priority(asked) for asked in (-9, -5, -1, 0, 3)]


def graph_within_a_capture(api: Api) -> list[Any]:
    stream = api.stream(blocking=False)
    api.begin(stream, "global")
    api.work(stream)
    inner = api.instantiate(api.end(stream)[1])
    api.begin(stream, "global")
    answer = api.launch(inner, stream)
    ended, _ = api.end(stream)
    return [answer, ended]


_UNSAFE = (
    *("malloc", "free", "query event", "sync event", "query stream", "sync stream"),
    *("sync device", "sync captured", "query captured", "work elsewhere"),
    "work on legacy",
    *(
        f"{call} {d} {host}"
        for call in ("blocking", "async")
        for d in ("h2d", "d2h")
        for host in ("pinned", "pageable")
    ),
)

RULES: dict[str, Any] = {
    **{f"{a} holds {b}": _order(a, b) for a, b in _PAIRS},
    "legacy joins blocking streams": legacy_joins_blocking_streams,
    "sync legacy, blocking stalled": _waiting("stream", "blocking", "legacy"),
    "sync blocking, legacy stalled": _waiting("stream", "legacy", "blocking"),
    "sync legacy, non-blocking stalled": _waiting("stream", "non-blocking", "legacy"),
    "sync device, non-blocking stalled": _waiting("device", "non-blocking", "legacy"),
    "free waits": free_waits,
    "event never recorded": event_never_recorded,
    "wait takes the last record": wait_takes_the_last_record,
    "record on legacy covers blocking": record_on_legacy_covers_blocking,
    "wait on legacy holds blocking": wait_on_legacy_holds_blocking,
    **{
        f"copy {d} {host} {call}": _copy(
            d, pinned=host == "pinned", blocking=call == "blocking"
        )
        for d in ("h2d", "d2h")
        for host in ("pinned", "pageable")
        for call in ("blocking", "async")
    },
    "copy d2d async": _copy("d2d", pinned=True, blocking=False),
    "copy d2d blocking": _copy("d2d", pinned=True, blocking=True),
    "elapsed errors": elapsed_errors,
    "capture of legacy": capture_of_legacy,
    "capture twice": capture_twice,
    **{
        f"{call} during {mode}{', other thread' if elsewhere else ''}": _during(
            call, mode, elsewhere=elsewhere
        )
        for call in _UNSAFE
        for mode in ("global", "thread_local", "relaxed")
        for elsewhere in (False, True)
    },
    **{
        f"legacy during {mode} capture of blocking": _legacy_during_capture(mode)
        for mode in ("global", "relaxed")
    },
    **{
        f"captured copy {d} {host}": _captured_copy(d, pinned=host == "pinned")
        for d in ("h2d", "d2h", "d2d")
        for host in ("pinned", "pageable")
    },
    **{
        f"fork {j}": _fork(j)
        for j in ("joined", "unjoined", "empty branch", "late work")
    },
    "outside event": outside_event,
    "unrecorded event in capture": unrecorded_event_in_capture,
    "merge": merge,
    "captured event elsewhere": captured_event_elsewhere,
    "legacy waits for captured event": legacy_waits_for_captured_event,
    "event of an ended capture": event_of_an_ended_capture,
    "end on another stream": end_on_another_stream,
    "end without begin": end_without_begin,
    **{
        f"end {mode} in another thread": _end_in_another_thread(mode)
        for mode in ("global", "thread_local", "relaxed")
    },
    "work in a broken capture": work_in_a_broken_capture,
    "replays of one executable": _replays(same=True),
    "replays of two executables": _replays(same=False),
    "destroy busy stream": destroy_busy_stream,
    "priorities": priorities,
    "graph within a capture": graph_within_a_capture,
    **{
        f"host function: {call}": _in_host_function(call)
        for call in (
            *("query event", "record event", "work", "malloc", "sync event"),
            "query stream",
        )
    },
}
"""By name."""
