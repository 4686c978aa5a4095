"""Cases on a card that host memory stands in for (`stand_in_card`)."""

import dataclasses

import pytest
import torch
from stand_in_card import HostWorld, Made, NoLog, host_world

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.errors import UsageError
from sidestream.harness.finding import Verdict
from sidestream.harness.run import card_case, card_series, card_stalls, card_world
from sidestream.harness.run.bench import Bench
from sidestream.harness.run.card_call import CardCall
from sidestream.harness.run.card_world import GUARD
from sidestream.harness.run.case import run_case
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.settings import Settings
from sidestream.scenarios import catalogue
from sidestream.scenarios.case import build

SETTINGS = Settings(device="cuda", arch="sm_90a")


@pytest.fixture
def outcome(monkeypatch):
    def run(
        deed=lambda tensors, scratch: None,
        *,
        name="nan-tail",
        keyed=False,
        world=HostWorld,
        **facts,
    ):
        monkeypatch.setattr(
            card_case, "current_world", lambda **_: host_world(kind=world)
        )
        scenario = catalogue.by_name(name)
        made = Made(scenario, deed, keyed)
        vars(made).update(facts)
        bench = Bench(settings=SETTINGS, driver=made)
        # `Made` is torch on host memory all through, which is no host work of a call.
        monkeypatch.setattr(card_case, "CardLog", NoLog)
        return run_case(bench, scenario)

    return run


def told(outcome):
    return {f.kind for f in outcome.findings}


@pytest.mark.parametrize("name", ["nan-tail", "fused-qkv", "many-single-tokens"])
def test_a_faithful_implementation_is_clean(outcome, name):
    case = outcome(name=name).case
    assert case.verdict is Verdict.CLEAN, case.checks
    assert set(case.checks) == {
        *("parity", "execution", "bounds", "scratch", "determinism", "host-sync"),
        *("cache", "race", "stream", "capture"),
    }
    assert case.checks["race"].status == "passed"
    assert "every conflict is ordered" in case.checks["race"].reason
    assert case.compiles == 1


def test_what_host_code_does_is_shown_once_for_each_plan(monkeypatch):
    monkeypatch.setattr(card_case, "current_world", lambda **_: host_world())
    monkeypatch.setattr(card_case, "CardLog", NoLog)
    scenario = catalogue.by_name("two-short")
    longer = dataclasses.replace(
        scenario,
        name="other lengths",
        lengths_q=scenario.lengths_q[::-1],
        lengths_kv=scenario.lengths_kv[::-1],
    )
    aside = dataclasses.replace(scenario, name="aside", stream="side")
    made = Made(scenario)
    bench = Bench(settings=SETTINGS, driver=made)
    cases = []
    for one in (scenario, longer, aside):
        made.scenario = one
        cases.append(run_case(bench, one).case)
    assert [c.verdict for c in cases] == [Verdict.CLEAN] * 3, cases[1].checks
    for name in ("host-sync", "race"):
        first, second, third = (case.checks[name] for case in cases)
        assert (first.status, second.status) == ("passed", "not-run")
        assert second.reason.endswith("watched in two-short")
        assert third.status == "passed"  # on another stream the host may differ
    for name in ("scratch", "determinism", "bounds", "capture", "execution", "parity"):
        assert cases[1].checks[name].status == "passed"
    assert "watched in two-short" in cases[1].checks["stream"].reason
    assert "watched in two-short" in cases[1].checks["cache"].reason


def test_a_call_without_tokens_says_nothing_of_one_with_some(monkeypatch):
    monkeypatch.setattr(card_case, "current_world", lambda **_: host_world())
    monkeypatch.setattr(card_case, "CardLog", NoLog)
    some = catalogue.by_name("two-short")
    none = dataclasses.replace(
        some, name="none", lengths_q=(0, 0), tail_q=0, tail_fill="nan"
    )
    assert none.capacity_q == 0
    made = Made(none)
    bench = Bench(settings=SETTINGS, driver=made)
    for scenario in (none, some):
        made.scenario = scenario
        assert failed(run_case(bench, scenario)) == set()
    assert sorted(bench.watched.values()) == ["none", "two-short"]


def test_a_plan_whose_host_code_failed_is_watched_again(monkeypatch):
    monkeypatch.setattr(card_case, "current_world", lambda **_: host_world())
    monkeypatch.setattr(card_case, "CardLog", NoLog)
    scenario = catalogue.by_name("two-short")
    made = Made(scenario)
    made.launch_stream = 0
    bench = Bench(settings=SETTINGS, driver=made)
    for _ in range(2):
        assert failed(run_case(bench, scenario)) == {"stream"}
        assert bench.watched == {}


def last_row(tensors, scratch):
    tensors.out[-1] = 1.0


