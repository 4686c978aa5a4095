"""Runs over several scenarios: order, declining, interruption, workers that die."""

import logging
import os
import signal
import sys
import threading
import time
import warnings
from contextlib import contextmanager

import pytest
from oracle_driver import Oracle, PreparedOracle

from sidestream.harness.finding import Verdict
from sidestream.harness.run import bench as benches
from sidestream.harness.run import case as cases
from sidestream.harness.run import pool as pools
from sidestream.harness.run.pool import Pool
from sidestream.harness.run.session import Session
from sidestream.harness.run.settings import Settings
from sidestream.reports.json import read
from sidestream.reports.write import write
from sidestream.scenarios.scenario import Scenario


def scenario(name, **facts):
    given = {"lengths_q": (3, 5), "lengths_kv": (4, 6), "head_dim": 16}
    return Scenario(name=name, description=name, **(given | facts))


A, B, C = scenario("a"), scenario("b", causal="top_left"), scenario("c", sinks=True)


class Ear:
    def __init__(self, on_start=None):
        self.heard = []
        self.on_start = on_start

    def started(self, name):
        self.heard.append(("started", name))
        if self.on_start:
            self.on_start(name)

    def ended(self, case):
        self.heard.append(("ended", case.scenario))

    @contextmanager
    def watching(self, total):
        self.heard.append(("total", total))
        yield self


@pytest.fixture
def oracle(monkeypatch):
    """Let every case of this process be served by an oracle."""

    def install(make=PreparedOracle, **facts):
        driver = Oracle(make, **facts)
        monkeypatch.setattr(benches, "load_driver", lambda name: driver)
        return driver

    return install


class Warns(PreparedOracle):
    """A package that has something to say at every call."""

    def execute(self, tensors, workspace):
        warnings.warn("rows are copied  twice", UserWarning, stacklevel=1)
        logging.getLogger("package.kernels").warning("an experimental %s", "kernel")
        return super().execute(tensors, workspace)


def test_what_a_package_warns_of_is_in_the_report_once(oracle, capfd, monkeypatch):
    oracle(Warns)
    monkeypatch.setattr(logging.root, "handlers", [])  # as where nobody set logging up
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        report = Session(settings=Settings(), scenarios=[A, B, C]).run(Ear().watching)
    told = {v for k, v in report.environment.items() if k.startswith("warning ")}
    assert report.verdict is Verdict.CLEAN
    assert len(told) == 2
    first, second = sorted(told)
    assert first == "an experimental kernel (package.kernels)"
    assert second.startswith("rows are copied twice (UserWarning, tests/test_run_sess")
    written = "".join(capfd.readouterr())
    assert "experimental" not in written
    assert "copied" not in written


def test_a_run_reports_its_cases_in_order(oracle, tmp_path):
    oracle()
    ear = Ear()
    report = Session(settings=Settings(), scenarios=[A, B, C]).run(ear.watching)
    assert [case.scenario for case in report.cases] == ["a", "b", "c"]
    assert report.verdict is Verdict.CLEAN
    assert (report.findings, report.incomplete, report.declined) == ((), (), ())
    assert ear.heard[:3] == [("total", 3), ("started", "a"), ("ended", "a")]
    assert report.environment["torch"]
    write(report, tmp_path)
    assert read(tmp_path / "report.json").verdict is Verdict.CLEAN


def test_interruption_leaves_a_valid_report(oracle, tmp_path):
    oracle()

    def stop(name):
        if name == "b":
            raise KeyboardInterrupt

    report = Session(settings=Settings(), scenarios=[A, B, C]).run(Ear(stop).watching)
    assert [case.scenario for case in report.cases] == ["a"]
    assert report.verdict is Verdict.INCOMPLETE
    told = [(i.scenario, i.reason) for i in report.incomplete]
    assert told == [("b", "not run: interrupted"), ("c", "not run: interrupted")]
    write(report, tmp_path)
    assert len(read(tmp_path / "report.json").incomplete) == 2


