"""Events: recording, querying, waiting on the host, timing; host functions."""

import pytest
from runtime_case import Case

from sidestream.harness.runtime import CudaError, Runtime, Span


@pytest.fixture
def case():
    return Case("laziest")


def test_nothing_lands_before_a_wait_and_then_only_what_it_needs(case):
    one, two = case.rt.pool_stream(), case.rt.pool_stream()
    event = case.rt.create_event()
    case.do("a", one)
    case.rt.record_event(event, one)
    case.do("b", one)
    case.do("c", two)
    assert case.log == []
    case.rt.synchronize_event(event)
    assert case.log == ["a"]
    case.rt.synchronize_stream(two)
    assert case.log == ["a", "c"]


def test_a_wait_takes_the_record_it_found(case):
    one, two, three = (case.rt.pool_stream() for _ in range(3))
    event = case.rt.create_event()
    case.do("a", one)
    case.rt.record_event(event, one)
    case.rt.wait_event(two, event)
    case.do("b", two)
    case.do("slow", three)
    case.rt.record_event(event, three)
    case.rt.synchronize_stream(two)
    assert case.log == ["a", "b"]


def test_an_event_nobody_recorded(case):
    event = case.rt.create_event()
    case.do("a", case.default)
    assert case.rt.query_event(event)
    case.rt.synchronize_event(event)
    case.rt.wait_event(case.default, event)
    assert case.log == []
    assert case.rt.host_waits == []


def test_a_loop_of_queries_ends(case):
    event = case.rt.create_event()
    for name in "abc":
        case.do(name, case.default)
    case.rt.record_event(event, case.default)
    answers = []
    while not answers or not answers[-1]:
        answers.append(case.rt.query_event(event))
    assert answers == [False] * 4 + [True]
    assert case.log == ["a", "b", "c"]


@pytest.mark.parametrize("asked", [True, False])
def test_a_query_that_succeeds_orders(case, asked):
    one, two = case.rt.pool_stream(), case.rt.pool_stream()
    case.do("a", one, writes="x")
    while asked and not case.rt.query_stream(one):
        pass
    case.do("b", two, writes="x")
    assert case.races() == ([] if asked else [("stream-race", "a", "b")])


def test_a_query_that_fails_orders_nothing(case):
    one, two = case.rt.pool_stream(), case.rt.pool_stream()
    case.do("a", one, writes="x")
    assert not case.rt.query_stream(one)
    case.do("b", two, writes="x")
    assert case.races() == [("stream-race", "a", "b")]


def test_waits_of_the_host_are_logged(case):
    case.do("a", case.default, writes="x")
    case.do("b", case.default)
    case.rt.synchronize_stream(case.default, call="aten.item", detail="read 3.0")
    (wait,) = case.rt.host_waits
    assert (wait.call, wait.operations, wait.detail) == ("aten.item", 2, "read 3.0")
    assert "test_waits_of_the_host_are_logged" in str(wait.site)


def test_a_wait_blocks_for_as_long_as_the_device_still_takes():
    rt = Runtime()
    rt.enqueue(kind="launch", label="k", stream=rt.stream(0), seconds=0.5)
    rt.synchronize_device()
    rt.synchronize_device()
    first, second = (wait.seconds for wait in rt.host_waits)
    assert first == pytest.approx(0.5, rel=1e-3)
    assert second == 0


def test_elapsed_time():
    rt = Runtime()
    stream, other = rt.stream(0), rt.pool_stream()
    start, end = (rt.create_event(timing=True) for _ in range(2))
    rt.record_event(start, stream)
    rt.enqueue(kind="launch", label="k", stream=stream, seconds=0.25)
    rt.enqueue(kind="launch", label="beside", stream=other, seconds=4)
    rt.record_event(end, stream)
    with pytest.raises(CudaError, match="cudaErrorNotReady"):
        rt.elapsed(start, end)
    rt.synchronize_event(end)
    assert rt.elapsed(start, end) == pytest.approx(250, rel=1e-3)


def test_elapsed_time_follows_waits_between_streams():
    rt = Runtime()
    slow, stream = rt.pool_stream(), rt.pool_stream()
    start, end = (rt.create_event(timing=True) for _ in range(2))
    rt.record_event(start, stream)
    rt.enqueue(kind="launch", label="slow", stream=slow, seconds=2)
    rt.wait_stream(stream, slow)
    rt.record_event(end, stream)
    rt.synchronize_device()
    assert rt.elapsed(start, end) == pytest.approx(2000, rel=1e-3)


