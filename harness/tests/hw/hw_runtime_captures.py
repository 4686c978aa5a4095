"""Rules of stream capture and of the graphs that it makes."""

from __future__ import annotations

from typing import Any

from hw_runtime_api import Api


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


CAPTURE_RULES: dict[str, Any] = {
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
    "graph within a capture": graph_within_a_capture,
}
"""By name."""
