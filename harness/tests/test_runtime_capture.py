"""Stream capture: forks and joins, what it forbids, and under which mode."""

import threading

import pytest
from runtime_case import Case

from sidestream.harness.runtime import CudaError, Runtime


@pytest.fixture
def case():
    return Case("laziest")


def refused(name):
    return pytest.raises(CudaError, match=f"{name}:")


def in_thread(work):
    """Run in another host thread and give back what it raised."""
    raised = []

    def body():
        try:
            work()
        except CudaError as error:
            raised.append(error.name)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return raised


def test_captured_operations_do_not_run(case):
    side = case.rt.pool_stream()
    case.rt.begin_capture(side)
    assert case.do("a", side) is None
    graph = case.rt.end_capture(side)
    case.rt.synchronize_device()
    assert case.log == []
    assert [node.label for node in graph.nodes] == ["a"]
    assert not graph.empty


def test_an_empty_graph(case):
    side = case.rt.pool_stream()
    case.rt.begin_capture(side)
    graph = case.rt.end_capture(side)
    assert graph.empty
    case.do("a", side, writes="x")
    case.rt.launch_graph(case.rt.instantiate(graph), side)
    case.do("b", side, writes="x")
    assert case.clean()


def test_other_streams_run_while_one_is_captured(case):
    side, other = case.rt.pool_stream(), case.rt.pool_stream()
    case.rt.begin_capture(side)
    assert case.do("a", other) is not None
    assert case.rt.end_capture(side).empty


def test_status(case):
    side = case.rt.pool_stream()
    assert case.rt.capturing(side) == "none"
    case.rt.begin_capture(side)
    assert case.rt.capturing(side) == "active"
    with refused("cudaErrorStreamCaptureUnsupported"):
        case.rt.synchronize_stream(side)
    assert case.rt.capturing(side) == "invalidated"
    with refused("cudaErrorStreamCaptureInvalidated"):
        case.do("a", side)
    with refused("cudaErrorStreamCaptureInvalidated"):
        case.rt.end_capture(side)
    assert case.rt.capturing(side) == "none"
    assert case.do("a", side) is not None


def test_the_legacy_stream_cannot_be_captured(case):
    with refused("cudaErrorStreamCaptureUnsupported"):
        case.rt.begin_capture(case.default)


def test_a_stream_is_captured_once_at_a_time(case):
    side = case.rt.pool_stream()
    case.rt.begin_capture(side)
    with refused("cudaErrorIllegalState"):
        case.rt.begin_capture(side)
    with refused("cudaErrorInvalidValue"):
        case.rt.begin_capture(case.rt.pool_stream(), mode="strict")


@pytest.mark.parametrize("blocking", [True, False])
def test_the_legacy_stream_during_a_capture(case, blocking):
    """Only a blocking stream would have to wait for it."""
    side = case.rt.create_stream(blocking=blocking)
    case.rt.begin_capture(side)
    if not blocking:
        case.do("a", case.default)
        assert case.rt.capturing(case.default) == "none"
        assert case.rt.end_capture(side).empty
        return
    with refused("cudaErrorStreamCaptureImplicit"):
        case.rt.capturing(case.default)
    with refused("cudaErrorStreamCaptureImplicit"):
        case.do("a", case.default)
    with refused("cudaErrorStreamCaptureInvalidated"):
        case.rt.end_capture(side)


def fork(case, *, join):
    side, other = case.rt.pool_stream(), case.rt.pool_stream()
    case.rt.begin_capture(side)
    case.do("a", side, writes="x")
    case.rt.wait_stream(other, side)
    case.do("b", other, writes="x")
    if join:
        case.rt.wait_stream(side, other)
    return side, other


def test_a_branch_that_joins(case):
    side, other = fork(case, join=True)
    case.do("c", side, writes="x")
    graph = case.rt.end_capture(side)
    assert [node.after for node in graph.nodes] == [set(), {0}, {0, 1}]
    assert [node.lane for node in graph.nodes] == [0, 1, 0]
    assert case.rt.capturing(other) == "none"


def test_a_branch_that_does_not_join(case):
    side, other = fork(case, join=False)
    with refused("cudaErrorStreamCaptureUnjoined"):
        case.rt.end_capture(side)
    assert case.rt.capturing(other) == "none"


def test_work_after_the_join_is_not_joined(case):
    side, other = fork(case, join=True)
    case.do("late", other)
    with pytest.raises(CudaError, match="late") as error:
        case.rt.end_capture(side)
    assert error.value.number == 904


def test_a_branch_joins_through_another(case):
    side, other = fork(case, join=False)
    third = case.rt.pool_stream()
    case.rt.wait_stream(third, other)
    case.do("c", third)
    case.rt.wait_stream(side, third)
    assert len(case.rt.end_capture(side).nodes) == 3


def test_an_event_recorded_before_the_capture(case):
    side = case.rt.pool_stream()
    event = case.rt.create_event()
    case.rt.record_event(event, case.default)
    case.rt.begin_capture(side)
    with refused("cudaErrorStreamCaptureIsolation"):
        case.rt.wait_event(side, event)
    with refused("cudaErrorStreamCaptureInvalidated"):
        case.rt.end_capture(side)


def test_an_event_that_nobody_recorded_breaks_nothing(case):
    side = case.rt.pool_stream()
    case.rt.begin_capture(side)
    case.rt.wait_event(side, case.rt.create_event())
    assert case.rt.end_capture(side).empty


