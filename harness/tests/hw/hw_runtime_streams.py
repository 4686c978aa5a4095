"""Rules of streams, events, copies and waits of the host."""

from __future__ import annotations

from typing import Any

from hw_runtime_api import Api, pair

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
        one, two = pair(api, first), pair(api, second)
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
        one, two = pair(api, gated), pair(api, waited)
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


def destroy_busy_stream(api: Api) -> list[Any]:
    stream = api.stream(blocking=False)
    api.gate(stream)
    answer = api.destroy(stream)
    return [answer, api.blocks(api.sync_device)]


def priorities(api: Api) -> list[int]:
    return [api.priority(asked) for asked in (-9, -5, -1, 0, 3)]


STREAM_RULES: dict[str, Any] = {
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
    "destroy busy stream": destroy_busy_stream,
    "priorities": priorities,
    **{
        f"host function: {call}": _in_host_function(call)
        for call in (
            *("query event", "record event", "work", "malloc", "sync event"),
            "query stream",
        )
    },
}
"""By name."""
