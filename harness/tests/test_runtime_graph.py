"""Graphs: replay, order within and around a replay, memory of captures."""

import pytest
from runtime_case import POLICIES, Case

from sidestream.harness.runtime import CudaError

MIB = 1 << 20


@pytest.fixture(params=POLICIES)
def case(request):
    return Case(request.param)


def captured(case, body, stream=None, **given):
    side = stream or case.rt.pool_stream()
    case.rt.begin_capture(side, **given)
    body(side)
    return case.rt.instantiate(case.rt.end_capture(side))


def diamond(case, *, join=True):
    """a, then b beside c, then d; all write x but c, which reads y."""

    def body(side):
        other = case.rt.pool_stream()
        case.do("a", side, writes="x y")
        case.rt.wait_stream(other, side)
        case.do("b", side, writes="x")
        case.do("c", other, reads="y" if join else "x")
        case.rt.wait_stream(side, other)
        case.do("d", side, writes="x y")

    return captured(case, body)


def test_a_replay_runs_every_operation_again(case):
    graph = captured(case, lambda side: case.do("a", side))
    stream = case.rt.pool_stream()
    for _ in range(3):
        case.rt.launch_graph(graph, stream)
    case.rt.synchronize_stream(stream)
    assert case.log == ["a"] * 3
    assert graph.launches == 3


def test_branches_run_in_their_order(case):
    graph = diamond(case)
    case.rt.launch_graph(graph, case.default)
    assert case.clean()
    assert case.log[0] == "a"
    assert case.log[-1] == "d"


def test_a_race_between_branches(case):
    case.rt.launch_graph(diamond(case, join=False), case.default)
    assert case.races() == [("stream-race", "b", "c")]
    assert "branch" in case.rt.races()[0].first.where


@pytest.mark.parametrize("order", ["same", "event", "none"])
def test_a_replay_is_an_operation_of_its_stream(case, order):
    graph = diamond(case)
    stream = case.rt.pool_stream()
    other = stream if order == "same" else case.rt.pool_stream()
    case.do("before", other, writes="x")
    if order == "event":
        case.rt.wait_stream(stream, other)
    case.rt.launch_graph(graph, stream)
    if order == "event":
        case.rt.wait_stream(other, stream)
    case.do("after", other, writes="x")
    found = set(case.races())
    if order != "none":
        assert found == set()
    else:
        assert found
        assert {"before", "after"} & {name for _, *pair in found for name in pair}


def test_replays_of_one_graph_wait_for_each_other(case):
    graph = diamond(case)
    for _ in range(3):
        case.rt.launch_graph(graph, case.rt.pool_stream())
    assert case.clean()
    assert len(case.log) == 12


def test_a_replay_waits_for_every_branch_of_the_one_before(case):
    def body(side):
        other = case.rt.pool_stream()
        case.do("a", side, writes="z")
        case.rt.wait_stream(other, side)
        case.do("b", other, reads="z")
        case.rt.wait_stream(side, other)

    graph = captured(case, body)
    for _ in range(2):
        case.rt.launch_graph(graph, case.rt.pool_stream())
    assert case.clean()


def test_two_executables_of_one_graph_do_not(case):
    graph = diamond(case)
    again = case.rt.instantiate(graph.graph)
    case.rt.launch_graph(graph, case.rt.pool_stream())
    case.rt.launch_graph(again, case.rt.pool_stream())
    assert not case.clean()


def test_the_host_waits_for_a_replay(case):
    graph = diamond(case)
    case.rt.launch_graph(graph, case.default)
    case.rt.synchronize_stream(case.default)
    assert len(case.log) == 4
    case.do("after", case.rt.pool_stream(), writes="x")
    assert case.clean()


def test_a_graph_cannot_be_launched_within_a_capture(case):
    inner, side = diamond(case), case.rt.pool_stream()
    case.rt.begin_capture(side)
    with pytest.raises(CudaError, match="cudaErrorStreamCaptureUnsupported"):
        case.rt.launch_graph(inner, side)
    assert case.rt.capturing(side) == "invalidated"
    assert inner.launches == 0


def test_operations_are_replaced_by_others_of_the_same_shape(case):
    graph = captured(case, lambda side: case.do("old", side))
    other = captured(case, lambda side: case.do("new", side))
    case.rt.update_graph(graph, other.graph)
    case.rt.launch_graph(graph, case.default)
    case.rt.drain()
    assert case.log == ["new"]
    with pytest.raises(CudaError, match="cudaErrorGraphExecUpdateFailure"):
        case.rt.update_graph(graph, diamond(case).graph)


def test_values_are_read_at_the_replay(case):
    cell, seen = [1], []
    graph = captured(
        case, lambda side: case.do("a", side, run=lambda: seen.append(cell[0]))
    )
    for value in (2, 3):
        cell[0] = value
        case.rt.launch_graph(graph, case.default)
        case.rt.synchronize_device()
    assert seen == [2, 3]