def test_interruption_in_the_middle_of_a_case(oracle):
    class Interrupted(PreparedOracle):
        def execute(self, tensors, workspace):
            if self.problem.sinks:
                raise KeyboardInterrupt
            return super().execute(tensors, workspace)

    oracle(Interrupted)
    report = Session(settings=Settings(), scenarios=[A, C, B]).run(Ear().watching)
    assert [case.scenario for case in report.cases] == ["a"]
    assert [i.scenario for i in report.incomplete] == ["c", "b"]


def test_declined_scenarios_are_listed_and_do_not_count(oracle):
    driver = oracle()
    driver.supports = lambda problem, arch: "no sinks" if problem.sinks else None
    report = Session(settings=Settings(), scenarios=[A, C]).run(Ear().watching)
    assert [case.scenario for case in report.cases] == ["a"]
    assert [(d.scenario, d.reason) for d in report.declined] == [("c", "no sinks")]
    assert report.verdict is Verdict.CLEAN


def test_declining_what_was_asked_for_is_incomplete(oracle):
    oracle(declines="no")
    session = Session(settings=Settings(), scenarios=[A], asked=True)
    report = session.run(Ear().watching)
    assert report.verdict is Verdict.INCOMPLETE
    assert "declines it: no" in report.incomplete[0].reason


def test_a_run_that_judged_nothing_is_not_clean(oracle):
    oracle(declines="no")
    report = Session(settings=Settings(), scenarios=[A]).run(Ear().watching)
    assert report.verdict is Verdict.INCOMPLETE


# Processes. Workers are started for real and run what is put in the place of a case.


def fake_case(bench, scenario):
    """Stand in for `run_case` in a worker: dies, hangs or tells its process."""
    if scenario.name.startswith("die"):
        os._exit(7)
    if scenario.name.startswith("hang"):
        time.sleep(600)
    return cases.unjudged(bench.settings, scenario, f"{bench.track} {os.getpid()}")


def fake_work(pipe, settings, origin, track):
    pools.run_case = fake_case
    pools._work(pipe, settings, origin, track)


@pytest.fixture
def workers(monkeypatch):
    monkeypatch.setattr(pools, "_work", fake_work)
    monkeypatch.setattr(sys, "path", [os.path.dirname(__file__), *sys.path])


def spread(scenarios, jobs=2, **settings):
    pool = Pool(settings=Settings(**settings), jobs=jobs, origin=time.time())
    return dict(pool.run(scenarios))


def reason(outcome):
    return outcome.incomplete[0].reason


def test_cases_that_share_code_stay_in_one_process(workers):
    pairs = [scenario("x0"), scenario("x1"), scenario("y0", sinks=True)]
    pairs.append(scenario("y1", sinks=True))
    ended = spread(pairs)
    homes = [reason(ended[i]).split()[2] for i in range(4)]
    assert homes[0] == homes[1] != homes[2] == homes[3]


def test_a_worker_that_dies_costs_its_case_only(workers):
    ended = spread([scenario("x"), scenario("die"), scenario("y"), C])
    assert sorted(ended) == [0, 1, 2, 3]
    assert "the process died (exit 7)" in reason(ended[1])
    assert all("worker" in reason(ended[i]) for i in (0, 2, 3))


def test_a_worker_that_hangs_is_ended_after_its_deadline(workers, monkeypatch):
    monkeypatch.setattr(pools, "_GRACE", 0.5)
    ended = spread([scenario("hang"), scenario("hang2")], deadline=0.1)
    assert ["after the deadline" in reason(ended[i]) for i in (0, 1)] == [True, True]


@pytest.fixture
def interruptible():
    """Undo what a shell does to background jobs: it lets them ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_interruption_ends_the_workers(workers, interruptible):
    pool = Pool(settings=Settings(), jobs=2, origin=time.time())
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        dict(pool.run([scenario("hang"), scenario("hang2", sinks=True)]))
    assert pool._workers == []
