"""Handles, the default streams and torch's pool."""

import threading

import pytest
from runtime_case import Case

from sidestream.harness.runtime import CudaError, Runtime


def test_handles_0_and_1_are_the_legacy_default_stream():
    rt = Runtime(devices=2)
    assert rt.stream(0) is rt.stream(1)
    assert rt.stream(0).blocking
    assert rt.stream(0) is not rt.stream(0, device=1)


def test_handle_2_is_a_blocking_stream_of_each_thread():
    rt = Runtime()
    rt.order.tell_threads_apart()
    found = []

    def other():
        found.append(rt.stream(2))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    mine = rt.stream(2)
    assert mine is rt.stream(2)
    assert found[0] is not mine
    assert mine.blocking


def test_a_handle_nobody_made():
    rt = Runtime()
    made = rt.create_stream()
    assert rt.stream(made.handle) is made
    with pytest.raises(CudaError, match="cudaErrorInvalidResourceHandle") as error:
        rt.stream(0xDEAD)
    assert error.value.number == 400


def test_a_destroyed_stream_still_lands_its_work():
    case = Case("laziest")
    stream = case.rt.create_stream()
    case.do("a", stream)
    case.rt.destroy_stream(stream)
    with pytest.raises(CudaError, match="InvalidResourceHandle"):
        case.rt.stream(stream.handle)
    with pytest.raises(CudaError, match="InvalidResourceHandle"):
        case.rt.destroy_stream(stream)
    case.rt.synchronize_device()
    assert case.log == ["a"]


def test_default_streams_cannot_be_destroyed():
    rt = Runtime()
    with pytest.raises(CudaError, match="InvalidResourceHandle"):
        rt.destroy_stream(rt.stream(0))


def test_a_device_that_is_not_there():
    with pytest.raises(CudaError, match="cudaErrorInvalidDevice") as error:
        Runtime(devices=2).stream(0, device=2)
    assert error.value.number == 101


@pytest.mark.parametrize(("asked", "given"), [(-1, -1), (-9, -5), (3, 0)])
def test_priorities_are_clamped(asked, given):
    assert Runtime().create_stream(priority=asked).priority == given


def test_torch_hands_out_32_streams_in_turn():
    rt = Runtime()
    first = [rt.pool_stream() for _ in range(32)]
    assert len({s.handle for s in first}) == 32
    assert not any(s.blocking for s in first)
    assert rt.pool_stream() is first[0]
    assert rt.pool_stream(priority=-1) not in first


@pytest.mark.parametrize(
    ("version", "ordered"), [((2, 12), False), ((2, 13), True), ((3, 0), True)]
)
def test_external_stream_0(version, ordered):
    """NVIDIA/cudnn-frontend#1165: before torch 2.13 it was a stream of the pool."""
    case = Case(torch_version=version)
    case.do("repack", case.rt.external_stream(0), writes="x")
    case.do("kernel", case.default, reads="x")
    found = [] if ordered else [("stream-race", "repack", "kernel")]
    assert case.races() == found


@pytest.mark.parametrize("handle", [1, 2])
def test_external_streams_of_other_special_handles(handle):
    rt = Runtime(torch_version=(2, 12))
    assert rt.external_stream(handle) is rt.stream(handle)


def test_an_external_stream_is_the_stream_of_its_handle():
    rt = Runtime()
    made = rt.create_stream(blocking=True)
    assert rt.external_stream(made.handle) is made


@pytest.mark.parametrize("first", ["default", "other"])
@pytest.mark.parametrize(
    ("make", "ordered"),
    [
        (lambda rt: rt.create_stream(blocking=True), True),
        (lambda rt: rt.stream(2), True),
        (lambda rt: rt.create_stream(blocking=False), False),
        (lambda rt: rt.pool_stream(), False),
    ],
    ids=["blocking", "per-thread", "non-blocking", "pool"],
)
def test_what_the_default_stream_orders(make, first, ordered):
    case = Case("laziest")
    pair = [case.default, make(case.rt)]
    if first == "other":
        pair.reverse()
    case.do("a", pair[0], writes="x")
    case.do("b", pair[1], writes="x")
    assert case.races() == ([] if ordered else [("stream-race", "a", "b")])


def test_the_default_stream_joins_two_blocking_streams():
    case = Case("laziest")
    one, two = (case.rt.create_stream(blocking=True) for _ in range(2))
    case.do("a", one, writes="x")
    case.do("between", case.default)
    case.do("b", two, writes="x")
    assert case.clean()
    assert case.log == ["a", "between", "b"]


def test_the_default_streams_of_two_devices_are_unordered():
    case = Case(devices=2)
    case.do("a", case.rt.stream(0, device=0), writes="x")
    case.do("b", case.rt.stream(0, device=1), writes="x")
    assert case.races() == [("stream-race", "a", "b")]


def test_a_kernel_for_a_stream_of_another_device():
    rt = Runtime(devices=2)
    with pytest.raises(CudaError, match="device 1 is the current one"):
        rt.enqueue(kind="launch", label="k", stream=rt.stream(0), device=1)


def test_an_event_of_another_device():
    rt = Runtime(devices=2)
    event = rt.create_event(device=1)
    with pytest.raises(CudaError, match="InvalidResourceHandle"):
        rt.record_event(event, rt.stream(0))


def test_a_stream_waits_for_an_event_of_another_device():
    case = Case("laziest", devices=2)
    here, there = case.rt.stream(0), case.rt.stream(0, device=1)
    event = case.rt.create_event(device=1)
    case.do("a", there, writes="x")
    case.rt.record_event(event, there)
    case.rt.wait_event(here, event)
    case.do("b", here, writes="x")
    assert case.clean()


def test_a_wait_for_the_default_stream_covers_blocking_ones():
    case = Case("laziest")
    blocking, free = case.rt.create_stream(blocking=True), case.rt.pool_stream()
    case.do("a", blocking)
    case.do("b", free)
    case.rt.synchronize_stream(case.default)
    assert case.log == ["a"]


def test_an_unknown_kind_of_operation():
    rt = Runtime()
    with pytest.raises(ValueError, match="unknown kind"):
        rt.enqueue(kind="kernel", label="k", stream=rt.stream(0))


def test_a_wait_for_a_blocking_stream_does_not_cover_the_default_one():
    case = Case("laziest")
    blocking = case.rt.create_stream(blocking=True)
    case.do("a", case.default)
    case.rt.synchronize_stream(blocking)
    assert case.log == []
    case.do("b", blocking)
    case.rt.synchronize_stream(blocking)
    assert case.log == ["a", "b"]
