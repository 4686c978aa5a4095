"""Mutants of an implementation that knows the answer: each check catches its own."""

import dataclasses

import numpy as np
import pytest
import torch
from oracle_case import outcome_of
from oracle_driver import BITS, Oracle, PreparedOracle

from sidestream.harness.finding import Verdict
from sidestream.harness.launch import Launch
from sidestream.harness.run.bench import Bench
from sidestream.harness.run.case import run_case
from sidestream.harness.run.settings import Settings
from sidestream.harness.run.token import decode


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
    assert "test_run_case_mutants.py" in (found[0].sites[0].source or "")


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
