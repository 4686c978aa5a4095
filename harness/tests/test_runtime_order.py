"""Races against a model made of sets, over random host programs."""

from contextlib import contextmanager
from unittest import mock

import pytest
from host_model import Model
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_case import POLICIES

from sidestream.harness.runtime import CallSite, Landing, Runtime, Span
from sidestream.harness.runtime.race_log import RaceLog

STREAMS = 5
BLOCKING = frozenset({1, 2})
EVENTS = 3
BYTES = 16

spans = st.lists(
    st.tuples(st.integers(0, BYTES - 1), st.integers(1, 6)), max_size=2
).map(tuple)
streams = st.integers(0, STREAMS - 1)
events = st.integers(0, EVENTS - 1)
steps = st.one_of(
    st.tuples(st.just("operate"), streams, spans, spans),
    st.tuples(st.just("operate"), streams, spans, spans),
    st.tuples(st.just("record"), events, streams),
    st.tuples(st.just("wait"), streams, events),
    st.tuples(st.just("sync stream"), streams),
    st.tuples(st.just("sync event"), events),
    st.tuples(st.just("sync device")),
    st.tuples(st.just("access"), spans, spans),
)
programs = st.lists(steps, max_size=24)


def touched(ranges):
    return {byte for start, size in ranges for byte in range(start, start + size)}


def run_model(program):
    model = Model(blocking=BLOCKING)
    for number, (kind, *rest) in enumerate(program):
        name = f"op {number}"
        match kind:
            case "operate":
                stream, reads, writes = rest
                model.operate(
                    stream, name=name, reads=touched(reads), writes=touched(writes)
                )
            case "record":
                model.record(*rest)
            case "wait":
                model.wait(*rest)
            case "sync stream":
                model.wait_host(model.work_of(rest[0]))
            case "sync event":
                if rest[0] in model.events:
                    model.wait_host([model.events[rest[0]]])
            case "sync device":
                model.wait_host([model.last.get(s) for s in range(STREAMS)])
            case "access":
                reads, writes = rest
                model.host(name=f"{name} r", reads=touched(reads))
                model.host(name=f"{name} w", writes=touched(writes))
    return model


def run_runtime(program, policy):
    rt = Runtime(landing=Landing.parse(policy), depth=8)
    made = [rt.stream(0)]
    made += [rt.create_stream(blocking=s in BLOCKING) for s in range(1, STREAMS)]
    event = [rt.create_event() for _ in range(EVENTS)]
    landed = []
    for number, (kind, *rest) in enumerate(program):
        name = f"op {number}"
        match kind:
            case "operate":
                stream, reads, writes = rest
                rt.enqueue(
                    kind="launch",
                    label=name,
                    stream=made[stream],
                    reads=[Span(*r) for r in reads],
                    writes=[Span(*w) for w in writes],
                    run=lambda name=name: landed.append(name),
                    site=CallSite(frames=(name,)),
                )
            case "record":
                rt.record_event(event[rest[0]], made[rest[1]])
            case "wait":
                rt.wait_event(made[rest[0]], event[rest[1]])
            case "sync stream":
                rt.synchronize_stream(made[rest[0]])
            case "sync event":
                rt.synchronize_event(event[rest[0]])
            case "sync device":
                rt.synchronize_device()
            case "access":
                for ranges, write in zip(rest, (False, True), strict=True):
                    for start, size in ranges:
                        rt.host_access(
                            Span(start, size),
                            write=write,
                            label=f"{name} {'w' if write else 'r'}",
                            site=CallSite(frames=(name,)),
                        )
    rt.drain()
    return rt, landed


@contextmanager
def conflicts_seen():
    """Collect every conflict of a run, before they are folded into races."""
    seen = []

    def add(log, conflict):
        seen.append(conflict)
        whole(log, conflict)

    whole = RaceLog.add
    with mock.patch.object(RaceLog, "add", add):
        yield seen


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=150, deadline=None)
@given(program=programs)
def test_races_are_those_of_the_model(policy, program):
    model = run_model(program)
    with conflicts_seen() as seen:
        rt, landed = run_runtime(program, policy)
    expected = model.races()
    told = set()
    for first, second, span, _, _ in seen:
        pair = tuple(op.label for op in sorted((first, second), key=lambda op: op.id))
        assert pair in expected, f"{pair} is ordered"
        assert set(range(span.start, span.end)) <= expected[pair]
        told |= set(range(span.start, span.end))
    assert told == set().union(*expected.values())
    pairs = {(race.first.label, race.second.label) for race in rt.races()}
    assert pairs >= model.nearest()
    assert bool(rt.races()) == bool(expected)
    position = {name: at for at, name in enumerate(landed)}
    for node in model.nodes:
        for before in node.before:
            other = model.nodes[before].name
            if node.name in position and other in position:
                assert position[other] < position[node.name]


@settings(max_examples=100, deadline=None)
@given(program=programs, seed=st.integers(1, 1000))
def test_a_schedule_replays_every_landing(program, seed):
    rt, landed = run_runtime(program, f"random:{seed}")
    again, replayed = run_runtime(program, rt.schedule().spell())
    assert replayed == landed
    assert [f.id for f in again.findings()] == [f.id for f in rt.findings()]
