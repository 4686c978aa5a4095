"""What a race says: sites, the bytes, and what to write."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runtime_case import POLICIES, Case

from sidestream.harness.runtime import Landing, Runtime, Span, here, merge, strided


def metadata_race(policy):
    """NVIDIA/cudnn-frontend#543: prepared on one stream, used on another."""
    case = Case(policy)
    handle = case.rt.create_stream(name="handle")
    case.do("aten.copy_", case.default, writes="metadata", kind="torch")
    case.do("fwd", handle, reads="metadata")
    case.rt.drain()
    return case, handle


@pytest.mark.parametrize("policy", POLICIES)
def test_a_race_tells_both_sites_and_what_to_write(policy):
    case, handle = metadata_race(policy)
    (finding,) = case.rt.findings()
    assert finding.kind == "stream-race"
    assert finding.kernel == "fwd"
    assert finding.rule.id == "host.stream-order"
    writer, reader = finding.sites
    assert (writer.agent, writer.operation) == ("stream 0x0 (default)", "aten.copy_")
    assert writer.source == "program.py:aten.copy_"
    assert (reader.agent, reader.operation) == (str(handle), "fwd")
    assert reader.detail.splitlines() == ["read", "program.py:fwd"]
    assert finding.need == (
        f"{handle} to wait for stream 0x0 (default) before fwd: wait_stream, or an "
        "event recorded after aten.copy_ and wait_event"
    )
    assert "64 bytes at 0x1000" in finding.message
    assert finding.extra["start"] == 0x1000
    assert "after 0 operations of stream 0x0 (default)" in finding.witness[1]


def test_a_race_is_one_finding_whatever_lands_first():
    ids = {metadata_race(policy)[0].rt.findings()[0].id for policy in POLICIES}
    assert len(ids) == 1


def test_what_is_asked_for_puts_it_right():
    case = Case("laziest")
    handle = case.rt.create_stream()
    case.do("aten.copy_", case.default, writes="metadata", kind="torch")
    case.rt.wait_stream(handle, case.default)
    case.do("fwd", handle, reads="metadata")
    assert case.clean()


def test_the_same_two_calls_are_one_race():
    case = Case("laziest")
    side = case.rt.pool_stream()
    for _ in range(100):
        case.do("a", case.default, writes="x")
        case.do("b", side, writes="x")
        case.rt.synchronize_device()
    (finding,) = case.rt.findings()
    assert finding.count == 100


def test_other_call_sites_are_other_races():
    rt = Runtime()
    side = rt.pool_stream()
    rt.enqueue(kind="fill", label="a", stream=rt.stream(0), writes=[Span(0, 4)])
    rt.enqueue(kind="fill", label="b", stream=side, writes=[Span(0, 4)])
    rt.enqueue(kind="fill", label="b", stream=rt.pool_stream(), writes=[Span(0, 4)])
    rt.drain()
    assert len(rt.races()) >= 2


def test_bytes_that_lie_between_rows_do_not_race():
    """K and V as slices of one interleaved record, written on two streams."""
    rt = Runtime()
    k, v = strided(0, (8, 4), (8, 1), 2), strided(8, (8, 4), (8, 1), 2)
    for stream, spans in ((rt.stream(0), k), (rt.pool_stream(), v)):
        rt.enqueue(kind="torch", label="copy", stream=stream, writes=spans)
    rt.drain()
    assert rt.races() == ()


def test_the_call_site_is_the_users():
    site = here()
    assert "test_the_call_site_is_the_users" in site.frames[0]
    assert not any("sidestream/harness/runtime" in frame for frame in site.frames)


layouts = st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9)), max_size=4)


@given(layout=layouts, item=st.integers(1, 8))
def test_strided_bytes_are_exact(layout, item):
    shape, strides = [n for n, _ in layout], [s for _, s in layout]
    expected = {
        10_000 + item * sum(i * s for i, s in zip(at, strides, strict=True)) + byte
        for at in itertools.product(*(range(n) for n in shape))
        for byte in range(item)
    }
    spans = strided(10_000, shape, strides, item)
    assert {b for s in spans for b in range(s.start, s.end)} == expected
    assert merge(spans) == spans


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=8))
def test_merged_spans_are_the_same_bytes(pairs):
    spans = merge(Span(*pair) for pair in pairs)
    covered = [b for s in spans for b in range(s.start, s.end)]
    assert covered == sorted({b for s, n in pairs for b in range(s, s + n)})
    assert all(a.end < b.start for a, b in itertools.pairwise(spans))


def test_memory_is_named_by_its_allocation_at_the_call_not_at_the_landing():
    rt = Runtime(landing=Landing.parse("laziest"))
    stream, side = rt.stream(0), rt.pool_stream()
    block = rt.malloc(512, stream=stream)
    span = Span(block.address, 512)
    rt.enqueue(kind="torch", label="a", stream=stream, writes=[span])
    rt.enqueue(kind="torch", label="b", stream=side, reads=[span])
    rt.free(block)
    again = rt.malloc(512, stream=stream)
    assert again.address == block.address
    rt.drain()
    (race,) = rt.races()
    assert race.kind == "stream-race"
