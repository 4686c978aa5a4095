"""The scenarios that PyTorch tests its CUDA sanitizer with, for this runtime.

Every race of theirs is found and no other, whatever lands when.
"""

from itertools import pairwise

import pytest
from runtime_case import POLICIES, Case

from sidestream.harness.bindings.calls import Calls
from sidestream.harness.runtime import CudaError

RACE = "stream-race"


@pytest.fixture(params=POLICIES)
def case(request):
    return Case(request.param)


@pytest.fixture
def streams(case):
    return [case.rt.pool_stream() for _ in range(12)]


def hand_over(case, source, target):
    event = case.rt.create_event()
    case.rt.record_event(event, source)
    case.rt.wait_event(target, event)


def test_an_operation_without_memory(case, streams):
    case.do("nothing", streams[0])
    assert case.clean()


def test_two_reads(case, streams):
    case.do("a", streams[1], reads="x")
    case.do("b", streams[2], reads="x")
    assert case.clean()


@pytest.mark.parametrize(
    ("first", "second"), [("reads", "writes"), ("writes", "reads"), ("writes",) * 2]
)
def test_a_write_and_anything_else(case, streams, first, second):
    case.do("a", streams[1], **{first: "x"})
    case.do("b", streams[2], **{second: "x"})
    assert case.races() == [(RACE, "a", "b")]


def test_an_event_orders_read_and_write(case, streams):
    case.do("a", streams[1], reads="x")
    hand_over(case, streams[1], streams[2])
    case.do("b", streams[2], writes="x")
    assert case.clean()


def test_every_read_is_held_against_the_last_write(case, streams):
    case.do("write", streams[1], writes="x")
    hand_over(case, streams[1], streams[2])
    case.do("ordered", streams[2], reads="x")
    case.do("unordered", streams[3], reads="x")
    assert case.races() == [(RACE, "write", "unordered")]


def test_two_streams_behind_one_may_read_but_not_write(case, streams):
    case.do("write", streams[1], writes="x")
    event = case.rt.create_event()
    case.rt.record_event(event, streams[1])
    case.rt.wait_event(streams[2], event)
    case.rt.wait_event(streams[3], event)
    case.do("left", streams[2], reads="x")
    case.do("right", streams[3], reads="x")
    case.do("again", streams[2], writes="x")
    assert case.races() == [(RACE, "right", "again")]


def test_a_chain_of_events(case, streams):
    case.do("a", streams[0], reads="x")
    for source, target in pairwise(streams):
        hand_over(case, source, target)
    case.do("b", streams[-1], writes="x")
    assert case.clean()


def test_a_record_does_not_cover_what_comes_after_it(case, streams):
    case.do("early", streams[1], reads="x")
    event = case.rt.create_event()
    case.rt.record_event(event, streams[1])
    case.do("late", streams[1], reads="x")
    case.rt.wait_event(streams[2], event)
    case.do("write", streams[2], writes="x")
    assert case.races() == [(RACE, "late", "write")]


def test_a_new_event_knows_nothing_of_an_old_one(case, streams):
    case.do("a", streams[1], reads="x")
    case.rt.record_event(case.rt.create_event(), streams[1])
    case.rt.wait_event(streams[2], case.rt.create_event())
    case.do("b", streams[2], writes="x")
    assert case.races() == [(RACE, "a", "b")]


@pytest.mark.parametrize("made", [True, False])
def test_a_destroyed_event_orders_nothing(case, streams, made):
    """The sanitizer takes a wait for it as no wait; CUDA refuses it by its name."""
    calls = Calls(runtime=case.rt)
    case.do("a", streams[1], reads="x")
    event = calls.event_create()
    calls.event_record(event, streams[1].handle)
    calls.event_destroy(event)
    if made:
        calls.stream_wait_event(streams[2].handle, calls.event_create())
    else:
        with pytest.raises(CudaError, match="cudaErrorInvalidResourceHandle"):
            calls.stream_wait_event(streams[2].handle, event)
    case.do("b", streams[2], writes="x")
    assert case.races() == [(RACE, "a", "b")]


@pytest.mark.parametrize("missing", [False, True])
def test_a_write_needs_an_edge_from_every_read(case, streams, missing):
    events = []
    for number, stream in enumerate(streams[1:]):
        case.do(f"read {number}", stream, reads="x")
        events.append(case.rt.create_event())
        case.rt.record_event(events[-1], stream)
    for event in events[missing:]:
        case.rt.wait_event(streams[0], event)
    case.do("write", streams[0], writes="x")
    assert case.races() == ([(RACE, "read 0", "write")] if missing else [])


