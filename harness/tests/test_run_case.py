"""A case from end to end: an implementation that knows the answer, and its mutants."""

import dataclasses

import numpy as np
import pytest
from oracle_case import SCENARIO, outcome_of
from oracle_driver import BITS, Oracle, PreparedOracle

from sidestream.harness.errors import UnsupportedError
from sidestream.harness.finding import Verdict
from sidestream.harness.launch import Launch


def test_the_right_answer_is_clean_and_every_check_ran():
    outcome = outcome_of()
    statuses = {name: c.status for name, c in outcome.case.checks.items()}
    assert outcome.findings == ()
    assert outcome.incomplete == ()
    assert set(statuses.values()) == {"passed"}
    assert set(statuses) == {
        *("parity", "execution", "bounds", "scratch", "determinism"),
        *("host-sync", "stream", "cache", "race", "capture"),
    }
    assert outcome.case.verdict is Verdict.CLEAN
    assert outcome.case.launches == 2
    assert outcome.case.warp_instructions > 0
    assert 0.0 < outcome.case.errors["out"].ratio <= 1.0
    assert {"reference", "execute", "parse", "lower"} <= set(outcome.case.seconds)


def test_a_call_may_be_repeated_under_many_schedules():
    outcome = outcome_of(schedules=4)
    assert outcome.case.verdict is Verdict.CLEAN
    checks = outcome.case.checks
    assert "10 launches watched under 5 schedules" in checks["race"].reason
    assert checks["determinism"].reason.count("schedule random:") == 4


@pytest.mark.parametrize(
    "facts",
    [
        {"sinks": True, "window_left": 2},
        {"lse": "none", "lse_slack": 0},
        {"lse": "token_major", "lse_slack": 0, "dtype": "float16"},
        {"lengths_q_form": "prefix", "base_q": 7, "layout": "kv_pair"},
        {"nan_sequences": (2,)},
        {"lengths_q": (0, 0, 0, 0)},
        {"lengths_kv": (0, 0, 0, 0), "tail_kv": 0},
        {"lengths_q": (0, 0, 0, 0), "tail_q": 0},
    ],
)
def test_other_declarations_are_clean_too(facts):
    outcome = outcome_of(scenario=dataclasses.replace(SCENARIO, **facts))
    assert (outcome.findings, outcome.incomplete) == ((), ())


# What cannot be judged.


class Unsupported(PreparedOracle):
    def execute(self, tensors, workspace):
        raise UnsupportedError("driver call without a model")


class Unexpected(PreparedOracle):
    def execute(self, tensors, workspace):
        raise RuntimeError("boom")


@pytest.mark.parametrize(
    ("make", "settings", "words"),
    [
        (Unsupported, {}, "driver call without a model"),
        (Unexpected, {}, "boom"),
        (PreparedOracle, {"budget": 10}, "budget"),
    ],
)
def test_what_cannot_be_judged_is_incomplete_and_never_clean(make, settings, words):
    outcome = outcome_of(make, **settings)
    assert outcome.case.verdict is Verdict.INCOMPLETE
    assert outcome.findings == ()
    assert any(words in i.reason for i in outcome.incomplete), outcome.incomplete
    assert all(i.scenario == "small" for i in outcome.incomplete)
    assert outcome.case.checks["parity"].status == "not-run"


# Launches that depend on each other.


class Staged(PreparedOracle):
    """Stages the answer in one launch and copies it out in a dependent one."""

    waits = "griddepcontrol.wait;\n"

    def launch(self, ptx, src, where, dst, count):
        table = self.world.table
        staged = table.allocate(4 * count, "staged")
        size = 2 if ptx is BITS else 4
        same = table.allocate(4 * count, "same")
        same.data[:] = (np.arange(count, dtype=np.uint32) * size).view(np.uint8)
        kernel = f"scatter{size}"
        self.grid(ptx, kernel, "griddepcontrol.launch_dependents;\n",
                  (src, same.va, staged.va, count), pdl=False)  # fmt: skip
        # The host may give memory back as soon as its last use is launched.
        table.free(same)
        self.grid(ptx, kernel, self.waits, (staged.va, where, dst, count), pdl=True)
        table.free(staged)

    def grid(self, ptx, kernel, control, params, *, pdl):
        from sidestream.harness.dsl.capture import Capture

        start = "mov.u32 %r1, %tid.x;"
        Capture._stack[-1]._on_launch(
            Launch(
                kernel=kernel,
                ptx=ptx.replace(start, control + start),
                grid=(-(-params[3] // 128), 1, 1),
                block=(128, 1, 1),
                stream=self.world.stream.cuda_stream,
                params=tuple(
                    v.to_bytes(n, "little")
                    for v, n in zip(params, (8, 8, 8, 4), strict=True)
                ),
                pdl=pdl,
            )
        )


class StagedWithoutWait(Staged):
    waits = ""


@pytest.mark.parametrize("seed", [0, 5])
def test_a_dependent_launch_that_waits_is_clean(seed):
    outcome = outcome_of(Staged, races=True, seed=seed)
    assert (outcome.findings, outcome.incomplete) == ((), ())
    assert outcome.case.launches == 4


def test_a_dependent_launch_that_does_not_wait_is_told_of():
    outcome = outcome_of(StagedWithoutWait, races=True, seed=5)
    told = {(f.kind, f.rule.id) for f in outcome.findings}
    assert ("gmem-race", "B7") in told
    assert outcome.case.checks["race"].status == "failed"


def test_calls_after_the_deadline_are_not_made():
    outcome = outcome_of(deadline=1e-9)
    assert outcome.case.verdict is Verdict.INCOMPLETE
    assert "deadline of 1e-09 s passed" in outcome.incomplete[0].reason
    assert outcome.case.checks["parity"].status == "passed"
    assert outcome.case.checks["scratch"].status == "not-run"
    assert outcome.case.checks["determinism"].status == "not-run"


def test_a_declined_scenario_is_incomplete_if_it_is_run_anyway():
    driver = Oracle(PreparedOracle, declines="no odd heads")
    outcome = outcome_of(driver=driver)
    assert outcome.case.verdict is Verdict.INCOMPLETE
    assert "no odd heads" in outcome.incomplete[0].reason


# Recording.


def test_launches_are_recorded_once_and_emulate_to_the_same(tmp_path):
    from sidestream.harness.device.vgpu import run_launch
    from sidestream.harness.dsl.record import read_launch
    from sidestream.harness.exec.machine import Options

    outcome = outcome_of(launches=tmp_path)
    assert outcome.case.verdict is Verdict.CLEAN
    folders = sorted((tmp_path / "small").iterdir())
    assert [f.name for f in folders] == ["00-scatter2", "01-scatter4"]
    recorded = read_launch(folders[0])
    assert recorded.launch.stream == 0x51DE
    again = run_launch(recorded.launch, recorded.memory, Options())
    assert (again.finished, again.findings) == (True, ())
