"""Copies: staged and pinned sources, who waits; the caching host allocator."""

import pytest
from runtime_case import POLICIES, Case

from sidestream.harness.runtime import CudaError, Span
from sidestream.harness.runtime.copies import rule

PAGEABLE = Span(0x9000_0000, 64)


@pytest.mark.parametrize(
    ("direction", "pinned", "blocking", "staged", "waits"),
    [
        ("h2d", False, False, True, False),
        ("h2d", False, True, True, False),  # waits before instead
        ("h2d", True, False, False, False),
        ("h2d", True, True, False, True),
        ("d2h", False, False, False, True),
        ("d2h", False, True, False, True),
        ("d2h", True, False, False, False),
        ("d2h", True, True, False, True),
        ("d2d", False, False, False, False),
        ("d2d", False, True, False, False),
        ("h2h", False, False, False, True),
    ],
)
def test_rules(direction, pinned, blocking, staged, waits):
    found = rule(direction, pinned=pinned, blocking=blocking)
    assert (found.staged, found.waits) == (staged, waits)


def test_an_unknown_direction():
    with pytest.raises(ValueError, match="d2x"):
        rule("d2x", pinned=True, blocking=False)


class Copies(Case):
    """Copies of one value between a host cell and a device cell."""

    def __init__(self, policy="laziest"):
        super().__init__(policy)
        self.host, self.device = "first", "device"
        block = self.rt.malloc_host(64)
        self.pinned = Span(block.address, 64)
        self.pinned_block = block
        self.there = self.memory("device")

    def upload(self, source, stream=None, **given):
        def take():
            value = self.host

            def run():
                self.device = value

            return run

        return self.rt.copy(
            direction="h2d",
            reads=[source],
            writes=[self.there],
            stream=stream or self.default,
            take=take,
            **given,
        )

    def download(self, target, stream=None, **given):
        def take():
            def run():
                self.host = self.device

            return run

        return self.rt.copy(
            direction="d2h",
            reads=[self.there],
            writes=[target],
            stream=stream or self.default,
            take=take,
            **given,
        )


def test_a_pageable_source_is_read_at_the_call():
    case = Copies()
    case.upload(PAGEABLE)
    case.host = "second"
    case.rt.host_access(PAGEABLE, write=True)
    case.rt.synchronize_device()
    assert case.device == "first"
    assert case.clean()


def test_a_pinned_source_is_read_when_the_copy_lands():
    """sgl-project/mini-sglang#103: the staging buffer is rewritten too early."""
    case = Copies()
    case.upload(case.pinned, label="copy")
    case.host = "second"
    case.rt.host_access(case.pinned, write=True)
    case.rt.synchronize_device()
    assert case.device == "second"
    assert case.races() == [("stream-race", "copy", "host write")]


@pytest.mark.parametrize("blocking", [True, False])
def test_a_pinned_source_after_a_blocking_copy(blocking):
    case = Copies()
    case.upload(case.pinned, blocking=blocking)
    case.rt.host_access(case.pinned, write=True)
    assert case.clean() == blocking


def test_a_pageable_destination_is_there_when_the_call_returns():
    case = Copies()
    case.do("kernel", case.default, writes="device")
    case.download(PAGEABLE)
    assert case.host == "device"
    assert len(case.rt.host_waits) == 1
    case.rt.host_access(PAGEABLE, write=False)
    assert case.clean()


@pytest.mark.parametrize("waits", [True, False])
def test_a_pinned_destination(waits):
    """vllm-project/vllm#36013: the host reads the result without a wait."""
    case = Copies()
    case.download(case.pinned, label="copy")
    assert case.host == "first"
    if waits:
        case.rt.synchronize_stream(case.default)
    case.rt.host_access(case.pinned, write=False)
    assert case.clean() == waits
    if not waits:
        assert case.rt.races()[0].kind == "stream-race"


def test_two_devices_of_a_copy_race_with_kernels():
    case = Copies()
    side = case.rt.pool_stream()
    case.upload(PAGEABLE, stream=side, label="copy")
    case.do("kernel", case.default, reads="device")
    assert case.races() == [("stream-race", "copy", "kernel")]