def test_two_captures_cannot_merge(case):
    one, two = case.rt.pool_stream(), case.rt.pool_stream()
    case.rt.begin_capture(one)
    case.rt.begin_capture(two)
    event = case.rt.create_event()
    case.rt.record_event(event, one)
    with refused("cudaErrorStreamCaptureMerge"):
        case.rt.wait_event(two, event)
    for stream in (one, two):
        with refused("cudaErrorStreamCaptureInvalidated"):
            case.rt.end_capture(stream)


def test_an_event_of_a_capture_that_has_ended(case):
    side, event = case.rt.pool_stream(), case.rt.create_event()
    case.rt.begin_capture(side)
    case.rt.record_event(event, side)
    case.rt.end_capture(side)
    with refused("cudaErrorInvalidValue"):
        case.rt.wait_event(case.default, event)
    with refused("cudaErrorInvalidValue"):
        case.rt.query_event(event)
    case.rt.record_event(event, side)
    assert not case.rt.query_event(event)


@pytest.mark.parametrize("call", ["query", "synchronize"])
def test_asking_for_an_event_of_the_capture_breaks_it(case, call):
    side, event = case.rt.pool_stream(), case.rt.create_event()
    case.rt.begin_capture(side)
    case.rt.record_event(event, side)
    with refused("cudaErrorCapturedEvent"):
        getattr(case.rt, f"{call}_event")(event)
    assert case.rt.capturing(side) == "invalidated"


def test_the_legacy_stream_cannot_join(case):
    side, event = case.rt.pool_stream(), case.rt.create_event()
    case.rt.begin_capture(side)
    case.rt.record_event(event, side)
    with refused("cudaErrorStreamCaptureImplicit"):
        case.rt.wait_event(case.default, event)


def test_a_capture_ends_where_it_began(case):
    side, other = fork(case, join=True)
    with refused("cudaErrorStreamCaptureUnmatched"):
        case.rt.end_capture(other)
    with refused("cudaErrorStreamCaptureInvalidated"):
        case.rt.end_capture(side)
    with refused("cudaErrorIllegalState"):
        case.rt.end_capture(side)


@pytest.mark.parametrize(
    ("mode", "raised"),
    [
        ("global", ["cudaErrorStreamCaptureWrongThread"]),
        ("thread_local", ["cudaErrorStreamCaptureWrongThread"]),
        ("relaxed", []),
    ],
)
def test_the_thread_that_ends_a_capture(case, mode, raised):
    case.rt.order.tell_threads_apart()
    side = case.rt.pool_stream()
    case.rt.begin_capture(side, mode=mode)
    assert in_thread(lambda: case.rt.end_capture(side)) == raised
    assert case.rt.capturing(side) == "none"


CALLS = {
    "cudaMalloc": lambda case, other: case.rt.cuda_malloc(64),
    "cudaFree": lambda case, other: case.rt.cuda_free(case.address),
    "emptyCache": lambda case, other: case.rt.empty_cache(),
    "cudaEventQuery": lambda case, other: case.rt.query_event(case.event),
    "cudaEventSynchronize": lambda case, other: case.rt.synchronize_event(case.event),
    "cudaStreamQuery": lambda case, other: case.rt.query_stream(other),
    "cudaStreamSynchronize": lambda case, other: case.rt.synchronize_stream(other),
    "new segment": lambda case, other: case.rt.malloc(1 << 22, stream=other),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("mode", "who", "broken"),
    [
        ("global", "its thread", True),
        ("global", "another", True),
        ("thread_local", "its thread", True),
        ("thread_local", "another", False),
        ("relaxed", "its thread", False),
        ("relaxed", "another", False),
    ],
)
def test_unsafe_calls(case, call, mode, who, broken):
    """NVIDIA/cudnn-frontend#1151: a finalizer frees while another plan is captured."""
    case.rt.order.tell_threads_apart()
    case.address = case.rt.cuda_malloc(64)
    case.event = case.rt.create_event()
    case.rt.record_event(case.event, case.default)
    side, other = case.rt.pool_stream(), case.rt.pool_stream()
    case.rt.begin_capture(side, mode=mode)

    def unsafe():
        CALLS[call](case, other)

    if who == "another":
        raised = in_thread(unsafe)
        assert raised == (["cudaErrorStreamCaptureUnsupported"] if broken else [])
    elif broken:
        with refused("cudaErrorStreamCaptureUnsupported"):
            unsafe()
    else:
        unsafe()
    assert case.rt.capturing(side) == ("invalidated" if broken else "active")


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
@pytest.mark.parametrize("call", ["stream", "device", "query"])
def test_waiting_for_a_captured_stream_is_refused_under_every_mode(case, mode, call):
    side = case.rt.pool_stream()
    case.rt.begin_capture(side, mode=mode)
    with refused("cudaErrorStreamCaptureUnsupported"):
        if call == "stream":
            case.rt.synchronize_stream(side)
        elif call == "device":
            case.rt.synchronize_device()
        else:
            case.rt.query_stream(side)
    assert case.rt.capturing(side) == "invalidated"


def test_waiting_for_another_device_is_a_matter_of_the_mode():
    rt = Runtime(devices=2)
    rt.begin_capture(rt.pool_stream(device=1), mode="relaxed")
    rt.synchronize_device(0)