def before_out(tensors, scratch):
    # The element before the tensor: the guard's last two bytes.
    flat = tensors.out.as_strided((1,), (1,), tensors.out.storage_offset() - 1)
    flat[0] = 1.0


def an_input(tensors, scratch):
    tensors.k[0, 0, 0] = 3.0


def from_scratch(tensors, scratch):
    tensors.out[0, 0, 0] = float(scratch[0])


def neighbour(tensors, scratch):
    # Row 0 takes the sign of another sequence's query.
    tensors.out[0] *= torch.sign(tensors.q[150, 0, 0])


CALLS = []


def each_time_another(tensors, scratch):
    CALLS.append(None)
    tensors.out[0, 0, 0] += 2.0 * len(CALLS)


def illegal(tensors, scratch):
    raise RuntimeError("CUDA error: an illegal memory access\nmore lines")


DEEDS = {
    "a row past the total": (last_row, "bounds", "stray-write"),
    "the guard": (before_out, "bounds", "stray-write"),
    "an input": (an_input, "bounds", "stray-write"),
    "scratch": (from_scratch, "scratch", "uninit-read"),
    "a neighbour": (neighbour, "bounds", "stray-write"),
    "another result each time": (each_time_another, "determinism", "nondeterminism"),
    "an error of the card": (illegal, "execution", "contract"),
}


@pytest.mark.parametrize("name", DEEDS)
def test_what_a_card_does_wrong_is_found(outcome, name):
    deed, check, kind = DEEDS[name]
    found = outcome(deed)
    assert found.case.verdict is Verdict.FINDINGS
    assert found.case.checks[check].status == "failed", found.case.checks
    assert kind in told(found)


def once_more(deed):
    """Do something from the fifth call on: in replays, not in watched calls."""
    calls = []

    def later(tensors, scratch):
        calls.append(None)
        if len(calls) > 4:
            deed(tensors, scratch)

    return later


def behind_lse(tensors, scratch):
    lse = tensors.lse
    assert lse.is_contiguous()
    lse.as_strided((1,), (1,), lse.storage_offset() + lse.numel())[0] = 1.0


def a_length(tensors, scratch):
    tensors.lengths_q[0] += 1


LATER = {
    "a row past the total": (last_row, "bounds"),
    "the guard before": (before_out, "bounds"),
    "the guard behind": (behind_lse, "bounds"),
    "an input": (an_input, "bounds"),
    "lengths": (a_length, "bounds"),
    "a result": (lambda t, s: t.out[0, 0].zero_(), "determinism"),
    "the LSE of a row": (lambda t, s: t.lse[0].zero_(), "determinism"),
}


@pytest.mark.parametrize("name", LATER)
def test_what_only_replays_do_wrong_is_found(outcome, name):
    deed, check = LATER[name]
    found = outcome(once_more(deed))
    assert check in failed(found), found.case.checks


def test_calls_that_are_looked_at_in_parts_give_the_same(outcome, monkeypatch):
    parts = []
    given = card_series.Series._given

    def counted(series, part):
        parts.append([made.label for made in part])
        return given(series, part)

    monkeypatch.setattr(card_series.Series, "_given", counted)
    assert failed(outcome()) == set()
    assert len(parts) == 1
    together = parts.pop()
    monkeypatch.setattr(card_series, "MOST_BYTES", 1)
    assert failed(outcome()) == set()
    assert [label for part in parts for label in part] == together
    # Two calls that are held against each other stay together.
    assert [len(part) for part in parts] == [1] * (len(together) - 2) + [2]
    assert "bounds" in failed(outcome(neighbour))
    assert "scratch" in failed(outcome(from_scratch))


def test_a_case_without_a_bug_fetches_one_call(outcome, monkeypatch):
    fetched = []
    seen = CardCall.seen

    def counted(call, label, *rest, **facts):
        fetched.append(label)
        return seen(call, label, *rest, **facts)

    monkeypatch.setattr(CardCall, "seen", counted)
    # A machine with other work makes the host late, and then a stall is repeated.
    monkeypatch.setattr(card_stalls.Started, "late", lambda *_: False)
    assert failed(outcome(name="two-short")) == set()
    # Two more scratch patterns are watched calls; the others beside stalled streams.
    assert len(fetched) == 6
    assert not any("replay" in label or "changed" in label for label in fetched)


def test_a_key_with_totals_is_found(outcome):
    found = outcome(keyed=True)
    assert told(found) == {"cache-miss"}
    assert found.case.checks["cache"].status == "failed"


def failed(outcome):
    return {name for name, c in outcome.case.checks.items() if c.status == "failed"}


def on_the_current_stream(made, tensors, scratch):
    # A fill that belongs before the kernel and comes wherever the current stream is.
    made.world.put(made.world.current, lambda: scratch.fill_(0))
    if scratch[0] != 0:
        tensors.out[0, 0, 0] += 1.0


