"""Host threads: what orders them, and what does not."""

import concurrent.futures
import queue
import threading

import pytest
from runtime_case import POLICIES, Case

from sidestream.harness.runtime import ThreadEdges


@pytest.fixture(params=POLICIES[:3])
def case(request):
    made = Case(request.param)
    with ThreadEdges(made.rt.order):
        yield made


def run(*works):
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def write(case, name="x", label="write"):
    case.rt.host_access(case.memory(name), write=True, label=label)


def test_a_thread_comes_after_its_start_and_before_its_join(case):
    write(case)
    run(lambda: write(case))
    write(case)
    assert case.clean()


def test_two_threads_are_unordered(case):
    thread = threading.Thread(target=lambda: write(case, label="first"))
    thread.start()
    while not case.rt.operations:
        pass  # nothing that would hand over
    write(case, label="second")
    thread.join()
    assert case.races() == [("stream-race", "first", "second")]
    assert "lock, queue or join" in case.rt.findings()[0].need


def hand_over_queue():
    box = queue.Queue()
    return lambda: box.put(1), box.get


def hand_over_simple_queue():
    box = queue.SimpleQueue()
    return lambda: box.put(1), box.get


def hand_over_event():
    event = threading.Event()
    return event.set, event.wait


def hand_over_semaphore():
    gate = threading.Semaphore(0)
    return gate.release, gate.acquire


def hand_over_lock():
    lock = threading.Lock()
    lock.acquire()
    return lock.release, lock.acquire


def hand_over_barrier():
    barrier = threading.Barrier(2)
    return barrier.wait, barrier.wait


def hand_over_condition():
    condition, ready = threading.Condition(), []

    def give():
        with condition:
            ready.append(1)
            condition.notify()

    def take():
        with condition:
            condition.wait_for(lambda: ready)

    return give, take


@pytest.mark.parametrize(
    "make",
    [
        hand_over_queue,
        hand_over_simple_queue,
        hand_over_event,
        hand_over_semaphore,
        hand_over_lock,
        hand_over_barrier,
        hand_over_condition,
    ],
)
def test_what_hands_over(case, make):
    give, take = make()

    def first():
        write(case)
        give()

    def second():
        take()
        write(case)

    run(first, second)
    assert case.clean()


def test_a_pool_of_threads_hands_over(case):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for _ in range(3):
            write(case)
            pool.submit(write, case).result()
    write(case)
    assert case.clean()


def test_a_wait_of_one_thread_orders_its_own_calls_only(case):
    side, other = case.rt.pool_stream(), case.rt.pool_stream()
    case.do("a", side, writes="x")
    waited, started = [], []

    def waits():
        case.rt.synchronize_stream(side)
        waited.append(1)

    def does_not():
        started.append(1)
        while not waited:
            pass
        case.do("b", other, writes="x")

    run(does_not, waits)
    assert started
    assert case.races() == [("stream-race", "a", "b")]


def test_two_threads_on_one_stream_are_ordered_by_it(case):
    side = case.rt.pool_stream()
    run(*(lambda n=n: case.do(f"{n}", side, writes="x") for n in range(4)))
    assert case.clean()


def test_threads_count_as_one_until_they_are_told_apart():
    case = Case("laziest")
    run(lambda: write(case))
    write(case)
    assert case.clean()


def test_everything_is_as_before_afterwards():
    def now():
        thread = threading.Thread
        return threading.Lock, threading.RLock, thread.start, queue.SimpleQueue

    before = now()
    with ThreadEdges(Case().rt.order):
        assert now() != before
    assert now() == before
