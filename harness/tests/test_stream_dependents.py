"""Dependent launches on streams of the runtime are judged as those of one call are.

CUDA, "Programmatic Dependent Launch and Synchronization".
"""

import ctypes
from dataclasses import replace

import pytest
from device_case import launch_of, text_of

from sidestream.harness.exec.machine import Options
from sidestream.harness.run.stream_launches import StreamLaunches
from sidestream.harness.runtime import Landing, Runtime, Span

GO = "griddepcontrol.launch_dependents;\n"
HOLD = "griddepcontrol.wait;\n"
AT = "mul.wide.u32 %rd1, %r0, 4;\nadd.u64 %rd1, %rd0, %rd1;\n"
STORE = AT + "add.u32 %r1, %r0, 5;\nst.global.u32 [%rd1], %r1;\n"
FIRST = text_of(GO + STORE)
EARLY = text_of(AT + "ld.global.u32 %r1, [%rd1];\nst.global.u32 [%rd1 + 256], %r1;\n")
TIMELY = text_of(
    HOLD + AT + "ld.global.u32 %r1, [%rd1];\nst.global.u32 [%rd1 + 256], %r1;\n"
)


class Card:
    def __init__(self, policy, seed=0):
        self.rt = Runtime(landing=Landing.parse(policy))
        self.launches = StreamLaunches(
            runtime=self.rt, options=lambda: Options(seed=seed), profile="practice"
        )
        self.stream = self.rt.pool_stream()
        self.block = self.rt.malloc(512, stream=self.stream)
        ctypes.memset(self.block.address, 0, 512)

    def launch(self, text, *, pdl, stream=None):
        launch = launch_of(text, self.block.address)
        stream = stream or self.stream
        self.launches(replace(launch, pdl=pdl, stream=stream.handle))

    def end(self):
        """Land everything; return kinds of findings of launches and of the host."""
        self.rt.drain()
        self.launches.close()
        outcomes = self.launches.outcomes
        assert [i.reason for o in outcomes for i in o.incomplete] == []
        return (
            [f.kind for o in outcomes for f in o.findings],
            [f.kind for f in self.rt.findings()],
        )

    @property
    def values(self):
        data = ctypes.string_at(self.block.address + 256, 128)
        return list(memoryview(data).cast("I"))


@pytest.fixture(params=["eager", "laziest", "random:3"])
def card(request):
    return Card(request.param)


@pytest.mark.parametrize("second", [EARLY, TIMELY])
def test_a_dependent_may_start_before_the_one_in_front_is_through(card, second):
    card.launch(FIRST, pdl=False)
    card.launch(second, pdl=True)
    inside, outside = card.end()
    assert inside == (["gmem-race"] if second is EARLY else [])
    assert outside == []
    assert len(card.launches.outcomes) == 2
    assert card.values == [n + 5 for n in range(32)]


def test_without_the_attribute_it_may_not(card):
    card.launch(FIRST, pdl=False)
    card.launch(EARLY, pdl=False)
    assert card.end() == ([], [])


def test_what_was_called_in_between_has_to_be_through_first(card):
    card.launch(FIRST, pdl=False)
    card.rt.enqueue(
        kind="torch", label="between", stream=card.stream, reads=[Span(0, 8)]
    )
    card.launch(EARLY, pdl=True)
    assert card.end() == ([], [])


def test_a_dependent_of_another_stream_depends_on_nothing(card):
    card.launch(FIRST, pdl=False)
    card.launch(EARLY, pdl=True, stream=card.rt.pool_stream())
    inside, outside = card.end()
    assert inside == []
    assert set(outside) == {"stream-race"}


def test_a_chain_of_three(card):
    middle = text_of(GO + AT + "st.global.u32 [%rd1 + 128], %r0;\n")
    card.launch(FIRST, pdl=False)
    card.launch(middle, pdl=True)
    card.launch(EARLY, pdl=True)
    assert card.end()[0] == ["gmem-race"]
    assert len(card.launches.outcomes) == 3


@pytest.mark.parametrize("second", [EARLY, TIMELY])
def test_dependents_of_a_replayed_graph(card, second):
    card.rt.begin_capture(card.stream)
    card.launch(FIRST, pdl=False)
    card.launch(second, pdl=True)
    exec = card.rt.instantiate(card.rt.end_capture(card.stream))
    for _ in range(2):
        card.rt.launch_graph(exec, card.stream)
    inside, outside = card.end()
    assert inside == (["gmem-race"] * 2 if second is EARLY else [])
    assert outside == []
    assert len(card.launches.outcomes) == 4


def test_what_a_dependent_touches_is_its_own(card):
    card.launch(FIRST, pdl=False)
    card.launch(TIMELY, pdl=True)
    other = card.rt.pool_stream()
    first = Span(card.block.address, 128)
    card.rt.enqueue(kind="torch", label="reader", stream=other, reads=[first])
    card.end()
    told = {f.sites[0].operation for f in card.rt.findings()} | {
        f.sites[1].operation for f in card.rt.findings()
    }
    assert told == {"k", "reader"}
    assert len(card.rt.races()) == 1  # with the write alone, not with the later read
