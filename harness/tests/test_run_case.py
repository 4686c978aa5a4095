"""A case from end to end: an implementation that knows the answer, and its mutants."""

import dataclasses

import numpy as np
import pytest
import torch
from oracle_driver import BITS, Oracle, PreparedOracle

from sidestream.harness.dsl.activation import active
from sidestream.harness.errors import UnsupportedError
from sidestream.harness.finding import Verdict
from sidestream.harness.launch import Launch
from sidestream.harness.run.bench import Bench
from sidestream.harness.run.case import run_case
from sidestream.harness.run.settings import Settings
from sidestream.harness.run.token import decode
from sidestream.kernels.protocol import CacheInfo
from sidestream.scenarios.scenario import Scenario

SCENARIO = Scenario(
    name="small",
    description="Two sequences around an empty one, with a tail.",
    lengths_q=(5, 0, 9, 4),
    lengths_kv=(7, 3, 6, 4),
    tail_q=3,
    tail_kv=2,
    head_dim=16,
    causal="bottom_right",
    lse="head_major",
    lse_slack=2,
    out_layout="padded",
    stream="side",
)


def outcome_of(make=PreparedOracle, scenario=SCENARIO, driver=None, **settings):
    bench = Bench(settings=Settings(**settings), driver=driver or Oracle(make))
    return run_case(bench, scenario)


