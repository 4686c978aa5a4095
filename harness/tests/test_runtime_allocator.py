"""The caching allocator: torch's sizes, splits and reuse, and races by reuse."""

import threading
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_case import POLICIES, Case

from sidestream.harness.runtime import CallSite, CudaError, Runtime, Span
from sidestream.harness.runtime.blocks import rounded, segment_size

KIB, MIB = 1 << 10, 1 << 20


class Addresses:
    """A backing of nothing but addresses."""

    def __init__(self):
        self.next, self.held = 1 << 40, {}

    def reserve(self, size, device):
        address, self.next = self.next, self.next + size + 4 * MIB
        self.held[address] = size
        return address

    def release(self, address):
        del self.held[address]


def at(place):
    return CallSite(frames=(place,))


@pytest.fixture
def case():
    return Case("laziest", backing=Addresses())


@pytest.mark.parametrize(
    ("asked", "block", "segment"),
    [
        (0, 512, 2 * MIB),
        (1, 512, 2 * MIB),
        (512, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (11 * MIB, 11 * MIB, 12 * MIB),
    ],
)
def test_sizes(asked, block, segment):
    assert rounded(asked) == block
    assert segment_size(rounded(asked)) == segment


def test_a_small_segment_is_split_down_to_512_bytes(case):
    rt, stream = case.rt, case.default
    blocks = [rt.malloc(100, stream=stream) for _ in range(4096)]
    assert [b.address - blocks[0].address for b in blocks[:3]] == [0, 512, 1024]
    assert rt.memory_stats().reserved == 2 * MIB
    rt.malloc(1, stream=stream)
    assert rt.memory_stats().reserved == 4 * MIB


def test_a_large_block_keeps_a_rest_of_up_to_1_mib(case):
    rt, stream = case.rt, case.default
    first = rt.malloc(18 * MIB + 2 * MIB - 512, stream=stream)
    rt.free(first)
    assert rt.malloc(19 * MIB, stream=stream).size == 20 * MIB
    other = rt.malloc(20 * MIB, stream=stream)
    rt.free(other)
    assert rt.malloc(19 * MIB - 512, stream=stream).size == 19 * MIB - 512


def test_the_smallest_block_that_fits_is_taken(case):
    rt, stream = case.rt, case.default
    kept, blocks = [], {}
    for size in (4 * KIB, 2 * KIB, 8 * KIB):
        blocks[size] = rt.malloc(size, stream=stream)
        kept.append(rt.malloc(512, stream=stream))
    for block in blocks.values():
        rt.free(block)
    assert rt.malloc(2 * KIB, stream=stream).address == blocks[2 * KIB].address
    assert rt.malloc(3 * KIB, stream=stream).address == blocks[4 * KIB].address


def test_neighbours_are_joined(case):
    rt, stream = case.rt, case.default
    a, b, c, d = (rt.malloc(512, stream=stream) for _ in range(4))
    for block in (a, c, b):
        rt.free(block)
    assert rt.malloc(1536, stream=stream).address == a.address
    assert d.allocated


def test_a_freed_block_is_reused_by_its_stream_only(case):
    rt, other = case.rt, case.rt.pool_stream()
    block = rt.malloc(512, stream=case.default)
    rt.free(block)
    assert rt.malloc(512, stream=other).address != block.address
    assert rt.malloc(512, stream=case.default).address == block.address


def test_record_stream_keeps_a_block_back(case):
    rt, side = case.rt, case.rt.pool_stream()
    block = rt.malloc(512, stream=case.default)
    case.do("side", side)
    rt.record_stream(block, side)
    rt.free(block)
    assert rt.malloc(512, stream=case.default).address != block.address
    event = rt.create_event()
    rt.record_event(event, side)
    case.do("later", side)
    rt.synchronize_event(event)
    assert rt.malloc(512, stream=case.default).address == block.address
    assert case.log == ["side"]


def test_recording_the_stream_it_was_made_on_changes_nothing(case):
    rt = case.rt
    block = rt.malloc(512, stream=case.default)
    rt.record_stream(block, case.default)
    rt.free(block)
    assert rt.malloc(512, stream=case.default).address == block.address


def test_one_open_event_holds_back_those_behind_it(case):
    """Events of a stream are looked at in order, as torch does."""
    rt, one, two = case.rt, case.rt.pool_stream(), case.rt.pool_stream()
    case.do("slow", one)
    block = rt.malloc(512, stream=case.default)
    rt.record_stream(block, one)
    rt.record_stream(block, two)
    rt.free(block)
    rt.synchronize_stream(two)
    assert rt.malloc(512, stream=case.default).address != block.address
    rt.synchronize_stream(one)
    rt.drain()
    assert rt.malloc(512, stream=case.default).address == block.address


def test_a_block_that_is_held_back_does_not_join_its_neighbours(case):
    rt, side = case.rt, case.rt.pool_stream()
    a, b, c = (rt.malloc(512, stream=case.default) for _ in range(3))
    first, third = a.address, c.address
    case.do("side", side)
    rt.record_stream(b, side)
    rt.free(b)
    rt.free(a)
    rt.free(c)
    assert rt.malloc(1536, stream=case.default).address == third
    rt.drain()
    assert rt.malloc(1024, stream=case.default).address == first


def use_freed(case, *, remedy):
    """The side stream reads what the default stream allocated and takes again."""
    rt, side = case.rt, case.rt.pool_stream()
    block = rt.malloc(512, stream=case.default)
    case.place("old", block)
    case.do("make", case.default, writes="old")
    rt.wait_stream(side, case.default)
    case.do("use", side, reads="old")
    if remedy == "record_stream":
        rt.record_stream(block, side)
    if remedy == "wait_stream":
        rt.wait_stream(case.default, side)
    if remedy == "synchronize":
        rt.synchronize_stream(side)
    rt.free(block)
    if remedy == "land":
        rt.drain()
    again = rt.malloc(512, stream=case.default)
    case.place("new", again)
    case.do("reuse", case.default, writes="new")
    return block, again


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("remedy", ["record_stream", "wait_stream", "synchronize"])
def test_reuse_that_is_ordered(policy, remedy):
    case = Case(policy, backing=Addresses())
    use_freed(case, remedy=remedy)
    assert case.clean()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("remedy", ["", "land"])
def test_reuse_that_nothing_orders(policy, remedy):
    """Whether the old operation happens to be done by then makes no difference."""
    case = Case(policy, backing=Addresses())
    old, new = use_freed(case, remedy=remedy)
    assert old.address == new.address
    assert case.races() == [("allocator-race", "use", "reuse")]
    (finding,) = case.rt.findings()
    assert finding.rule.id == "host.allocator-reuse"
    assert f"record_stream({case.rt.races()[0].first.where})" in finding.need
    assert "use_freed" in finding.extra["freed"][0]
    assert "use_freed" in finding.extra["allocated"][0]


def test_reuse_after_an_event_of_record_stream_is_ordered_for_that_block_alone():
    case = Case("laziest", backing=Addresses())
    rt, side = case.rt, case.rt.pool_stream()
    block = rt.malloc(512, stream=case.default)
    case.place("old", block)
    case.do("use", side, writes="old other")
    rt.record_stream(block, side)
    rt.free(block)
    rt.drain()
    again = rt.malloc(512, stream=case.default)
    assert again.address == block.address
    case.place("new", again)
    case.do("reuse", case.default, writes="new other")
    assert case.races() == [("stream-race", "use", "reuse")]


def test_a_block_that_moves_between_streams_after_a_wait_for_the_device(case):
    rt, side = case.rt, case.rt.pool_stream()
    block = rt.malloc(3 * MIB, stream=case.default)
    case.place("old", block)
    case.do("use", case.default, writes="old")
    rt.free(block)
    rt.empty_cache()
    assert rt.memory_stats().reserved == 0
    case.place("new", rt.malloc(3 * MIB, stream=side))
    case.do("other", side, writes="new")
    assert case.clean()


def test_empty_cache_waits_for_blocks_that_are_held_back(case):
    rt, side = case.rt, case.rt.pool_stream()
    block = rt.malloc(3 * MIB, stream=case.default)
    case.do("use", side)
    rt.record_stream(block, side)
    rt.free(block)
    rt.empty_cache()
    assert case.log == ["use"]
    assert rt.memory_stats().reserved == 0


def test_what_follows_empty_cache_comes_after_what_it_waited_for(case):
    rt, side = case.rt, case.rt.pool_stream()
    block, kept = (rt.malloc(512, stream=case.default) for _ in range(2))
    case.do("use", side, writes="other")
    rt.record_stream(block, side)
    rt.free(block)
    rt.empty_cache()
    case.do("later", case.default, reads="other")
    assert kept.allocated
    assert case.clean()


def test_a_race_names_the_allocation_that_was_used_then(case):
    """Three tenants of one block; the first still reads when the third writes."""
    rt, side = case.rt, case.rt.pool_stream()
    for number in range(3):
        block = rt.malloc(512, stream=case.default, site=at(f"malloc {number}"))
        case.place("x", block)
        if number == 0:
            case.do("use", side, reads="x")
        if number == 2:
            case.do("reuse", case.default, writes="x")
        rt.free(block, site=at(f"free {number}"))
    assert case.races() == [("allocator-race", "use", "reuse")]
    (finding,) = rt.findings()
    assert finding.extra["freed"] == ["free 0"]
    assert finding.extra["allocated"] == ["malloc 2"]


def test_empty_cache_keeps_segments_in_use(case):
    rt = case.rt
    first, second = (rt.malloc(3 * MIB, stream=case.default) for _ in range(2))
    rt.free(first)
    rt.empty_cache()
    assert rt.memory_stats().reserved == 20 * MIB
    rt.free(second)
    rt.empty_cache()
    assert rt.memory_stats().reserved == 0


def test_the_device_has_an_end():
    rt = Runtime(memory_bytes=24 * MIB, backing=Addresses())
    stream, side = rt.stream(0), rt.pool_stream()
    block = rt.malloc(3 * MIB, stream=stream)
    with pytest.raises(CudaError, match="cudaErrorMemoryAllocation") as error:
        rt.malloc(20 * MIB, stream=side)
    assert error.value.number == 2
    rt.free(block)
    assert rt.malloc(20 * MIB, stream=side)
    assert rt.memory_stats().retries == 2
    assert rt.memory_stats().out_of_memory == 1


def test_statistics(case):
    rt = case.rt
    a = rt.malloc(100, stream=case.default)
    b = rt.malloc(3 * MIB, stream=case.default)
    rt.free(b)
    stats = rt.memory_stats()
    assert (stats.allocated, stats.requested) == (512, 100)
    assert stats.allocated_peak == 512 + 3 * MIB
    assert (stats.reserved, stats.segments) == (22 * MIB, 2)
    assert (stats.allocations, stats.frees) == (2, 1)
    assert list(rt.blocks()) == [a]
    assert rt.block_at(a.address) is a


def test_devices_have_memory_of_their_own():
    rt = Runtime(devices=2, backing=Addresses())
    rt.malloc(512, stream=rt.stream(0, device=1))
    assert rt.memory_stats(0).allocated == 0
    assert rt.memory_stats(1).allocated == 512


def test_memory_of_the_process_can_be_written():
    import ctypes

    rt = Runtime()
    block = rt.malloc(3 * MIB, stream=rt.stream(0))
    ctypes.memset(block.address, 7, block.size)
    assert block.address % 512 == 0
    rt.free(block)
    rt.empty_cache()


@pytest.mark.parametrize("how", ["empty_cache", "cudaFree"])
def test_the_driver_hands_memory_to_another_thread(how):
    """Nothing orders the threads, and the memory is clean all the same."""

    class Same(Addresses):
        def reserve(self, size, device):
            self.next = 1 << 40
            return super().reserve(size, device)

    case = Case("laziest", backing=Same())
    rt = case.rt
    rt.order.tell_threads_apart()

    def use(name):
        stream = rt.pool_stream()
        if how == "cudaFree":
            address = rt.cuda_malloc(512)
        else:
            block = rt.malloc(512, stream=stream)
            address = block.address
        case.names["x"] = Span(address, 512)
        case.do(name, stream, writes="x")
        if how == "cudaFree":
            rt.cuda_free(address)
        else:
            rt.free(block)
            rt.empty_cache()

    use("mine")
    thread = threading.Thread(target=use, args=("theirs",))
    thread.start()
    thread.join()
    assert case.clean()
    assert case.log == ["mine", "theirs"]


def test_cuda_free_waits_for_the_device(case):
    rt, side = case.rt, case.rt.pool_stream()
    address = rt.cuda_malloc(100)
    case.do("use", side)
    rt.cuda_free(address)
    assert case.log == ["use"]
    with pytest.raises(CudaError, match="cudaErrorInvalidValue"):
        rt.cuda_free(address)


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 24 * MIB), st.integers(0, 9)),
        max_size=40,
    )
)
def test_live_blocks_never_overlap_and_everything_comes_back(steps):
    backing = Addresses()
    rt = Runtime(backing=backing)
    streams = [rt.stream(0), rt.pool_stream(), rt.pool_stream()]
    live = []
    for stream, size, free in steps:
        if free > 5 and live:
            rt.free(live.pop(free % len(live)))
        else:
            size = size if free % 2 else size % (2 * MIB)
            live.append(rt.malloc(size, stream=streams[stream]))
        spans = sorted((b.address, b.address + b.size) for b in live)
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
        for block in live:
            assert block.size >= block.requested
            assert any(
                start <= block.address and block.address + block.size <= start + size
                for start, size in backing.held.items()
            )
        assert rt.memory_stats().allocated == sum(b.size for b in live)
        assert rt.memory_stats().reserved == sum(backing.held.values())
    for block in live:
        rt.free(block)
    rt.empty_cache()
    assert backing.held == {}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        ("", []),
        ("used before", [("stream-race", "cudaMallocAsync", "use")]),
        ("used after", [("stream-race", "use", "cudaFreeAsync")]),
    ],
)
def test_stream_ordered_memory(policy, wrong, found):
    case = Case(policy, backing=Addresses())
    rt, side, user = case.rt, case.rt.pool_stream(), case.rt.pool_stream()
    address = rt.malloc_async(512, side)
    case.names["x"] = Span(address, 512)
    if wrong != "used before":
        rt.wait_stream(user, side)
    case.do("use", user, reads="x")
    if wrong != "used after":
        rt.wait_stream(side, user)
    rt.free_async(address, side)
    assert case.races() == found


def test_stream_ordered_memory_comes_again_on_its_stream(case):
    rt, side = case.rt, case.rt.pool_stream()
    address = rt.malloc_async(100, side)
    rt.free_async(address, side)
    assert rt.malloc_async(100, case.default) != address
    assert rt.malloc_async(100, side) == address
    rt.free_async(address, side)
    with pytest.raises(CudaError, match="cudaErrorInvalidValue"):
        rt.free_async(address, side)
    assert case.clean()


def test_a_finalizer_may_free_in_the_middle_of_a_call():
    case = Case("laziest", backing=Addresses())
    rt, side = case.rt, case.rt.pool_stream()
    old, seen = rt.malloc(512, stream=side), []

    def run():
        rt.record_stream(old, case.default)
        rt.free(old)
        seen.append(rt.block_at(old.address))

    case.do("k", side, run=run)
    rt.synchronize_stream(side)
    assert seen == [old]
    assert rt.block_at(old.address) is None
