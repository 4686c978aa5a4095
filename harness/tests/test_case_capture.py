"""A case captures its first call, and calls beside a stream: what fails that."""

import dataclasses
import functools

import pytest
import torch
from oracle_case import SCENARIO, outcome_of
from oracle_driver import Oracle, PreparedOracle, StreamedOracle, ints

from sidestream.harness.finding import Verdict
from sidestream.harness.run.bench import Bench
from sidestream.harness.run.case import run_case
from sidestream.harness.run.case_calls import SIDE_STREAM
from sidestream.harness.run.settings import Settings
from sidestream.kernels.protocol import CacheInfo
from sidestream.reference import lengths as seq


class Ahead(Oracle):
    """A plan of its own, and one code for everything."""

    def compile_key(self, problem, arch):
        return dataclasses.replace(problem, lengths_q=(), lengths_kv=())

    def cache_info(self):
        return CacheInfo(hits=len(self.made) - 1, misses=1)


def ahead(streamed):
    return Ahead(PreparedOracle, streamed=streamed)


def unjoined(streamed):
    return run_case(Bench(settings=Settings(), driver=ahead(streamed)), SCENARIO)


# Captures.


class BakesLengths(PreparedOracle):
    """Takes the lengths for an argument of the captured call."""

    def execute(self, tensors, workspace):
        self.kept = {}
        if torch.cuda.is_current_stream_capturing():
            for lengths in (tensors.lengths_q, tensors.lengths_kv):
                self.kept[lengths.data_ptr()] = ints(lengths)
        return super().execute(tensors, workspace)

    def segments(self, lengths, form):
        kept = self.kept.get(lengths.data_ptr())
        if kept is None:
            return super().segments(lengths, form)
        return seq.declared(kept, form=form)


class LaunchesBesideACapture(PreparedOracle):
    """Puts everything on a stream that is not captured."""

    def execute(self, tensors, workspace):
        if torch.cuda.is_current_stream_capturing():
            other = self.world.choose(0x77)
            try:
                with torch.cuda.stream(other):
                    self.call(tensors)
            finally:
                self.world.choose(SIDE_STREAM)
            return self.results(tensors)
        return super().execute(tensors, workspace)


class ReadsLengths(PreparedOracle):
    def execute(self, tensors, workspace):
        tensors.lengths_q.tolist()
        return super().execute(tensors, workspace)


class Waits(PreparedOracle):
    def execute(self, tensors, workspace):
        torch.cuda.synchronize()
        return super().execute(tensors, workspace)


class Reserves(PreparedOracle):
    """Takes memory from the driver, which no capture allows."""

    def execute(self, tensors, workspace):
        self.world.runtime.cuda_malloc(1 << 20, device=0)
        return super().execute(tensors, workspace)


class FillsByTheDriver(PreparedOracle):
    """Fills scratch by a call of the driver, and stores nothing if that is not so."""

    def execute(self, tensors, workspace):
        from cuda.bindings import driver

        self.scratch = workspace.data_ptr()
        stream = self.world.stream.cuda_stream
        (status,) = driver.cuMemsetD8Async(self.scratch, 7, 256, stream)
        assert not int(status)
        return super().execute(tensors, workspace)

    def call(self, tensors):
        home = self.world.table.at(self.scratch)
        if (home.data[:256] != 7).any():
            return self.results(tensors)
        return super().call(tensors)


class OnlyTheFirstTime(PreparedOracle):
    """Leaves the outputs as they are in a replay."""

    captured = False

    def execute(self, tensors, workspace):
        self.captured = torch.cuda.is_current_stream_capturing()
        return super().execute(tensors, workspace)

    def call(self, tensors):
        if self.captured:
            return self.results(tensors)
        return super().call(tensors)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (BakesLengths, "a replay with other lengths gives other bits"),
        (LaunchesBesideACapture, "is empty"),
        (ReadsLengths, "cannot be captured in a CUDA graph: Cannot copy"),
        (Waits, "cannot be captured in a CUDA graph: cudaErrorStreamCapture"),
        (Reserves, "cannot be captured in a CUDA graph: cudaErrorStreamCapture"),
        (OnlyTheFirstTime, "a replay with other lengths gives other bits"),
    ],
)
def test_a_call_that_a_graph_cannot_hold_is_caught(make, words):
    outcome = outcome_of(make)
    assert outcome.case.checks["capture"].status == "failed"
    found = [f for f in outcome.findings if f.kind == "capture"]
    assert [words in f.message for f in found] == [True], found
    assert all(f.need and f.replay for f in found)
    assert outcome.case.checks["determinism"].status == "passed"
    assert outcome.case.checks["parity"].status == "passed"
    assert outcome.incomplete == ()


