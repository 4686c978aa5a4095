"""Checks on made-up calls: what passes, what is found, what cannot be said."""

import numpy as np
import pytest
from check_case import DIM, HEADS, ROWS, execution

from sidestream.harness.checks import (
    bounds,
    cache,
    determinism,
    host_sync,
    races,
    scratch,
    streams,
)
from sidestream.harness.checks import execution as executed
from sidestream.harness.checks.bounds import Isolation
from sidestream.harness.checks.cache import Compilations, Seen, Variation
from sidestream.harness.checks.observation import LaunchSeen
from sidestream.harness.cuda.host_sync import HostEvent
from sidestream.harness.finding import Finding, Incomplete, Rule


def finding(kind):
    return Finding(kind=kind, rule=Rule(id=kind, title="t"), message=kind)


def changed(token, label="other", which="out"):
    run = execution(label)
    array = run.out if which == "out" else run.lse
    array[token, HEADS - 1, ...] += 1
    return run


# scratch


def test_equal_bits_under_three_patterns_pass():
    runs = [execution(f"scratch {n}") for n in ("zeros", "ones", "canary")]
    outcome = scratch.check(runs, workspace_bytes=64, rows=ROWS, kernel="fwd")
    assert outcome.status == "passed"
    assert "3 patterns" in outcome.reason


def test_two_patterns_are_too_few():
    runs = [execution("scratch zeros"), execution("scratch ones")]
    outcome = scratch.check(runs, workspace_bytes=64, rows=ROWS, kernel="fwd")
    assert outcome.status == "not-run"


@pytest.mark.parametrize("which", ["out", "lse"])
def test_a_result_that_follows_the_pattern_is_found(which):
    runs = [execution("zeros"), execution("ones"), changed(4, "canary", which)]
    outcome = scratch.check(runs, workspace_bytes=64, rows=ROWS, kernel="fwd")
    (found,) = outcome.findings
    assert found.kind == "uninit-read"
    assert "row 1 of sequence 2 (token 4)" in found.message
    assert "between zeros and canary" in found.message


def test_rows_past_the_total_may_follow_the_pattern():
    runs = [execution("zeros"), execution("ones"), changed(5, "canary")]
    outcome = scratch.check(runs, workspace_bytes=64, rows=ROWS, kernel="fwd")
    assert outcome.status == "passed"


def test_a_read_of_an_unwritten_byte_fails_even_if_bits_agree():
    runs = [execution(str(n)) for n in range(3)]
    runs[0] = execution("0", findings=(finding("uninit-read"),))
    outcome = scratch.check(runs, workspace_bytes=64, rows=ROWS, kernel="fwd")
    assert outcome.status == "failed"


def test_unfinished_runs_say_nothing_of_scratch():
    runs = [execution("a"), execution("b", finished=False), execution("c")]
    outcome = scratch.check(runs, workspace_bytes=64, rows=ROWS, kernel="fwd")
    assert (outcome.status, "b" in outcome.reason) == ("not-run", True)


# determinism


def watched(label="as declared", **facts):
    seen = (LaunchSeen(kernel="fwd", stream=0),)
    return execution(label, **({"profile": "practice", "launches": seen} | facts))


def race_finding():
    return Finding(
        kind="smem-race",
        rule=Rule(id="r", title="t"),
        message="m",
        extra={"race": True},
    )


def test_a_race_of_any_schedule_fails():
    runs = [watched(), watched("schedule 1"), watched("schedule 2")]
    outcome = races.check(runs, asked=True)
    assert outcome.status == "passed"
    assert "3 launches watched under 3 schedules" in outcome.reason
    runs[2] = watched("schedule 2", findings=(race_finding(),))
    assert races.check(runs, asked=True).status == "failed"


@pytest.mark.parametrize(
    "facts",
    [
        {"finished": False},
        {"profile": None},
        {"incomplete": (Incomplete(reason="of schedule 2"),)},
    ],
)
def test_one_schedule_that_was_not_judged_leaves_the_race_check_open(facts):
    runs = [watched(), watched("schedule 1"), watched("schedule 2", **facts)]
    outcome = races.check(runs, asked=True)
    assert outcome.status == "not-run"
    assert "schedule 2" in outcome.reason


def test_repeats_must_agree_bit_by_bit():
    same = determinism.check([execution("a"), execution("b")], rows=ROWS, kernel="k")
    assert same.status == "passed"
    off = determinism.check([execution("a"), changed(0, "b")], rows=ROWS, kernel="k")
    assert [f.kind for f in off.findings] == ["nondeterminism"]
    assert determinism.check([execution()], rows=ROWS, kernel="k").status == "not-run"