def test_memory_of_a_capture_comes_from_its_own_pool():
    case = Case("laziest")
    cached = case.rt.malloc(512, stream=case.default)
    side = case.rt.pool_stream()
    held = case.rt.malloc(512, stream=side)
    case.rt.free(held)
    blocks = []

    def body(stream):
        blocks.append(case.rt.malloc(512, stream=stream))
        case.rt.free(blocks[0])
        blocks.append(case.rt.malloc(512, stream=stream))

    captured(case, body, stream=side)
    assert blocks[0].address == blocks[1].address
    assert blocks[0].address not in (cached.address, held.address)
    assert case.rt.malloc(512, stream=side).address == held.address


def test_a_pool_that_two_captures_share():
    case = Case("laziest")
    pool, addresses = case.rt.graph_pool(), []
    side = case.rt.pool_stream()

    def body(stream):
        block = case.rt.malloc(512, stream=stream)
        addresses.append(block.address)
        case.do(f"use {len(addresses)}", stream, writes="shared")
        case.rt.free(block)

    graphs = [captured(case, body, stream=side, pool=pool) for _ in range(2)]
    assert addresses[0] == addresses[1]
    for graph in graphs:
        case.rt.launch_graph(graph, side)
    assert case.clean()
    for graph in graphs:
        case.rt.launch_graph(graph, case.rt.pool_stream())
    assert not case.clean()


def test_memory_reused_within_a_capture_races_when_branches_do():
    """The allocations are those at the capture, though it is the replay that races."""
    case = Case("laziest")

    def body(side):
        other = case.rt.pool_stream()
        old = case.rt.malloc(512, stream=side)
        case.place("old", old)
        case.do("make", side, writes="old")
        case.rt.wait_stream(other, side)
        case.do("use", other, reads="old")
        case.rt.free(old)
        new = case.rt.malloc(512, stream=side)
        assert new.address == old.address
        case.place("new", new)
        case.do("reuse", side, writes="new")
        case.rt.wait_stream(side, other)

    case.rt.launch_graph(captured(case, body), case.default)
    assert case.races() == [("allocator-race", "use", "reuse")]


def test_record_stream_within_a_capture_keeps_a_block_to_its_end():
    case = Case("laziest")
    side, other = case.rt.pool_stream(), case.rt.pool_stream()

    def body(stream):
        case.rt.wait_stream(other, stream)
        block = case.rt.malloc(512, stream=stream)
        case.rt.record_stream(block, other)
        case.rt.free(block)
        assert case.rt.malloc(512, stream=stream).address != block.address
        case.rt.wait_stream(stream, other)

    captured(case, body, stream=side)


def test_a_block_freed_during_a_capture_waits_for_its_other_streams():
    case = Case("laziest")
    side, user = case.rt.pool_stream(), case.rt.pool_stream()
    block = case.rt.malloc(512, stream=case.default)
    case.do("use", user)
    case.rt.record_stream(block, user)

    captured(case, lambda _: case.rt.free(block), stream=side)
    assert case.rt.malloc(512, stream=case.default).address != block.address
    case.rt.drain()
    assert case.rt.malloc(512, stream=case.default).address == block.address


def test_streams_recorded_within_a_capture_need_no_event():
    case = Case("laziest")
    side, user = case.rt.pool_stream(), case.rt.pool_stream()
    block = case.rt.malloc(512, stream=case.default)
    case.do("elsewhere", user)

    def body(_):
        case.rt.record_stream(block, user)
        case.rt.free(block)

    captured(case, body, stream=side)
    assert case.rt.malloc(512, stream=case.default).address == block.address


def test_a_pool_is_given_back_when_its_graphs_are_gone():
    case = Case("laziest")
    graph = captured(
        case,
        lambda side: case.rt.free(case.rt.malloc(4 * MIB, stream=side)),
    )
    case.rt.empty_cache()
    assert case.rt.memory_stats().reserved == 20 * MIB
    case.rt.release_pool(graph.graph.pool)
    case.rt.empty_cache()
    assert case.rt.memory_stats().reserved == 0


def test_a_failed_capture_leaves_its_pool():
    case = Case("laziest")
    side = case.rt.pool_stream()
    case.rt.begin_capture(side)
    case.rt.free(case.rt.malloc(4 * MIB, stream=side))
    with pytest.raises(CudaError):
        case.rt.synchronize_stream(side)
    with pytest.raises(CudaError):
        case.rt.end_capture(side)
    case.rt.empty_cache()
    assert case.rt.memory_stats().reserved == 0


def test_nothing_is_given_back_for_an_allocation_during_a_capture():
    """pytorch/pytorch#159594: no cudaFree while a capture is under way."""
    case = Case("laziest", memory_bytes=24 * MIB)
    side = case.rt.pool_stream()
    case.rt.free(case.rt.malloc(4 * MIB, stream=case.default))
    case.rt.begin_capture(side)
    with pytest.raises(CudaError, match="cudaErrorMemoryAllocation"):
        case.rt.malloc(20 * MIB, stream=side)
    assert case.rt.capturing(side) == "active"
    case.rt.end_capture(side)
    assert case.rt.malloc(20 * MIB, stream=side)
