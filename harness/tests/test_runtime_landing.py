"""Landing policies and the graph of pending operations."""

import pytest
from runtime_case import Case

from sidestream.harness.errors import UsageError
from sidestream.harness.runtime import Landing
from sidestream.harness.runtime.landing import Decisions
from sidestream.harness.runtime.op import Op
from sidestream.harness.runtime.pending import Queue


@pytest.mark.parametrize(
    "text",
    ["eager", "laziest", "latest", "round-robin", "random:7", "random:123456789"],
)
def test_policies_are_spelled_as_they_are_read(text):
    assert Landing.parse(text).spell() == text


def test_a_given_policy_is_read_back():
    given = Landing(policy="given", choices=((0, 2), (5, 1)))
    assert Landing.parse(given.spell()) == given


@pytest.mark.parametrize("text", ["", "random", "random:0", "lazy", "given:%%"])
def test_what_is_no_policy(text):
    with pytest.raises(UsageError):
        Landing.parse(text)


def four(policy):
    case = Case(policy)
    for name in "abcd":
        stream = case.rt.pool_stream()
        case.do(f"{name}1", stream)
        case.do(f"{name}2", stream)
    return case, stream


def test_eager_lands_within_the_call():
    case, _ = four("eager")
    assert case.log == ["a1", "a2", "b1", "b2", "c1", "c2", "d1", "d2"]


def test_laziest_lands_only_what_is_needed():
    case, last = four("laziest")
    case.rt.synchronize_stream(last)
    assert case.log == ["d1", "d2"]


def test_latest_shows_a_missing_edge_in_the_values():
    case = Case("latest")
    side, seen, value = case.rt.pool_stream(), [], []
    case.do("produce", case.default, run=lambda: value.append(1))
    case.do("consume", side, run=lambda: seen.append(list(value)))
    case.do("beside", case.rt.pool_stream())
    case.rt.wait_stream(case.default, side)
    case.rt.synchronize_stream(case.default)
    assert case.log == ["consume", "produce"]
    assert seen == [[]]


def test_round_robin_serves_streams_in_turn():
    case, _ = four("round-robin")
    case.rt.synchronize_device()
    assert case.log == ["a1", "b1", "c1", "d1", "a2", "b2", "c2", "d2"]


def test_random_lands_what_is_not_needed_too():
    logs = set()
    for seed in range(1, 30):
        case, last = four(f"random:{seed}")
        case.rt.synchronize_stream(last)
        assert case.log[-1] == "d2"
        logs.add(tuple(case.log))
    assert len(logs) > 10


def test_a_seed_decides_everything():
    runs = [four("random:5") for _ in range(2)]
    for case, _ in runs:
        case.rt.synchronize_device()
    assert runs[0][0].log == runs[1][0].log


def test_a_shortened_schedule_still_runs():
    case, last = four("random:9")
    case.rt.synchronize_stream(last)
    made = case.rt.schedule()
    assert made.choices
    for left_out in range(len(made.choices)):
        fewer = made.choices[:left_out] + made.choices[left_out + 1 :]
        again, last = four(Landing(policy="given", choices=fewer).spell())
        again.rt.synchronize_stream(last)
        assert "d2" in again.log


def test_an_answer_that_no_longer_fits_means_the_last_candidate():
    given = Landing(policy="given", choices=((0, 99),))
    case, last = four(given.spell())
    case.rt.synchronize_stream(last)
    assert case.log == ["c1", "d1", "d2"]


def test_a_full_queue_lands_its_oldest():
    case = Case("laziest", depth=3)
    for number in range(5):
        case.do(f"{number}", case.default)
    assert case.log == ["0", "1"]


def make(number, agent=1):
    return Op(id=number, kind="launch", label=f"{number}", agent=agent)


def test_operations_wait_for_what_they_come_after():
    landed = []
    queue = Queue(
        Decisions(Landing(policy="laziest")), lambda op, _: landed.append(op.id)
    )
    queue.add(make(1), None, [])
    queue.add(make(2), None, [1])
    queue.add(make(3), None, [1])
    queue.add(make(4), None, [2, 3, 99])
    queue.add(make(5), None, [])
    assert queue.needed([4]) == {1, 2, 3, 4}
    queue.finish([4])
    assert landed == [1, 2, 3, 4]
    assert queue.all() == [5]
    assert queue.holds(5)
    assert not queue.holds(4)