def peaked(amax, label="other"):
    return execution(label, amax=np.array([amax], np.float32))


def test_the_largest_output_counts_among_the_bits():
    base = peaked(1.5, "as declared")
    same = determinism.check([base, peaked(1.5)], rows=ROWS, kernel="fwd")
    assert same.status == "passed"
    (found,) = determinism.check([base, peaked(1.75)], rows=ROWS, kernel="fwd").findings
    assert "amax differs between as declared and other" in found.message


def test_nan_bits_count_as_equal_when_they_are_equal():
    lse = np.full((ROWS.owner.size, HEADS), np.nan, np.float32)
    runs = [execution("a", lse=lse), execution("b", lse=lse.copy())]
    assert determinism.check(runs, rows=ROWS, kernel="k").status == "passed"


# bounds

SPELL = "{} byte {}".format


def judge(base, *, allowed=None, guards=(), isolations=()):
    return bounds.check(
        [base, *(i.run for i in isolations)],
        allowed=allowed or {},
        spell=SPELL,
        broken_guards=guards,
        isolations=isolations,
        rows=ROWS,
        kernel="fwd",
    )


def written(*places, size=2 * HEADS * DIM * ROWS.owner.size):
    mask = np.zeros(size, bool)
    mask[list(places)] = True
    return mask


def test_writes_inside_what_is_allowed_pass():
    base = execution(written={"out": written(0, 1, 2)})
    assert judge(base, allowed={"out": written(0, 1, 2, 3)}).status == "passed"


def test_one_stray_byte_fails_and_is_located():
    base = execution(written={"out": written(0, 160, 161)})
    (found,) = judge(base, allowed={"out": written(0)}).findings
    assert found.kind == "stray-write"
    assert "2 bytes of out" in found.message
    assert "from out byte 160 to out byte 161" in found.message


def test_a_watched_tensor_without_permission_may_not_be_written():
    base = execution(written={"q": written(7)})
    (found,) = judge(base, allowed={"out": written(0)}).findings
    assert "of q were written" in found.message


@pytest.mark.parametrize(("offset", "side"), [(-4, "before"), (4096, "behind")])
def test_a_broken_guard_fails(offset, side):
    (found,) = judge(execution(), guards=[("out", offset)]).findings
    assert f"the guard {side} out" in found.message


@pytest.mark.parametrize("kind", sorted(bounds.KINDS))
def test_what_the_device_saw_counts(kind):
    assert judge(execution(findings=(finding(kind),))).status == "failed"


def test_a_row_that_moves_with_its_neighbour_is_found():
    moved = Isolation(changed=frozenset({0}), run=changed(3, "sequence 0 changed"))
    (found,) = judge(execution(), isolations=[moved]).findings
    assert found.rule.id == "bounds.neighbour"
    assert "row 0 of sequence 2" in found.message


def test_the_largest_output_may_move_with_any_sequence():
    base = peaked(1.5, "as declared")
    moved = Isolation(changed=frozenset({0}), run=peaked(7.0))
    assert judge(base, isolations=[moved]).status == "passed"


def test_the_changed_sequence_itself_may_move():
    moved = Isolation(changed=frozenset({0}), run=changed(2, "sequence 0 changed"))
    assert judge(execution(), isolations=[moved]).status == "passed"


def test_an_unfinished_isolation_says_nothing():
    run = execution("x", finished=False)
    outcome = judge(execution(), isolations=[Isolation(changed=frozenset(), run=run)])
    assert outcome.status == "not-run"


# execution


def test_protocol_faults_fail_and_bounds_are_left_to_their_check():
    assert executed.check([execution()], kernel="k").status == "passed"
    run = execution(findings=(finding("mbarrier"), finding("out-of-bounds")))
    (found,) = executed.check([run], kernel="k").findings
    assert found.kind == "mbarrier"


def test_an_exception_of_execute_is_a_finding():
    run = execution(error="ValueError: no", finished=False)
    (found,) = executed.check([run], kernel="k").findings
    assert found.kind == "contract"
    assert "ValueError: no" in found.message


def test_a_call_that_could_not_be_judged_is_not_run():
    why = Incomplete(reason="budget spent")
    run = execution(finished=False, incomplete=(why,))
    outcome = executed.check([execution(), run], kernel="k")
    assert outcome.status == "not-run"
    assert "budget spent" in outcome.reason


# streams


