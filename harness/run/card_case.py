"""One scenario on a real GPU: the same checks, as far as a card lets one see."""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from sidestream.harness.checks import cache, host_sync, races, replay, streams
from sidestream.harness.checks.observation import Execution
from sidestream.harness.checks.outcome import (
    FAILED,
    PASSED,
    CheckOutcome,
    not_asked,
    not_run,
)
from sidestream.harness.cuda.card_log import CardLog
from sidestream.harness.cuda.card_order import CardOrder
from sidestream.harness.cuda.host_sync import HostLog
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.drivers.protocol import Driver, PlansAhead, Prepared
from sidestream.harness.errors import SidestreamError
from sidestream.harness.exec.machine import Options
from sidestream.harness.run import card_races, card_stalls
from sidestream.harness.run.card_call import CardCall, Started
from sidestream.harness.run.card_capture import CapturedCall, capture
from sidestream.harness.run.card_races import order_of
from sidestream.harness.run.card_world import CardWorld, current_world
from sidestream.harness.run.case import CaseOutcome, CaseRun
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.problem import other_totals, problem_of
from sidestream.harness.run.virtual_call import VirtualCall
from sidestream.scenarios.case import build


class CardRun(CaseRun):
    """The steps of one case on the current card.

    A launch is not taken apart: reads of unwritten or foreign bytes show only in the
    results, and a schedule is whatever the card does when the call is repeated. What
    lies between launches is shown by the order of the call's operations, by stalled
    streams and by captured calls.

    What concerns host code is shown once for each plan, stream and layout: the driver
    calls, their order, stalled streams, other totals. Every case has the rest.
    """

    known = ""
    """A case that showed what host code does, or ""."""
    captured: CapturedCall | None = None

    def run(self) -> CaseOutcome:
        """Make the calls and judge them."""
        driver = self.bench.implementation()
        declined = self.bench.declines(self.scenario)
        if declined is not None:
            raise SidestreamError(f"{self.settings.impl} does not serve it: {declined}")
        key = self._host_facts(driver)
        self.known = self.bench.watched.get(key, "") if key is not None else ""
        with self.phases.timed("build"):
            inputs = build(self.scenario)
        world = self.world()
        start = _misses(driver)
        with self.phases.timed("compile"):
            prepared = _prepare(driver, self.scenario, world)
        planned = _misses(driver)
        call = CardCall(
            world,
            inputs,
            workspace_bytes=prepared.workspace_bytes,
            phases=self.phases,
        )
        order = order_of(call, world)
        log = CardLog(table=world.table, order=order)
        handle = int(world.stream.cuda_stream)
        judged = self._execute(call, prepared, log, handle)
        outcomes = [o for o in judged if o.name not in (streams.NAME, races.NAME)]
        outcomes = [self._audited(o, log) for o in outcomes]
        outcomes.append(self._races(call, prepared, world, order, log))
        # The host computes while the stalled streams stand still.
        own = self._start(call, prepared, world, card_stalls.OWN)
        with self.phases.timed("reference"):
            limits, why = self._bounds(inputs)
        with self.phases.timed("check", "streams"):
            on_own = (own, own.finish()) if own else None
        other = self._start(call, prepared, world, card_stalls.AMBIENT)
        with self.phases.timed("check", "parity"):
            parity, errors = self._parity(inputs, limits, why)
        with self.phases.timed("check", "streams"):
            beside = other.finish() if other else None
            outcomes.append(self._streams(world, on_own, beside))
        with self.phases.timed("check", "capture"):
            outcomes.append(self._capture(call, prepared))
        executed = _misses(driver)
        with self.phases.timed("check", "plans"):
            outcomes.append(
                self._plans(
                    driver,
                    world,
                    planning=planned - start,
                    executing=executed - planned,
                )
            )
        outcomes.append(parity)
        if key is not None and all(o.status != FAILED for o in outcomes):
            missing = [o for o in outcomes if o.status != PASSED and o.asked]
            if not missing:
                self.bench.watched.setdefault(key, self.named.name)
        return self._outcome(
            [parity, *outcomes[:-1]], errors, compiles=executed - start
        )

    def _host_facts(self, driver: Driver) -> Hashable | None:
        """Return all that host code sees of a case but sizes; None if it is not told.

        Lengths are on the device: what the host does cannot depend on them unseen. Of
        sizes it sees which are 0: a call without tokens launches nothing, and shows
        nothing of one that does.
        """
        if not isinstance(driver, PlansAhead):
            return None
        case, problem = self.scenario, problem_of(self.scenario)
        return (
            driver.compile_key(problem, self.settings.arch),
            *(case.stream, case.layout, case.out_layout, case.lse),
            *(case.capacity_q == 0, case.capacity_kv == 0),
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
        if not self.runs:
            first = None if self.known else log
            return super()._call(
                call, prepared, pattern, label=label, log=first, record=record
            )
        assert isinstance(call, CardCall)
        label = label or ("the same call again" if drawn else f"scratch {pattern}")
        if time.monotonic() > self.until:
            return self._too_late(label)
        run = None
        if log is None or self.known:
            run = self._captured(call, prepared).replayed(label=label, pattern=pattern)
        if run is None:
            log = None if self.known else log
            return super()._call(
                call, prepared, pattern, label=label, log=log, drawn=drawn
            )
        self.runs.append(run)
        return run

    def _captured(self, call: CardCall, prepared: Prepared) -> CapturedCall:
        """Capture a call, once a case."""
        if self.captured is None:
            if self.scenario.stream != "side":
                world = self.side_world()
                driver = self.bench.implementation()
                prepared = _prepare(driver, self.scenario, world)
                call = call.on(world)
            self.captured = capture(call, prepared, pattern=self.scenario.scratch)
        return self.captured

    def _races(
        self,
        call: CardCall,
        prepared: Prepared,
        world: CardWorld,
        first: CardOrder,
        log: CardLog,
    ) -> CheckOutcome:
        """Judge the order of a call's operations."""
        if not self.settings.races:
            return not_asked(races.NAME, "switched off by --no-races")
        if not self.runs[0].finished:
            return not_run(races.NAME, "the call was not finished")
        if self.known:
            return not_asked(races.NAME, self._elsewhere())

        def options() -> Options:
            left = max(0.001, self.until - time.monotonic())
            return Options(budget=self.settings.budget, deadline=left)

        def again() -> CardOrder:
            order = order_of(call, world, options)
            call.execute(
                prepared,
                label="accesses looked at",
                pattern=self.scenario.scratch,
                options=options,
                log=CardLog(table=world.table, order=order),
            )
            return order

        with self.phases.timed("check", "races"):
            return card_races.check(
                first,
                again,
                heard=log.audited,
                unheard=log.unaudited,
                kernel=self.settings.kernel,
            )

    def _audited(self, outcome: CheckOutcome, log: CardLog) -> CheckOutcome:
        """Let host-sync pass only if the driver was heard."""
        if outcome.name == host_sync.NAME and self.known:
            return not_asked(host_sync.NAME, self._elsewhere())
        if outcome.name != host_sync.NAME or outcome.status != PASSED:
            return outcome
        if not log.audited:
            return not_run(host_sync.NAME, log.unaudited)
        more = f"{outcome.reason}, {log.driver_calls} driver calls"
        return replace(outcome, reason=more)

    def _start(
        self, call: CardCall, prepared: Prepared, world: CardWorld, stalled: str
    ) -> Started | None:
        """Make a call beside a stalled stream, if there is one to be made."""
        if not self.runs[0].finished or world.dsl is None or self.known:
            return None
        with self.phases.timed("check", "streams"):
            return card_stalls.start(
                call, prepared, stalled=stalled, pattern=self.scenario.scratch
            )

    def _streams(
        self,
        world: CardWorld,
        own: tuple[Started, Execution] | None,
        beside: Execution | None,
    ) -> CheckOutcome:
        """Judge the streams of launches, and calls beside stalled streams."""
        base, handle = self.runs[0], int(world.stream.cuda_stream)
        if not base.finished:
            return not_run(streams.NAME, "the call was not finished")
        if world.dsl is None:
            return not_run(streams.NAME, "launches are not seen")
        if self.known:
            made = streams.check(base, stream=handle)
            return replace(made, reason=f"{made.reason}; stalled: {self._elsewhere()}")
        return card_stalls.check(
            base,
            own=own,
            beside=beside,
            stream=handle,
            rows=self.rows,
            kernel=self.settings.kernel,
        )

    def _elsewhere(self) -> str:
        return f"the host code of this plan was watched in {self.known}"

    def _capture(self, call: CardCall, prepared: Prepared) -> CheckOutcome:
        """Replay a captured call with its lengths and with others."""
        if not self.runs[0].finished:
            return not_run(replay.NAME, "the call was not finished")
        captured = self._captured(call, prepared)
        return captured.check(self.scenario, self.runs[0], kernel=self.settings.kernel)

    def side_world(self) -> CardWorld:
        """Return the card with a stream that can be captured."""
        return current_world(side=True)

    def world(self) -> CardWorld:
        """Return the card and the stream of the call."""
        return current_world(side=self.scenario.stream == "side")

    def _plans(
        self, driver: Driver, world: CardWorld, *, planning: int, executing: int
    ) -> CheckOutcome:
        """Plan again and with other totals, which is called too; count misses."""
        if not isinstance(driver, PlansAhead):
            return not_run(cache.NAME, "compilations are not counted on a card")
        if not self.runs[0].finished:
            return not_run(cache.NAME, "the call was not finished")
        before = self.bench.seen.note(self.scenario.declaration(), self.named.name)
        if self.known:
            counts = cache.Compilations(
                planning=planning,
                before=before,
                again=0,
                executing=executing,
                other_totals=0,
            )
            made = cache.check(counts, (), kernel=self.settings.kernel)
            return replace(made, reason=f"{made.reason}; {self._elsewhere()}")
        mark, hits = _misses(driver), int(driver.cache_info().hits)
        _prepare(driver, self.scenario, world)
        again, second = _misses(driver) - mark, int(driver.cache_info().hits) - hits
        mark = _misses(driver)
        other = other_totals(self.scenario, same_capacity=False)
        prepared = _prepare(driver, other, world)
        CardCall(
            self.world(),
            build(other, rng=_Blank()),
            workspace_bytes=prepared.workspace_bytes,
            phases=Phases(origin=0.0, track=""),
        ).execute(prepared, label="other totals", pattern="zeros", options=Options)
        counts = cache.Compilations(
            planning=planning,
            before=before,
            again=again,
            executing=executing,
            other_totals=_misses(driver) - mark,
            hits=second,
        )
        return cache.check(counts, (), kernel=self.settings.kernel)


class _Blank(np.random.Generator):
    """Draws zeros: nobody looks at the results of a call that is only counted."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def standard_normal(self, size: Any = None, *args: Any, **kwargs: Any) -> Any:
        return np.zeros(size)


def _prepare(driver: Driver, scenario: Any, world: CardWorld) -> Prepared:
    # Of a world, drivers use the chip, the stream and `upload`.
    return driver.prepare(problem_of(scenario), cast(VirtualCuda, world))


def _misses(driver: Driver) -> int:
    return int(driver.cache_info().misses) if isinstance(driver, PlansAhead) else 0
