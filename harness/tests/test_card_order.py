"""The order of a call's operations on a card, with host memory for the card.

Launches are PTX that the virtual GPU executes for their bytes; events of the driver
are told as CUPTI would tell them.
"""

import contextlib
import ctypes

import pytest
import torch

from sidestream.harness.cuda.card_log import CardLog
from sidestream.harness.cuda.card_order import CardOrder
from sidestream.harness.cuda.driver_audit import DriverCall
from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.errors import UnsupportedError
from sidestream.harness.exec.machine import Options
from sidestream.harness.launch import Launch
from sidestream.harness.run import card_races
from sidestream.harness.run.card_footprint import footprint
from sidestream.harness.runtime import Span

CALL, SIDE = 0x70, 0x80
COPY = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry copy(.param .u64 dst, .param .u64 src)
{
.reg .b32 %r<4>;
.reg .b64 %rd<6>;
ld.param.u64 %rd0, [dst];
ld.param.u64 %rd1, [src];
mov.u32 %r0, %tid.x;
mul.wide.u32 %rd2, %r0, 4;
add.s64 %rd3, %rd1, %rd2;
add.s64 %rd4, %rd0, %rd2;
ld.global.u32 %r1, [%rd3];
st.global.u32 [%rd4], %r1;
ret;
}
"""


class HostCard:
    """Four tensors of a caller, and what a call may do with them."""

    def __init__(self):
        self.current = CALL
        self.given = [torch.arange(64, dtype=torch.int32) for _ in range(4)]
        self.log, self.heard = None, True
        self.beside = torch.zeros(64, dtype=torch.int32)  # in the host's memory

    def memory(self):
        for tensor in self.given:
            yield tensor.data_ptr(), tensor.numpy().view("u1")

    def audit(self, on_call):
        self.on_call = on_call
        if not self.heard:
            raise UnsupportedError("a profiler has CUPTI")
        return contextlib.nullcontext()

    def driver(self, name, *words, status=0, symbol=""):
        held = (ctypes.c_uint64 * max(len(words), 1))(*words)
        for returning in (False, True):
            self.on_call(
                DriverCall(
                    name=name,
                    returning=returning,
                    status=status if returning else 0,
                    symbol=symbol,
                    params=ctypes.addressof(held),
                )
            )

    def edge(self, before, after, event=0xE0):
        self.driver("cuEventRecord", event, before)
        self.driver("cuStreamWaitEvent", after, event)

    @contextlib.contextmanager
    def on(self, stream):
        before, self.current = self.current, stream
        yield
        self.current = before

    def copy(self, to, source, stream=CALL, *, ptx=COPY, threads=64):
        params = (self.given[to].data_ptr(), self.given[source].data_ptr())
        self.log.launched(
            Launch(
                kernel="copy",
                ptx=ptx,
                grid=(1, 1, 1),
                block=(threads, 1, 1),
                stream=stream,
                params=tuple(p.to_bytes(8, "little") for p in params),
            )
        )
        self.given[to][:threads].numpy()[:] = self.given[source][:threads].numpy()

    def order(self, *, exact):
        def touched(launch):
            return footprint(launch, self.memory, Options)

        return CardOrder(
            stream=CALL,
            lent=tuple(Span(t.data_ptr(), 256) for t in self.given),
            current=lambda: self.current,
            on_card=lambda tensor: tensor.data_ptr() != self.beside.data_ptr(),
            touched=touched if exact else None,
        )

    def watched(self, call, *, exact):
        order = self.order(exact=exact)
        self.log = CardLog(table=AllocationTable(), order=order, audit=self.audit)
        with self.log:
            call(self)
        return order


@pytest.fixture
def judge():
    def judged(call, *, heard=True):
        card = HostCard()
        card.heard = heard
        runs = []

        def again():
            runs.append(card.watched(call, exact=True))
            return runs[-1]

        first = card.watched(call, exact=False)
        outcome = card_races.check(
            first, again, heard=heard, unheard=card.log.unaudited, kernel="k"
        )
        return outcome, len(runs)

    return judged


def all_on_one_stream(card):
    card.given[1].fill_(1)
    card.copy(2, 1)
    card.given[3].add_(card.given[2])


def joined(card):
    card.edge(CALL, SIDE)
    with card.on(SIDE):
        card.given[1].fill_(1)
    card.edge(SIDE, CALL)
    card.copy(2, 1)


def launched_aside_and_joined(card):
    card.edge(CALL, SIDE)
    card.copy(2, 1, SIDE)
    card.edge(SIDE, CALL)


@pytest.mark.parametrize("call", [all_on_one_stream, joined, launched_aside_and_joined])
def test_an_ordered_call_is_clean_and_nothing_is_executed_for_it(judge, call):
    outcome, again = judge(call)
    assert outcome.status == "passed", outcome.reason
    assert "every conflict is ordered" in outcome.reason
    assert again == 0


def prepared_on_current(card):
    card.edge(CALL, SIDE)
    with card.on(SIDE):
        card.given[1].fill_(1)
    card.copy(2, 1)
    card.edge(SIDE, CALL)


def launched_elsewhere(card):
    card.copy(2, 1, SIDE)


def waits_for_an_older_record(card):
    card.edge(CALL, SIDE)
    card.driver("cuEventRecord", 0xE1, SIDE)
    with card.on(SIDE):
        card.given[1].fill_(1)
    card.driver("cuStreamWaitEvent", CALL, 0xE1)
    card.copy(2, 1)
    card.edge(SIDE, CALL)


def two_launches(card):
    card.edge(CALL, SIDE)
    card.copy(2, 1, SIDE)
    card.copy(3, 2)
    card.edge(SIDE, CALL)


def filled_by_the_driver(card):
    card.edge(CALL, SIDE)
    card.driver("cuMemsetD32Async", card.given[1].data_ptr(), 0, 64, SIDE)
    card.copy(2, 1)
    card.edge(SIDE, CALL)


RACES = {
    prepared_on_current: "stream 0x70 to wait for stream 0x80 before copy",
    launched_elsewhere: "stream 0x80 to wait for stream 0x70 before copy",
    waits_for_an_older_record: "stream 0x70 to wait for stream 0x80 before copy",
    two_launches: "stream 0x70 to wait for stream 0x80 before copy",
    filled_by_the_driver: "stream 0x70 to wait for stream 0x80 before copy",
}


@pytest.mark.parametrize("call", RACES)
def test_a_missing_edge_is_named(judge, call):
    outcome, again = judge(call)
    assert outcome.status == "failed", outcome.reason
    assert again == 1
    assert {f.kind for f in outcome.findings} == {"stream-race"}
    assert any(f.need.startswith(RACES[call]) for f in outcome.findings)
    assert all(len(f.sites) == 2 for f in outcome.findings)
    assert any("test_card_order.py" in (s.source or "")
               for f in outcome.findings for s in f.sites)  # fmt: skip


def handed_on_while_in_use(card):
    size = 48 << 20  # beyond what malloc keeps: mapped anew, where the last one was
    used = torch.empty(size, dtype=torch.uint8)
    start = used.data_ptr()
    with card.on(SIDE):
        used.fill_(1)
    del used
    again = torch.empty(size, dtype=torch.uint8)
    assert again.data_ptr() == start, "the memory was not handed on"
    again.fill_(2)
    card.edge(SIDE, CALL)


def test_memory_handed_on_while_in_use_is_told_apart(judge):
    outcome, _ = judge(handed_on_while_in_use)
    assert outcome.status == "failed", outcome.reason
    found = [f for f in outcome.findings if f.kind == "allocator-race"]
    assert found
    assert {f.kind for f in outcome.findings} == {"allocator-race"}
    assert any("test_card_order.py" in frame for frame in found[0].extra["allocated"])


def of_another_tensor(card):
    card.edge(CALL, SIDE)
    with card.on(SIDE):
        card.given[0].fill_(1)
    card.copy(2, 1)
    card.edge(SIDE, CALL)


def of_bytes_past_the_launch(card):
    card.edge(CALL, SIDE)
    with card.on(SIDE):
        card.given[1][32:].fill_(1)
    card.copy(2, 1, threads=32)
    card.edge(SIDE, CALL)


def ordered_by_the_host(card):
    card.edge(CALL, SIDE)
    with card.on(SIDE):
        card.given[1].fill_(1)
    card.driver("cuStreamSynchronize", SIDE)
    card.copy(2, 1)


@pytest.mark.parametrize(
    ("call", "runs"),
    [(of_another_tensor, 1), (of_bytes_past_the_launch, 1), (ordered_by_the_host, 0)],
)
def test_what_does_not_meet_is_no_race(judge, call, runs):
    outcome, again = judge(call)
    assert outcome.status == "passed", outcome.reason
    assert again == runs


def test_a_query_that_finds_the_stream_busy_orders_nothing(judge):
    def call(card):
        card.edge(CALL, SIDE)
        with card.on(SIDE):
            card.given[1].fill_(1)
        card.driver("cuStreamQuery", SIDE, status=600)
        card.copy(2, 1)
        card.edge(SIDE, CALL)

    assert judge(call)[0].status == "failed"


def no_ptx(card):
    card.edge(CALL, SIDE)
    with card.on(SIDE):
        card.given[0].fill_(1)
    card.copy(2, 1, ptx="")
    card.edge(SIDE, CALL)


def not_told_of(card):
    config = (ctypes.c_uint64 * 6)()
    config[4] = SIDE  # behind 2 * 3 + 1 words of 32 bits and 4 bytes of padding
    card.driver("cuLaunchKernelEx", ctypes.addressof(config), 0, symbol="theirs")


def beyond_its_tensor(card):
    card.edge(CALL, SIDE)
    with card.on(SIDE):
        card.given[0].fill_(1)
    card.copy(2, 1, threads=512)
    card.edge(SIDE, CALL)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (no_ptx, "copy comes without its PTX"),
        (not_told_of, "theirs on stream 0x80"),
        (beyond_its_tensor, "copy"),
    ],
)
def test_what_is_not_known_is_not_called_clean(judge, call, words):
    outcome, _ = judge(call)
    assert outcome.status == "not-run", outcome.reason
    assert outcome.asked
    assert words in outcome.reason


@pytest.mark.parametrize("call", [all_on_one_stream, prepared_on_current])
def test_without_the_driver_nothing_can_be_judged(judge, call):
    outcome, _ = judge(call, heard=False)
    assert outcome.status == "not-run"
    assert "a profiler has CUPTI" in outcome.reason


def from_pinned(card):
    card.given[1].copy_(card.beside, non_blocking=True)
    card.copy(2, 1)


def to_pinned(card):
    card.copy(2, 1)
    card.beside.copy_(card.given[2], non_blocking=True)


def sent_by_the_driver(card):
    here, there = card.beside.data_ptr(), card.given[1].data_ptr()
    card.driver("cuMemcpyHtoDAsync", there, here, 256, CALL)


@pytest.mark.parametrize("call", [from_pinned, to_pinned, sent_by_the_driver])
def test_a_copy_under_way_in_pinned_memory_is_not_called_clean(
    judge, monkeypatch, call
):
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor: True)
    outcome, again = judge(call)
    assert outcome.status == "not-run", outcome.reason
    assert outcome.asked
    assert "pinned memory" in outcome.reason
    assert again == 0


def waited_for(card):
    card.given[1].copy_(card.beside)
    card.copy(2, 1)


def test_a_copy_that_the_host_waits_for_leaves_nothing_open(judge, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor: True)
    assert judge(waited_for)[0].status == "passed"


def test_a_copy_of_pageable_memory_leaves_nothing_open(judge):
    assert judge(from_pinned)[0].status == "passed"


def test_a_call_that_was_not_watched_is_not_judged():
    first = HostCard().order(exact=False)
    outcome = card_races.check(first, lambda: first, heard=True, unheard="", kernel="k")
    assert outcome.status == "not-run"


def test_the_second_watched_call_has_no_order_of_its_own():
    card = HostCard()
    order = card.watched(all_on_one_stream, exact=False)
    before = order.summary()
    with card.log:
        card.given[0].fill_(2)
    assert order.summary() == before