def test_what_is_put_on_the_current_stream_comes_too_late_beside_a_stall(outcome):
    found = outcome(on_the_current_stream, whole=True)
    assert failed(found) == {"stream"}
    assert told(found) == {"stream-race"}
    assert "the current stream stalled" in found.findings[0].message


def test_a_launch_on_another_stream_is_named(outcome):
    found = outcome(launch_stream=0)
    assert failed(found) == {"stream"}
    assert "made is launched on stream 0x0" in found.findings[0].message


def test_lengths_baked_at_the_capture_are_found(outcome):
    class Baking(HostWorld):
        def capture(self, call):
            frozen = call()
            bits, lse = frozen.out.clone(), frozen.lse.clone()

            def replay():
                frozen.out.copy_(bits)
                frozen.lse.copy_(lse)

            return replay, frozen

    found = outcome(world=Baking)
    assert failed(found) == {"capture"}
    assert told(found) == {"capture"}
    assert "other lengths" in found.findings[0].message


def test_a_call_that_cannot_be_captured_is_found(outcome):
    class Refusing(HostWorld):
        def capture(self, call):
            raise RuntimeError("operation not permitted when stream is capturing\n.")

    found = outcome(world=Refusing)
    assert failed(found) == {"capture"}
    assert "not permitted when stream is capturing" in found.findings[0].message


def test_a_host_that_waits_for_the_stalled_stream_is_found(outcome):
    assert told(outcome(waits=True)) == {"host-sync"}


def test_a_host_that_is_slower_than_every_stall_shows_nothing(outcome, monkeypatch):
    monkeypatch.setattr(card_stalls, "_MOST", 1)
    found = outcome()
    assert found.case.verdict is Verdict.INCOMPLETE
    assert "slower than the longest stall" in found.case.checks["stream"].reason


def test_a_driver_that_was_not_heard_is_told(outcome, monkeypatch):
    monkeypatch.setattr(NoLog, "WHY", "a profiler has CUPTI")
    found = outcome()
    assert found.case.verdict is Verdict.INCOMPLETE
    assert found.case.checks["host-sync"].reason == "a profiler has CUPTI"


def test_the_error_is_one_line(outcome):
    found = outcome(illegal)
    message = found.findings[0].message
    assert "an illegal memory access" in message
    assert "more lines" not in message


def test_guards_lie_on_both_sides_of_every_tensor():
    scenario = dataclasses.replace(catalogue.by_name("two-short"), sinks=True)
    world = host_world()
    call = CardCall(
        world,
        build(scenario),
        workspace_bytes=256,
        phases=Phases(origin=0.0, track=""),
    )
    given = [tensor for tensor in vars(call.tensors).values() if tensor is not None]
    assert len(given) == 8
    for tensor in (*given, call.scratch()):
        storage = tensor.untyped_storage().nbytes()
        start = tensor.storage_offset() * tensor.element_size()
        assert start >= GUARD
        assert tensor.data_ptr() % 16 == 0
        assert storage - start - tensor.numel() * tensor.element_size() >= GUARD
    assert isinstance(world.table, AllocationTable)


def test_a_card_of_another_target_is_a_usage_error(monkeypatch):
    from sidestream.harness.commands.check import settings_for

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (12, 0))
    assert card_world.card_arch() == "sm_120a"
    with pytest.raises(UsageError, match="the card is sm_120a"):
        settings_for([], impl="sidestream", device="cuda", arch="sm_90a")


@pytest.mark.hardware
@pytest.mark.skipif(card_world.card_arch() != "sm_90a", reason="the card is not SM90")
def test_our_kernel_is_clean_on_the_card():
    bench = Bench(settings=SETTINGS)
    for scenario in catalogue.with_tags("smoke"):
        found = run_case(bench, scenario)
        assert found.case.verdict is Verdict.CLEAN, (scenario.name, found.case.checks)


def test_no_room_for_the_comparison_is_no_fault_of_the_call(outcome, monkeypatch):
    def full(*args):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(card_series, "images", full)
    done = outcome(name="two-short")
    assert done.findings == ()
    assert done.case.verdict is Verdict.INCOMPLETE
    assert any("no room on the card" in entry.reason for entry in done.incomplete)


def test_a_call_that_failed_is_told_though_there_is_no_room_behind_it(
    outcome, monkeypatch
):
    sent, images, words = [], card_series.images, card_series._words

    def series(*args):
        sent.append(1)
        return images(*args)

    def deed(tensors, scratch):
        if sent:
            raise RuntimeError("the replay failed")

    def full(state):
        if sent:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return words(state)

    monkeypatch.setattr(card_series, "images", series)
    monkeypatch.setattr(card_series, "_words", full)
    done = outcome(deed, name="two-short")
    assert any("the replay failed" in f.message for f in done.findings)
