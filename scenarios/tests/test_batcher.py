import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestream.harness.errors import ContractError
from sidestream.scenarios.batcher import Request, batch


def make(*rows):
    return [
        Request(number=n, arrival=float(a), context=c, generated=g)
        for n, (a, c, g) in enumerate(rows)
    ]


def run(requests, slots=2, budget=8, seconds=1.0):
    steps = batch(requests, slots=slots, token_budget=budget, step_seconds=seconds)
    return list(steps)


def test_one_request_is_prefilled_in_chunks_and_then_decodes():
    steps = run(make((0, 10, 3)), slots=1, budget=4)
    assert [(s.lengths_q, s.lengths_kv) for s in steps] == [
        ((4,), (4,)),
        ((4,), (8,)),
        ((2,), (10,)),  # ends the prompt and yields the first token
        ((1,), (11,)),
        ((1,), (12,)),
    ]


def test_decodes_go_first_and_prompts_share_what_is_left():
    steps = run(make((0, 2, 9), (1, 9, 2), (1, 9, 2)), slots=3, budget=8)
    assert steps[1].lengths_q == (1, 7, 0)
    assert steps[1].lengths_kv == (3, 7, 0)
    assert steps[2].lengths_q == (1, 2, 5)
    assert steps[2].lengths_kv == (4, 9, 5)


def test_a_starved_prompt_keeps_its_keys_without_queries():
    steps = run(make((0, 20, 1), (0, 20, 1)), slots=2, budget=15)
    assert [s.lengths_q for s in steps] == [(15, 0), (5, 10), (0, 10)]
    first_long = run(make((0, 9, 1), (0, 30, 1), (0, 9, 1)), slots=2, budget=10)
    later = [s for s in first_long if s.requests == (2, 1)]
    assert later[0].lengths_q == (0, 10)
    assert later[0].lengths_kv == (0, 11)


def test_requests_wait_for_a_slot_and_idle_time_is_skipped():
    steps = run(make((0, 1, 3), (0, 1, 1), (100, 1, 1)), slots=1, budget=4)
    assert [s.requests for s in steps] == [(0,), (0,), (0,), (1,), (2,)]
    assert [s.waiting for s in steps] == [1, 1, 1, 0, 0]
    assert steps[-1].time == 100.0


requests = st.lists(
    st.tuples(st.floats(0, 20), st.integers(1, 40), st.integers(1, 6)), max_size=12
)


@given(requests, st.integers(1, 5), st.integers(0, 30), st.floats(0.1, 5))
def test_every_token_is_served_once_and_in_order(rows, slots, spare, seconds):
    served = make(*sorted(rows))
    steps = run(served, slots=slots, budget=slots + spare, seconds=seconds)
    held = dict.fromkeys(range(len(served)), 0)
    for before, step in zip([None, *steps], steps, strict=False):
        assert len(step.lengths_q) == len(step.lengths_kv) == slots
        assert 0 < sum(step.lengths_q) <= slots + spare
        assert before is None or step.time > before.time
        for number, q, kv in zip(
            step.requests, step.lengths_q, step.lengths_kv, strict=True
        ):
            if number is None:
                assert (q, kv) == (0, 0)
                continue
            assert step.time >= served[number].arrival
            assert kv == held[number] + q
            held[number] = kv
    for request in served:
        assert held[request.number] == request.context + request.generated - 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"slots": 0}, "at least 1"),
        ({"slots": 4, "budget": 3}, "at least slots"),
        ({"seconds": 0.0}, "positive"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, message):
    with pytest.raises(ContractError, match=message):
        run(make((0, 1, 1)), **settings)


def test_arrivals_out_of_order_are_refused():
    with pytest.raises(ContractError, match="request 1 arrives before request 0"):
        run(make((5, 1, 1), (4, 1, 1)))