def test_elapsed_time_follows_the_default_stream():
    rt = Runtime()
    slow = rt.create_stream(blocking=True)
    start, end = (rt.create_event(timing=True) for _ in range(2))
    rt.record_event(start, rt.stream(0))
    rt.enqueue(kind="launch", label="slow", stream=slow, seconds=2)
    rt.record_event(end, rt.stream(0))
    rt.synchronize_device()
    assert rt.elapsed(start, end) == pytest.approx(2000, rel=1e-3)


def test_elapsed_time_needs_events_of_one_device():
    rt = Runtime(devices=2)
    events = [rt.create_event(device=d, timing=True) for d in range(2)]
    for device, event in enumerate(events):
        rt.record_event(event, rt.stream(0, device=device))
    rt.drain()
    with pytest.raises(CudaError, match="different devices"):
        rt.elapsed(*events)


@pytest.mark.parametrize("timing", [True, False])
def test_elapsed_time_needs_recorded_events_that_take_the_time(timing):
    rt = Runtime()
    start, end = (rt.create_event(timing=timing) for _ in range(2))
    rt.record_event(start, rt.stream(0))
    if not timing:
        rt.record_event(end, rt.stream(0))
    rt.drain()
    with pytest.raises(CudaError, match="InvalidResourceHandle"):
        rt.elapsed(start, end)


def test_a_host_function_runs_in_the_order_of_its_stream(case):
    case.do("a", case.default)
    case.rt.launch_host_function(case.default, lambda: case.log.append("function"))
    case.do("b", case.default)
    case.rt.synchronize_device()
    assert case.log == ["a", "function", "b"]


@pytest.mark.parametrize("waits", [True, False])
def test_what_a_host_function_touches_is_its_streams(case, waits):
    one, two = case.rt.pool_stream(), case.rt.pool_stream()
    span = case.memory("x")
    case.rt.launch_host_function(
        one, lambda: case.rt.host_access(span, write=True), label="function"
    )
    if waits:
        case.rt.wait_stream(two, one)
    case.do("read", two, reads="x")
    found = [] if waits else [("stream-race", "function", "read")]
    assert case.races() == found


@pytest.mark.parametrize(
    "call",
    [
        lambda rt: rt.enqueue(kind="launch", label="k", stream=rt.stream(0)),
        lambda rt: rt.synchronize_device(),
        lambda rt: rt.query_stream(rt.stream(0)),
        lambda rt: rt.record_event(rt.create_event(), rt.stream(0)),
    ],
)
def test_a_host_function_makes_no_cuda_calls(call):
    rt = Runtime()
    rt.launch_host_function(rt.stream(0), lambda: call(rt))
    with pytest.raises(CudaError, match="cudaErrorNotPermitted") as error:
        rt.drain()
    assert error.value.number == 800


def test_a_host_function_cannot_wait_for_what_is_pending(case):
    event = case.rt.create_event()
    case.rt.launch_host_function(case.default, lambda: case.rt.synchronize_event(event))
    case.rt.record_event(event, case.rt.pool_stream())
    with pytest.raises(CudaError, match="cudaErrorNotPermitted"):
        case.rt.synchronize_stream(case.default)


def test_an_operation_that_fails_shows_at_the_wait_and_the_rest_lands(case):
    def fail():
        raise IndexError("out of range")

    case.do("a", case.default, run=fail)
    case.do("b", case.default)
    with pytest.raises(IndexError):
        case.rt.synchronize_device()
    case.rt.synchronize_device()
    assert case.log == ["a", "b"]


def test_an_operation_that_fails_is_judged_by_what_it_was_to_touch(case):
    def fail():
        raise IndexError("what it read was not there yet")

    side = case.rt.pool_stream()
    case.do("make", case.default, writes="x")
    case.do("use", side, reads="x", run=fail)
    with pytest.raises(IndexError):
        case.rt.synchronize_stream(side)
    assert case.races() == [("stream-race", "make", "use")]


@pytest.mark.parametrize(
    ("before", "found"), [(True, []), (False, [("stream-race", "copy", "host read")])]
)
def test_the_host_reads_what_a_stream_writes(case, before, found):
    event = case.rt.create_event()
    case.do("copy", case.default, writes="x", kind="copy")
    case.rt.record_event(event, case.default)
    if before:
        case.rt.synchronize_event(event)
    case.rt.host_access(Span(*case.memory("x")), write=False)
    assert case.races() == found


def test_the_host_writes_before_it_calls(case):
    case.rt.host_access(case.memory("x"), write=True)
    case.do("copy", case.default, reads="x", kind="copy")
    assert case.clean()


def test_the_host_writes_what_a_pending_copy_reads(case):
    case.do("copy", case.default, reads="x", kind="copy")
    case.rt.host_access(case.memory("x"), write=True)
    assert case.races() == [("stream-race", "copy", "host write")]
    (finding,) = case.rt.findings()
    assert finding.rule.id == "host.memory-order"
    assert "event.synchronize()" in finding.need
