"""One scenario on a real GPU: the same checks, as far as a card lets one see."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from sidestream.harness.checks import races, replay, streams
from sidestream.harness.checks.observation import Execution
from sidestream.harness.checks.outcome import FAILED, PASSED, CheckOutcome, not_run
from sidestream.harness.cuda.card_log import CardLog
from sidestream.harness.cuda.host_sync import HostLog
from sidestream.harness.drivers.protocol import Prepared
from sidestream.harness.errors import SidestreamError
from sidestream.harness.exec.machine import Options
from sidestream.harness.finding import Incomplete
from sidestream.harness.run import card_fault, card_stalls
from sidestream.harness.run.bench import Bench
from sidestream.harness.run.card_call import CardCall
from sidestream.harness.run.card_capture import CapturedCall, capture
from sidestream.harness.run.card_fault import Fault, UnderWay
from sidestream.harness.run.card_host import HostCode, misses, prepare
from sidestream.harness.run.card_images import Change
from sidestream.harness.run.card_races import order_of
from sidestream.harness.run.card_series import Series
from sidestream.harness.run.card_world import CardWorld, current_world
from sidestream.harness.run.case import CaseOutcome, CaseRun
from sidestream.harness.run.case_calls import Calls
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.plan_facts import host_facts
from sidestream.harness.run.virtual_call import VirtualCall
from sidestream.scenarios.case import build
from sidestream.scenarios.scenario import Scenario


class CardRun(CaseRun):
    """The steps of one case on the current card.

    A launch is not taken apart: reads of unwritten or foreign bytes show only in the
    results, and a schedule is whatever the card does when the call is repeated. What
    lies between launches is shown by the order of the call's operations, by stalled
    streams and by captured calls.

    The first call is made and fetched. Those that differ from it in data only are
    replays of a captured one, which the card compares among themselves while the host
    computes the reference.

    What concerns host code is shown once for each plan, stream and layout: the driver
    calls, their order, stalled streams, other totals. Every case has the rest.
    """

    known = ""
    """A case that showed what host code does, or ""."""
    captured: CapturedCall | None = None
    series: Series | None = None
    """Replays of the captured call; none if it could not be captured."""

    def __init__(self, bench: Bench, scenario: Scenario, phases: Phases) -> None:
        super().__init__(bench, scenario, phases)
        self.waiting: list[int] = []
        """Which executions stand for replays that were not awaited."""
        self.doing = UnderWay()
        self.made: list[CheckOutcome] = []
        """What is judged."""
        self.missed = 0
        """Compilations before the case."""

    def run(self) -> CaseOutcome:
        """Make the calls and judge them; an error of the card is a finding.

        Raises:
            SidestreamError: the implementation does not serve the scenario, or the card
                cannot be used by this process.
        """
        card_fault.refuse_dead()
        world = self._usable()
        outcome: CaseOutcome | None = None
        failure: Exception | None = None
        try:
            outcome = self._steps(world)
        except Exception as raised:
            if self.runs:
                self.doing.raised(raised)
            failure = raised
            if not card_fault.is_cuda_error(raised):
                why = f"the case broke off: {card_fault.told(raised)}"
                entry = Incomplete(reason=why, kernel=self.settings.kernel)
                self.incomplete.append(entry)
        complaint = world.complaint()
        if complaint:
            card_fault.bury(f"case {self.named.name}")
            self.doing.complained(complaint)
        if self.doing.fault is not None:
            return self._faulted(self.doing.fault)
        if failure is not None:
            raise failure
        assert outcome is not None
        return outcome

    def _usable(self) -> CardWorld:
        """Return the card and the stream of the call, if work can be done there."""
        try:
            world = self.world()
            complaint = world.complaint()
        except RuntimeError as raised:
            raise SidestreamError(card_fault.told(raised)) from raised
        if complaint:
            card_fault.bury(f"something before case {self.named.name} ({complaint})")
            card_fault.refuse_dead()
        return world

    def _faulted(self, fault: Fault) -> CaseOutcome:
        """Judge a case in which the card failed; what was found before stays."""
        kernel, none = self.settings.kernel, np.zeros((0, 0, 0), np.uint16)
        self.runs = [run for run in self.runs if id(run) not in self.waiting] or [
            Execution(label=fault.label, out=none, lse=None, finished=False)
        ]
        return self._outcome(
            card_fault.outcomes(fault, self.made, self.runs, kernel),
            {},
            compiles=misses(self.bench.implementation()) - self.missed,
        )

    def _steps(self, world: CardWorld) -> CaseOutcome:
        driver = self.bench.implementation()
        declined = self.bench.declines(self.scenario)
        if declined is not None:
            raise SidestreamError(f"{self.settings.impl} does not serve it: {declined}")
        key = host_facts(self.bench.compile_key(self.scenario), self.scenario)
        self.known = self.bench.watched.get(key, "") if key is not None else ""
        with self.phases.timed("build"):
            inputs = build(self.scenario)
        start = self.missed = misses(driver)
        with self.phases.timed("compile"):
            prepared = prepare(driver, self.scenario, world)
        planned = misses(driver)
        call = CardCall(
            world,
            inputs,
            workspace_bytes=prepared.workspace_bytes,
            phases=self.phases,
            doing=self.doing,
        )
        order = None if self.known else order_of(call, world)
        log = CardLog(table=world.table, order=order)
        host = HostCode(
            settings=self.settings,
            scenario=self.scenario,
            call=call,
            prepared=prepared,
            world=world,
            log=log,
            known=self.known,
            options=self._options,
        )
        calls = self._calls(call, prepared, log)
        base, limits, why = self.runs[0], None, ""
        if self.known:  # the card replays meanwhile
            with self.phases.timed("reference"):
                limits, why = self._bounds(inputs)
        with self.phases.timed("execute", "replays"):
            calls, replays = self._settled(calls)
        with self.phases.timed("check", "races"):
            raced = host.races(base, order)
            self.made.append(raced)
        with self.phases.timed("check", "streams"):
            own = host.stalled(base, card_stalls.OWN)
        if not self.known:  # the call's stream stands still meanwhile
            with self.phases.timed("reference"):
                limits, why = self._bounds(inputs)
        with self.phases.timed("check", "streams"):
            on_own = (own, own.finish()) if own else None
            other = host.stalled(base, card_stalls.AMBIENT)
        with self.phases.timed("check", "parity"):
            parity, errors = self._parity(inputs, limits, why)
            self.made.append(parity)
        with self.phases.timed("check", "streams"):
            beside = other.finish() if other else None
            moved = host.streams(base, own=on_own, beside=beside, rows=self.rows)
            self.made.append(moved)
        handle = int(world.stream.cuda_stream)
        judged = self._judge(calls, call, log, handle)
        outcomes = [o for o in judged if o.name not in (streams.NAME, races.NAME)]
        outcomes = [*(host.audited(o) for o in outcomes), raced, moved]
        with self.phases.timed("check", "capture"):
            outcomes.append(self._replayed(replays))
            self.made += outcomes
        executed = misses(driver)
        with self.phases.timed("check", "plans"):
            cached = host.plans(
                base,
                driver,
                self.bench.seen,
                name=self.named.name,
                planning=planned - start,
                executing=executed - planned,
            )
        self.made.append(cached)
        every = [parity, *outcomes, cached]
        failed = self.doing.fault is not None
        if not failed and key is not None and all(o.status != FAILED for o in every):
            missing = [o for o in every if o.status != PASSED and o.asked]
            if not missing:
                self.bench.watched.setdefault(key, self.named.name)
        return self._outcome(every, errors, compiles=executed - start)

    def _options(self) -> Options:
        left = max(0.001, self.until - time.monotonic())
        return Options(budget=self.settings.budget, deadline=left)

    def _calls(self, call: VirtualCall, prepared: Prepared, log: HostLog) -> Calls:
        """Make all calls; replays among them are not awaited."""
        calls = super()._calls(call, prepared, log)
        if self.series is not None and self.captured is not None:
            with self.phases.timed("execute", "replays"):
                self.captured.replay_into(self.series)
                self.series.send()
        return calls

    def _settled(self, calls: Calls) -> tuple[Calls, list[Execution]]:
        """Wait for all replays; return the calls, and what else was replayed."""
        if self.series is None:
            return calls, []
        made = self.series.settle()
        known = dict(zip(self.waiting, made, strict=False))

        def settled(run: Execution) -> Execution:
            return known.get(id(run), run)

        self.runs = [settled(run) for run in self.runs]
        return (
            Calls(
                filled=[settled(run) for run in calls.filled],
                again=[settled(run) for run in calls.again],
                isolations=[replace(i, run=settled(i.run)) for i in calls.isolations],
            ),
            made[len(self.waiting) :],
        )

    def _call(
        self,
        call: VirtualCall,
        prepared: Prepared,
        pattern: str,
        *,
        label: str = "",
        log: HostLog | None = None,
        drawn: int = 0,
        record: bool = False,
    ) -> Execution:
        """Make a call, or replay a captured one where only data is another."""
        watch = None if self.known else log
        if not self.runs:
            return super()._call(
                call, prepared, pattern, label=label, log=watch, record=record
            )
        label = label or ("the same call again" if drawn else f"scratch {pattern}")
        if self.series is not None and (log is None or self.known):
            return self._replay(label, Change(pattern=pattern))
        if time.monotonic() > self.until:
            return self._too_late(label)
        return super()._call(
            call, prepared, pattern, label=label, log=watch, drawn=drawn
        )

    def _flipped(
        self,
        call: VirtualCall,
        prepared: Prepared,
        pattern: str,
        changed: frozenset[int],
        label: str,
    ) -> Execution:
        """Make a call, or replay one, with the other sign in some sequences."""
        if self.series is None:
            return super()._flipped(call, prepared, pattern, changed, label)
        return self._replay(label, Change(pattern=pattern, flipped=changed))

    def _replay(self, label: str, change: Change) -> Execution:
        """Replay the captured call; return what stands for it until all are awaited."""
        assert self.series is not None
        assert self.captured is not None
        assert self.captured.graph is not None
        if time.monotonic() > self.until:
            return self._too_late(label)
        self.series.add(label, self.captured.graph, change)
        why = Incomplete(reason="it was not awaited", kernel=self.settings.kernel)
        run = replace(
            self.runs[0], label=label, launches=(), incomplete=(why,), finished=False
        )
        self.runs.append(run)
        self.waiting.append(id(run))
        return run

    def _capture(self, call: VirtualCall, prepared: Prepared, first: Execution) -> None:
        """Capture the call, and begin a series of replays behind the first one."""
        assert isinstance(call, CardCall)
        if self.scenario.stream != "side":
            world = self.side_world()
            driver = self.bench.implementation()
            prepared = prepare(driver, self.scenario, world)
            call = call.on(world)
        series = Series(call=call, first=first)
        self.captured = capture(call, prepared)
        if self.captured.graph is not None:
            self.series = series

    def _replayed(self, replays: list[Execution]) -> CheckOutcome:
        """Judge replays with the lengths of the capture and with others."""
        if self.captured is None:
            return not_run(replay.NAME, "the call was not finished")
        return self.captured.check(
            self.runs[0], replays, rows=self.rows, kernel=self.settings.kernel
        )

    def side_world(self) -> CardWorld:
        """Return the card with a stream that can be captured."""
        return current_world(side=True)

    def world(self) -> CardWorld:
        """Return the card and the stream of the call."""
        return current_world(side=self.scenario.stream == "side")