def test_every_memory_is_told(case, streams):
    names = " ".join("abcdefghij")
    case.do("first", streams[0], writes=names)
    case.do("second", streams[1], writes=names)
    assert case.races() == [(RACE, "first", "second")]
    assert case.rt.findings()[0].count == 10


def test_a_wait_adds_to_what_a_stream_knows(case, streams):
    one, two = streams[1], streams[2]
    first, second = case.rt.create_event(), case.rt.create_event()
    case.do("a", one, writes="x")
    case.do("b", two, writes="y")
    case.rt.record_event(first, one)
    case.rt.record_event(second, two)
    case.do("c", one, writes="x")
    case.do("d", two, writes="y")
    case.rt.wait_event(two, first)
    case.rt.wait_event(one, second)
    hand_over(case, two, one)
    case.do("e", one, writes="x y")
    assert case.clean()


def test_a_second_record_replaces_the_first(case, streams):
    event = case.rt.create_event()
    case.do("a", streams[1], reads="x")
    case.do("b", streams[2], reads="y")
    case.rt.record_event(event, streams[1])
    case.rt.record_event(event, streams[2])
    case.rt.wait_event(streams[3], event)
    case.do("c", streams[3], writes="x")
    assert case.races() == [(RACE, "a", "c")]


def test_several_streams_wait_for_one_event(case, streams):
    event = case.rt.create_event()
    case.do("a", streams[1], writes="x")
    case.rt.record_event(event, streams[1])
    case.rt.wait_event(streams[2], event)
    case.rt.wait_event(streams[3], event)
    case.do("b", streams[2], reads="x")
    case.do("c", streams[3], reads="x")
    assert case.clean()


def test_a_wait_for_the_device_orders_all_streams(case, streams):
    for number, stream in enumerate(streams[1:]):
        case.do(f"write {number}", stream, writes=f"m{number}")
    case.rt.synchronize_device()
    for number, _ in enumerate(streams[1:]):
        case.do(f"read {number}", streams[0], writes=f"m{number}")
    assert case.clean()


def test_a_wait_for_the_device_does_not_cover_what_comes_after_it(case, streams):
    case.do("a", streams[1], writes="x")
    case.rt.synchronize_device()
    case.do("b", streams[1], writes="x")
    case.do("c", streams[2], writes="x")
    assert case.races() == [(RACE, "b", "c")]


def test_a_stream_made_after_a_wait_for_the_device_knows_of_it(case, streams):
    case.do("a", streams[1], writes="x")
    case.rt.synchronize_device()
    case.do("b", case.rt.create_stream(), writes="x")
    assert case.clean()


@pytest.mark.parametrize("other", [False, True])
def test_a_wait_for_a_stream_covers_it_and_no_other(case, streams, other):
    case.do("a", streams[1], writes="x")
    case.do("b", streams[2], writes="y")
    case.rt.synchronize_stream(streams[1])
    case.do("c", streams[3], reads="y" if other else "x")
    assert case.races() == ([(RACE, "b", "c")] if other else [])


@pytest.mark.parametrize("late", [False, True])
def test_a_wait_for_an_event_covers_what_was_before_its_record(case, streams, late):
    event = case.rt.create_event()
    if not late:
        case.do("a", streams[1], writes="x")
    case.rt.record_event(event, streams[1])
    if late:
        case.do("a", streams[1], writes="x")
    case.rt.synchronize_event(event)
    case.do("b", streams[2], reads="x")
    assert case.races() == ([(RACE, "a", "b")] if late else [])


@pytest.mark.parametrize("same", [True, False])
def test_memory_freed_and_allocated_again(case, streams, same):
    """The sanitizer forgets at a free; here the order of the stream must cover it."""
    first, second = streams[1], streams[1 if same else 2]
    old = case.rt.malloc(512, stream=first)
    case.place("old", old)
    case.do("fill", first, writes="old")
    case.do("use", second, reads="old")
    hand_over(case, first, second)
    case.rt.free(old)
    new = case.rt.malloc(512, stream=first)
    case.place("new", new)
    case.do("refill", first, writes="new")
    found = {("stream-race", "fill", "use"), ("allocator-race", "use", "refill")}
    assert new.address == old.address
    assert set(case.races()) == (set() if same else found)