def test_a_launch_on_another_stream_is_found():
    right = LaunchSeen(kernel="a", stream=0x55)
    wrong = LaunchSeen(kernel="b", stream=0)
    assert streams.check(execution(launches=(right,)), stream=0x55).status == "passed"
    base = execution(launches=(right, wrong))
    (found,) = streams.check(base, stream=0x55).findings
    assert (found.kind, found.kernel) == ("stream-race", "b")


# host sync


def event(kind, line=1, detail="q", stream=None):
    return HostEvent(
        kind=kind,
        operation="op",
        detail=detail,
        stack=(f"kernel.py:{line} in f",),
        stream=stream,
    )


def watch(*events, returns_outputs=False, scratch=None):
    return host_sync.check(
        events,
        calls=3,
        returns_outputs=returns_outputs,
        callers=frozenset({"q", "out", "workspace"}),
        kernel="k",
        scratch=scratch,
    )


def test_host_events_fail_once_a_site():
    assert watch().status == "passed"
    loud = watch(event("host-sync"), event("host-sync"), event("hidden-launch"))
    assert [f.kind for f in loud.findings] == ["host-sync", "hidden-launch"]


def test_only_an_interface_that_returns_outputs_may_make_and_fill_them():
    events = [event("host-alloc"), event("hidden-launch", 2, "torch.empty")]
    assert len(watch(*events).findings) == 2
    returned = watch(*events, returns_outputs=True)
    assert returned.status == "passed"
    assert "2 operations on outputs of its own" in returned.reason


@pytest.mark.parametrize(
    ("detail", "stream", "lent", "passes"),
    [
        ("workspace", 7, ("workspace", 7), True),
        ("workspace", 7, None, False),
        ("workspace", 0, ("workspace", 7), False),  # another stream
        ("workspace", None, ("workspace", 0), False),  # torch's, or one waited for
        ("q", 7, ("workspace", 7), False),  # the caller's data
    ],
)
def test_lent_scratch_may_be_filled_on_the_calls_stream_only(
    detail, stream, lent, passes
):
    outcome = watch(event("hidden-launch", 1, detail, stream), scratch=lent)
    assert (outcome.status == "passed") == passes
    if passes:
        assert "1 fills of lent scratch" in outcome.reason


@pytest.mark.parametrize("kind", ["host-sync", "hidden-launch"])
def test_no_interface_may_wait_or_touch_the_callers_tensors(kind):
    outcome = watch(event(kind, detail="torch.empty, q"), returns_outputs=True)
    assert [f.kind for f in outcome.findings] == [kind]


# cache


def compiled(**facts):
    counts = {"planning": 1, "before": "", "again": 0, "executing": 0}
    return Compilations(**(counts | {"other_totals": 0} | facts))


def test_one_compilation_at_plan_time_passes():
    assert cache.check(compiled(), None, kernel="k").status == "passed"
    hit = compiled(planning=0, before="earlier", hits=1)
    assert cache.check(hit, [], kernel="k").status == "passed"


@pytest.mark.parametrize(
    ("facts", "rule"),
    [
        ({"again": 1}, "cache.totals"),
        ({"other_totals": 1}, "cache.totals"),
        ({"planning": 1, "before": "earlier"}, "cache.totals"),
        ({"hits": 0}, "cache.totals"),
        ({"executing": 1}, "cache.plan"),
    ],
)
def test_compiling_when_nothing_should_is_a_miss(facts, rule):
    outcome = cache.check(compiled(**facts), None, kernel="k")
    assert [(f.kind, f.rule.id) for f in outcome.findings] == [("cache-miss", rule)]


def test_those_without_a_plan_may_compile_in_their_first_call():
    lazy = compiled(planning=0, executing=1, plans_ahead=False)
    assert cache.check(lazy, None, kernel="k").status == "passed"


def test_a_contract_bit_that_nothing_carries_is_stale():
    told = [
        Variation(bit="causal none -> top_left", same_key=False),
        Variation(bit="scale", same_key=True, same_launches=False),
    ]
    assert cache.check(compiled(), told, kernel="k").status == "passed"
    lost = Variation(bit="lse", same_key=True, same_launches=True)
    (found,) = cache.check(compiled(), [*told, lost], kernel="k").findings
    assert (found.kind, "differ in lse" in found.message) == ("stale-key", True)


def test_equal_declarations_are_known_by_the_first_case():
    seen = Seen()
    assert seen.note({"a": 1, "b": 2}, "one") == ""
    assert seen.note({"b": 2, "a": 1}, "two") == "one"
    assert seen.note({"a": 1, "b": 3}, "three") == ""