def test_the_right_answer_is_clean_and_every_check_ran():
    outcome = outcome_of()
    statuses = {name: c.status for name, c in outcome.case.checks.items()}
    assert outcome.findings == ()
    assert outcome.incomplete == ()
    assert set(statuses.values()) == {"passed"}
    assert set(statuses) == {
        *("parity", "execution", "bounds", "scratch", "determinism"),
        *("host-sync", "stream", "cache", "race"),
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


# Mutants: each breaks one promise.


class SwappedLse(PreparedOracle):
    def answer(self, tensors):
        result = super().answer(tensors)
        return dataclasses.replace(result, lse=result.lse[:, ::-1])


class GlobalAnchor(PreparedOracle):
    """Takes the packed totals for the lengths of the last sequence."""

    def answer(self, tensors):
        right = self.problem
        self.problem = dataclasses.replace(right, causal="top_left")
        try:
            return super().answer(tensors)
        finally:
            self.problem = right


class RowTooMany(PreparedOracle):
    def rows(self, tensors):
        rows = super().rows(tensors)
        return np.arange(rows.size + 1)


class RowMissing(PreparedOracle):
    def rows(self, tensors):
        return super().rows(tensors)[:-1]


class NeighbourOverwritten(PreparedOracle):
    """Stores the first row of sequence 0 over the first row of sequence 2."""

    def answer(self, tensors):
        result = super().answer(tensors)
        out = result.out.copy()
        out[5] = out[0]
        return dataclasses.replace(result, out=out)


class NanTail(PreparedOracle):
    """0 * NaN of a token past the total reaches a row."""

    def answer(self, tensors):
        result = super().answer(tensors)
        out = result.out.copy()
        out[17, 1, 3] = np.nan
        return dataclasses.replace(result, out=out)


class LeakedNeighbour(PreparedOracle):
    """Adds one bit of the first sequence's V to a row of the last one."""

    def answer(self, tensors):
        result = super().answer(tensors)
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            negative = bool(tensors.v.view(torch.int16)[0, 0, 0] < 0)
        out = result.out.copy()
        if negative:
            out[17, 0, 0] *= 1 + 2.0**-8
        return dataclasses.replace(result, out=out)


class ReadsScratch(PreparedOracle):
    """Takes where to store from scratch, which it assumes to be zero."""

    def execute(self, tensors, workspace):
        results = super().execute(tensors, workspace)
        first = self.world.table.allocate(64, "first")
        home = self.world.table.allocate(1 << 20, "sink", fill=b"\0")
        self.launch(BITS, first.va, workspace.data_ptr(), home.va, 1)
        return results


class ReadsPastTheEnd(PreparedOracle):
    def execute(self, tensors, workspace):
        results = super().execute(tensors, workspace)
        where = self.world.table.allocate(4 * 128, "where", fill=b"\0")
        home = self.world.table.allocate(64, "home")
        end = tensors.v.data_ptr() + 2 * tensors.v.numel()
        self.launch(BITS, end - 4, where.va, home.va, 8)
        return results


class WritesAnInput(PreparedOracle):
    def execute(self, tensors, workspace):
        results = super().execute(tensors, workspace)
        where = self.world.table.allocate(4, "where", fill=b"\0")
        self.launch(BITS, tensors.k.data_ptr(), where.va, tensors.q.data_ptr(), 1)
        return results


class OtherStream(PreparedOracle):
    def execute(self, tensors, workspace):
        right = self.world.stream.cuda_stream
        self.world.choose(0)
        try:
            return super().execute(tensors, workspace)
        finally:
            self.world.choose(right)


class ListsLengths(PreparedOracle):
    def execute(self, tensors, workspace):
        tensors.lengths_q.tolist()
        return super().execute(tensors, workspace)


class FillsOutput(PreparedOracle):
    def execute(self, tensors, workspace):
        tensors.out.zero_()
        return super().execute(tensors, workspace)


class Raises(PreparedOracle):
    def execute(self, tensors, workspace):
        raise ValueError("no such call")


class Traps(PreparedOracle):
    def execute(self, tensors, workspace):
        self.launch(BITS.replace("ret;", "trap;"), 8, 8, 8, 0)
        return super().execute(tensors, workspace)

    def launch(self, ptx, *arguments):
        super().launch(ptx, *arguments)


class Races(PreparedOracle):
    """Every CTA stores its own number to the same 8 places: the last one wins."""

    PTX = """.version 9.0
.target sm_120a
.address_size 64
.visible .entry last(.param .u64 dst)
{
.reg .pred %p;
.reg .b16 %h;
.reg .b32 %r<8>;
.reg .b64 %rd<4>;
ld.param.u64 %rd0, [dst];
mov.u32 %r0, %ctaid.x;
mov.u32 %r1, %tid.x;
shr.u32 %r2, %r1, 5;
mul.wide.u32 %rd1, %r2, 2;
add.s64 %rd2, %rd0, %rd1;
cvt.u16.u32 %h, %r0;
st.global.u16 [%rd2], %h;
ret;
}
"""

    def execute(self, tensors, workspace):
        results = super().execute(tensors, workspace)
        from sidestream.harness.dsl.capture import Capture

        Capture._stack[-1]._on_launch(
            Launch(
                kernel="last",
                ptx=self.PTX,
                grid=(16, 1, 1),
                block=(256, 1, 1),
                stream=self.world.stream.cuda_stream,
                params=(tensors.out.data_ptr().to_bytes(8, "little"),),
            )
        )
        return results


@pytest.mark.parametrize(
    ("make", "kinds", "check", "words"),
    [
        (SwappedLse, {"parity"}, "parity", "LSE at"),
        (GlobalAnchor, {"parity"}, "parity", "O at"),
        (RowMissing, {"parity"}, "parity", "was never written"),
        (NeighbourOverwritten, {"parity"}, "parity", "row 0 of sequence 2"),
        (NanTail, {"nan"}, "parity", "is nan"),
        (RowTooMany, {"stray-write"}, "bounds", "token 18"),
        (LeakedNeighbour, {"stray-write"}, "bounds", "row 3 of sequence 3"),
        (ReadsScratch, {"uninit-read"}, "scratch", "of workspace"),
        (ReadsPastTheEnd, {"out-of-bounds"}, "bounds", "past the end of v"),
        (WritesAnInput, {"stray-write"}, "bounds", "of q"),
        (OtherStream, {"stream-race"}, "stream", "on stream 0x0"),
        (Raises, {"contract"}, "execution", "no such call"),
        (Races, {"nondeterminism", "parity"}, "determinism", "another schedule"),
        (Races, {"gmem-race"}, "race", "nothing orders them"),
    ],
)
def test_a_mutant_is_caught_by_its_check(make, kinds, check, words):
    outcome = outcome_of(make)
    told = [(f.kind, f.message) for f in outcome.findings]
    assert kinds & {kind for kind, _ in told}, told
    assert outcome.case.checks[check].status == "failed", told
    assert any(words in message for _, message in told), told
    assert outcome.case.verdict is Verdict.FINDINGS
    assert set(outcome.case.findings) == {f.id for f in outcome.findings}
    for finding in outcome.findings:
        assert finding.scenario == "small"
        assert finding.replay.startswith("sidestream replay ")


@pytest.mark.parametrize(
    ("make", "kind", "operation"),
    [
        (ListsLengths, "host-sync", "Tensor.tolist"),
        (FillsOutput, "hidden-launch", "aten.zero_"),
    ],
)
def test_what_the_host_does_during_execute_is_caught(make, kind, operation):
    outcome = outcome_of(make)
    found = [f for f in outcome.findings if f.kind == kind]
    assert found, [f.kind for f in outcome.findings]
    assert operation in found[0].message
    assert outcome.case.checks["host-sync"].status == "failed"
    assert "test_run_case.py" in (found[0].sites[0].source or "")


@pytest.mark.parametrize(
    "settings",
    [
        {"seed": 3, "profile": "isa"},
        {"schedule": "pct:5:2", "sms": 2},
    ],
)
def test_the_replay_of_a_race_gives_the_same_findings(settings):
    outcome = outcome_of(Races, **settings)
    assert "gmem-race" in {f.kind for f in outcome.findings}
    (replay,) = {f.replay for f in outcome.findings}
    program, command, token = replay.split()
    assert (program, command) == ("sidestream", "replay")
    chosen, scenario = decode(token)
    assert chosen == Settings(**settings)
    again = run_case(Bench(settings=chosen, driver=Oracle(Races)), scenario)
    assert again.findings == outcome.findings


def test_without_the_race_check_the_rest_is_judged():
    outcome = outcome_of(Races, races=False)
    assert "gmem-race" not in {f.kind for f in outcome.findings}
    assert outcome.case.checks["determinism"].status == "failed"
    clean = outcome_of(races=False)
    assert clean.case.checks["race"].status == "not-run"
    assert "--no-races" in clean.case.checks["race"].reason
    assert clean.case.verdict is Verdict.CLEAN


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


# Compilations.


class Planned(Oracle):
    """An oracle with a compile cache; what its key holds is given."""

    def __init__(self, key, make=PreparedOracle):
        super().__init__(make)
        self.key = key
        self.known = set()
        self.hits = 0

    def compile_key(self, problem, arch):
        return self.key(problem)

    def cache_info(self):
        return CacheInfo(hits=self.hits, misses=len(self.known))

    def prepare(self, problem, world):
        key = self.key(problem)
        if key in self.known:
            self.hits += 1
        else:
            self.known.add(key)
            compiled("fwd")
        return super().prepare(problem, world)


def compiled(name):
    active().compiles.add(
        function=name, source_name=name, arch="sm_120a", seconds=0.0, ptx="", image=b""
    )


def declared(problem):
    return dataclasses.replace(
        problem, lengths_q=(), lengths_kv=(), capacity_q=0, capacity_kv=0
    )


def test_a_key_of_declared_facts_compiles_once():
    bench = Bench(settings=Settings(), driver=Planned(declared))
    first = run_case(bench, SCENARIO)
    longer = dataclasses.replace(
        SCENARIO, name="again", tail_q=9, max_len_q=9, max_len_kv=7
    )
    second = run_case(bench, longer)
    assert [f.message for f in (*first.findings, *second.findings)] == []
    assert (first.case.compiles, second.case.compiles) == (1, 0)
    assert "contract bits told apart" in first.case.checks["cache"].reason


@pytest.mark.parametrize("fact", ["capacity_q", "lengths_kv"])
def test_a_key_with_packed_totals_is_a_miss(fact):
    def key(problem):
        return declared(problem), getattr(problem, fact)

    outcome = outcome_of(driver=Planned(key))
    assert [f.kind for f in outcome.findings] == ["cache-miss"]
    assert "for other totals" in outcome.findings[0].message


def test_a_cache_that_forgets_is_a_miss():
    class Forgets(Planned):
        def prepare(self, problem, world):
            self.known.clear()
            return super().prepare(problem, world)

    outcome = outcome_of(driver=Forgets(declared))
    assert {f.kind for f in outcome.findings} == {"cache-miss"}
    assert "second plan" in outcome.findings[0].message


def test_compiling_during_execute_is_a_miss():
    class Late(PreparedOracle):
        def execute(self, tensors, workspace):
            compiled("late")
            return super().execute(tensors, workspace)

    outcome = outcome_of(driver=Planned(declared, Late))
    assert any("during execute" in f.message for f in outcome.findings)


def test_a_key_that_forgets_a_contract_bit_is_stale():
    def key(problem):
        return dataclasses.replace(declared(problem), scale=1.0)

    outcome = outcome_of(driver=Planned(key))
    # The oracle's launches carry no scale, so nothing tells the two calls apart.
    stale = [f for f in outcome.findings if f.kind == "stale-key"]
    assert stale
    assert all("scale" in f.message for f in stale)


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
