"""Fills that nobody reads."""

import pytest
from runtime_case import POLICIES, Case

from sidestream.harness.runtime import Effects, Span


@pytest.fixture(params=POLICIES)
def case(request):
    return Case(request.param)


def dead(case):
    case.rt.drain()
    return [fill.op.label for fill in case.rt.fills.dead()]


def test_a_fill_that_is_overwritten_unread(case):
    case.do("fill", case.default, writes="x", kind="fill")
    case.do("kernel", case.default, writes="x")
    case.do("reader", case.default, reads="x")
    assert dead(case) == ["fill"]
    assert case.rt.findings() == ()
    (finding,) = case.rt.dead_fills()
    assert finding.kind == "hidden-launch"
    assert [site.operation for site in finding.sites] == ["fill", "kernel"]


@pytest.mark.parametrize("reader", ["other", "itself", "host"])
def test_a_fill_that_is_read(case, reader):
    case.do("fill", case.default, writes="x", kind="fill")
    if reader == "host":
        case.rt.synchronize_device()
        case.rt.host_access(case.memory("x"), write=False)
    if reader == "other":
        case.do("reader", case.default, reads="x")
    case.do("kernel", case.default, reads="x" * (reader == "itself"), writes="x")
    assert dead(case) == []


def test_a_fill_that_nothing_overwrites(case):
    case.do("fill", case.default, writes="x", kind="fill")
    case.do("kernel", case.default, writes="y")
    assert dead(case) == []


@pytest.mark.parametrize("parts", [0, 1, 4])
def test_a_fill_that_is_overwritten_in_parts(case, parts):
    """What nobody has read at the end nobody will read."""
    start = case.memory("x", 64).start
    case.do("fill", case.default, writes="x", kind="fill")
    for offset in (0, 16, 32, 48)[:parts]:
        case.rt.enqueue(
            kind="launch",
            label="part",
            stream=case.default,
            writes=[Span(start + offset, 16)],
        )
    assert dead(case) == (["fill"] if parts else [])
    told = [finding.message for finding in case.rt.dead_fills()]
    assert ("all but 48 of them" in str(told)) == (parts == 1)


def test_the_launch_that_overwrites_is_named_though_a_fill_comes_first(case):
    start = case.memory("x", 64).start
    case.do("fill", case.default, writes="x", kind="fill")
    for kind, offset in (("fill", 0), ("launch", 16), ("fill", 0)):
        case.rt.enqueue(
            kind=kind,
            label=kind,
            stream=case.default,
            writes=[Span(start + offset, 64 - offset)],
        )
    assert [fill.over.kind for fill in case.rt.fills.dead()] in ([], ["fill", "launch"])
    case.rt.drain()
    assert [fill.over.kind for fill in case.rt.fills.dead()] == ["fill", "launch"]


def test_one_byte_that_is_read_keeps_a_fill(case):
    start = case.memory("x", 64).start
    case.do("fill", case.default, writes="x", kind="fill")
    case.rt.enqueue(
        kind="launch", label="r", stream=case.default, reads=[Span(start + 63, 1)]
    )
    case.do("kernel", case.default, writes="x")
    assert dead(case) == []


def test_a_launch_tells_what_it_touched_when_it_landed(case):
    span = case.memory("x")
    case.do("fill", case.default, writes="x", kind="fill")
    case.do(
        "kernel",
        case.default,
        reads="x",
        writes="x",
        run=lambda: Effects(writes=(span,)),
    )
    assert dead(case) == ["fill"]
    assert case.rt.incomplete() == ()


def test_what_a_launch_could_not_tell_is_incomplete(case):
    for _ in range(2):
        case.do("kernel", case.default, run=lambda: Effects(incomplete=("no idea",)))
    case.rt.drain()
    (reason,) = case.rt.incomplete()
    assert (reason.kernel, reason.reason) == ("kernel", "no idea")


def test_a_second_fill_makes_the_first_dead(case):
    case.do("first", case.default, writes="x", kind="fill")
    case.do("second", case.default, writes="x", kind="fill")
    case.do("reader", case.default, reads="x")
    assert dead(case) == ["first"]