def test_a_captured_copy_of_pageable_memory_reads_it_at_the_replay():
    """CUDA takes it; it is torch that refuses to capture such a copy."""
    case = Copies()
    side = case.rt.pool_stream()
    case.rt.begin_capture(side)
    case.upload(PAGEABLE, stream=side)
    graph = case.rt.instantiate(case.rt.end_capture(side))
    case.host = "second"
    case.rt.launch_graph(graph, side)
    case.rt.synchronize_stream(side)
    assert case.device == "second"


def test_a_blocking_copy_cannot_be_captured():
    case = Copies()
    side = case.rt.pool_stream()
    case.rt.begin_capture(side)
    with pytest.raises(CudaError, match="cudaErrorStreamCaptureUnsupported"):
        case.upload(PAGEABLE, stream=side, blocking=True)


@pytest.mark.parametrize("blocking", [True, False])
def test_a_blocking_copy_from_pageable_memory_waits_for_the_stream_first(blocking):
    case = Copies()
    case.do("kernel", case.default, writes="other")
    case.upload(PAGEABLE, blocking=blocking)
    assert case.log == (["kernel"] if blocking else [])
    case.do("elsewhere", case.rt.pool_stream(), reads="other")
    assert case.clean() == blocking


def test_a_captured_copy_reads_its_pinned_source_at_every_replay():
    case = Copies()
    side = case.rt.pool_stream()
    case.rt.begin_capture(side)
    case.upload(case.pinned, stream=side)
    graph = case.rt.instantiate(case.rt.end_capture(side))
    for value in ("second", "third"):
        case.host = value
        case.rt.host_access(case.pinned, write=True)
        case.rt.launch_graph(graph, side)
        case.rt.synchronize_stream(side)
        assert case.device == value
    assert case.clean()


def test_a_replay_reads_a_pinned_source_that_the_host_rewrites():
    case = Copies()
    side = case.rt.pool_stream()
    case.rt.begin_capture(side)
    case.upload(case.pinned, stream=side, label="copy")
    graph = case.rt.instantiate(case.rt.end_capture(side))
    case.rt.launch_graph(graph, side)
    case.rt.host_access(case.pinned, write=True)
    assert case.races() == [("stream-race", "copy", "host write")]


def test_pinned_memory_is_reused_after_its_copies():
    case = Copies()
    case.upload(case.pinned)
    case.rt.free_host(case.pinned_block)
    assert case.rt.malloc_host(64).address != case.pinned.start
    case.rt.synchronize_device()
    case.rt.drain()
    assert case.rt.malloc_host(33).address == case.pinned.start


@pytest.mark.parametrize("policy", POLICIES)
def test_the_host_may_fill_pinned_memory_that_it_gets_again(policy):
    case = Copies(policy)
    case.upload(case.pinned)
    case.rt.free_host(case.pinned_block)
    case.rt.drain()
    block = case.rt.malloc_host(64)
    case.rt.host_access(Span(block.address, 64), write=True)
    assert case.clean()


def test_pinned_memory_freed_during_a_capture_waits_for_its_end():
    case = Copies()
    side = case.rt.pool_stream()
    case.upload(case.pinned, stream=side)
    case.rt.begin_capture(side)
    before = case.rt.operations
    case.rt.free_host(case.pinned_block)
    assert case.rt.operations == before
    assert case.rt.malloc_host(64).address != case.pinned.start
    case.rt.end_capture(side)
    case.rt.malloc_host(64)
    case.rt.synchronize_device()
    case.rt.drain()
    assert case.rt.malloc_host(64).address == case.pinned.start


@pytest.mark.parametrize(("asked", "size"), [(1, 1), (64, 64), (65, 128), (1000, 1024)])
def test_pinned_sizes_are_powers_of_two(asked, size):
    assert Case().rt.malloc_host(asked).size == size


def test_memory_pinned_where_it_lies():
    case = Copies()
    case.rt.register_host(PAGEABLE.start, PAGEABLE.size)
    assert case.rt.pinned_at(PAGEABLE.start + 63).address == PAGEABLE.start
    assert case.rt.pinned_at(PAGEABLE.end) is None
    case.upload(PAGEABLE)
    case.rt.host_access(PAGEABLE, write=True)
    assert not case.clean()
    case.rt.unregister_host(PAGEABLE.start)
    assert case.rt.pinned_at(PAGEABLE.start) is None
    with pytest.raises(CudaError, match="cudaErrorInvalidValue"):
        case.rt.unregister_host(PAGEABLE.start)