def test_a_replay_stands_for_the_call_under_another_schedule():
    outcome = outcome_of()
    checks = outcome.case.checks
    assert checks["capture"].reason == "replays equal calls: other lengths"
    assert "a replay under another schedule" in checks["determinism"].reason


def test_a_call_without_other_lengths_is_replayed_with_its_own():
    none = dataclasses.replace(SCENARIO, lengths_q=(0,) * 4, lengths_kv=(0,) * 4)
    reason = outcome_of(scenario=none).case.checks["capture"].reason
    assert reason == "replays equal calls: the lengths of the capture"


def test_a_fill_by_the_driver_is_part_of_what_is_captured():
    outcome = outcome_of(FillsByTheDriver)
    assert outcome.case.checks["capture"].status == "passed"
    assert {f.kind for f in outcome.findings} <= {"hidden-launch"}


def test_what_goes_wrong_with_a_schedule_is_not_laid_to_the_capture():
    class Turns(PreparedOracle):
        calls = 0

        def answer(self, tensors):
            answer = super().answer(tensors)
            type(self).calls += 1
            if Turns.calls in (5, 6):  # the replay, and the call that follows it
                answer.out[0] += 1
            return answer

    checks = outcome_of(Turns).case.checks
    assert checks["capture"].status == "passed"
    assert checks["determinism"].status == "failed"


def test_a_replay_that_comes_too_late_is_not_passed_over():
    outcome = outcome_of(deadline=1e-9)
    assert outcome.case.checks["capture"].status == "not-run"
    assert outcome.case.verdict is Verdict.INCOMPLETE


# Calls beside another stream.


class OnTheCurrentStream(StreamedOracle):
    """A capture makes the call's stream the current one; a plain call does not."""

    def enqueue(self, run, handle=None):
        super().enqueue(run, torch.cuda.current_stream().cuda_stream)


class FillsOnTheCurrentStream(StreamedOracle):
    def execute(self, tensors, workspace):
        with torch.cuda.stream(torch.cuda.default_stream()):
            if not torch.cuda.is_current_stream_capturing():
                tensors.out.zero_()
        return super().execute(tensors, workspace)


class TellsTheLargest(PreparedOracle):
    """Returns a largest output of 1."""

    largest = 1.0

    @functools.cached_property
    def amax(self):
        return self.world.upload(torch.tensor([self.largest]), "largest")

    def results(self, tensors):
        return dataclasses.replace(super().results(tensors), amax=self.amax)


class TellsAnother(StreamedOracle):
    """Returns 2 in its place, all else alike."""

    largest = 2.0
    amax = TellsTheLargest.amax

    def execute(self, tensors, workspace):
        made = super().execute(tensors, workspace)
        return dataclasses.replace(made, amax=self.amax)


@pytest.mark.parametrize(
    ("streamed", "words"),
    [(OnTheCurrentStream, "oracle"), (FillsOnTheCurrentStream, "zero_")],
)
def test_what_goes_to_the_current_stream_is_a_race(streamed, words):
    outcome = unjoined(streamed)
    assert outcome.case.checks["stream"].status == "failed"
    assert outcome.case.verdict is Verdict.FINDINGS
    raced = [f for f in outcome.findings if f.kind == "stream-race"]
    assert any(words in f"{f.message} {f.sites}" for f in raced)
    assert all(f.need and f.replay for f in raced)


def test_the_largest_output_is_compared_too():
    driver = Ahead(TellsTheLargest, streamed=TellsAnother)
    outcome = run_case(Bench(settings=Settings(), driver=driver), SCENARIO)
    raced = [f.message for f in outcome.findings if f.kind == "stream-race"]
    assert len(raced) == 1
    assert "amax" in raced[0]


def test_a_call_on_its_own_stream_is_clean_and_shown_once():
    bench = Bench(settings=Settings(), driver=ahead(StreamedOracle))
    first, second = run_case(bench, SCENARIO), run_case(bench, SCENARIO)
    assert (first.findings, second.findings) == ((), ())
    assert "unjoined" not in first.case.checks["stream"].reason
    assert "unjoined: in small" in second.case.checks["stream"].reason


def test_what_is_not_clean_is_shown_again():
    bench = Bench(settings=Settings(), driver=ahead(OnTheCurrentStream))
    for _ in range(2):
        assert run_case(bench, SCENARIO).case.checks["stream"].status == "failed"


def test_a_launch_that_cannot_be_judged_leaves_the_case_incomplete():
    class Half(StreamedOracle):
        def land(self, tensors, lse):
            effects = super().land(tensors, lse)
            return dataclasses.replace(effects, incomplete=("half of it is unknown",))

    outcome = unjoined(Half)
    assert outcome.case.verdict is Verdict.INCOMPLETE
    assert any("half of it" in entry.reason for entry in outcome.incomplete)
