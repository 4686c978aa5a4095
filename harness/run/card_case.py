"""One scenario on a real GPU: the same checks, as far as a card lets one see."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, cast

import numpy as np

from sidestream.harness.checks import cache, host_sync, races, replay, streams
from sidestream.harness.checks.observation import Execution, rows_of
from sidestream.harness.checks.outcome import PASSED, CheckOutcome, not_asked, not_run
from sidestream.harness.cuda.card_log import CardLog
from sidestream.harness.cuda.card_order import CardOrder
from sidestream.harness.cuda.host_sync import NEEDS, RULES
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.drivers.protocol import Driver, PlansAhead, Prepared
from sidestream.harness.errors import SidestreamError
from sidestream.harness.exec.machine import Options
from sidestream.harness.finding import Finding, Site
from sidestream.harness.run import card_races
from sidestream.harness.run.card_call import CardCall, Started
from sidestream.harness.run.card_races import order_of
from sidestream.harness.run.card_world import CardWorld, current_world
from sidestream.harness.run.case import CaseOutcome, CaseRun
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.problem import other_totals, problem_of
from sidestream.scenarios.case import build
from sidestream.scenarios.scenario import Scenario


class CardRun(CaseRun):
    """The steps of one case on the current card.

    A launch is not taken apart: reads of unwritten or foreign bytes show only in the
    results, and a schedule is whatever the card does when the call is repeated. What
    lies between launches is shown by the order of the call's operations, by stalled
    streams and by captured calls.
    """

    def run(self) -> CaseOutcome:
        """Make the calls and judge them."""
        driver = self.bench.implementation()
        declined = self.bench.declines(self.scenario)
        if declined is not None:
            raise SidestreamError(f"{self.settings.impl} does not serve it: {declined}")
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
        judged = self._execute(call, prepared, log, int(world.stream.cuda_stream))
        outcomes = [o for o in judged if o.name not in (streams.NAME, races.NAME)]
        outcomes = [self._audited(o, log) for o in outcomes]
        outcomes.append(self._races(call, prepared, world, order, log))
        # The host computes while the stalled streams stand still.
        with self.phases.timed("check", "streams"):
            own = self._start(call, prepared, world, _OWN)
        with self.phases.timed("reference"):
            limits, why = self._bounds(inputs)
        with self.phases.timed("check", "streams"):
            on_own = own.finish() if own else None
            other = self._start(call, prepared, world, _AMBIENT)
        with self.phases.timed("check", "parity"):
            parity, errors = self._parity(inputs, limits, why)
        with self.phases.timed("check", "streams"):
            beside = other.finish() if other else None
            outcomes.append(self._streams(world, own, on_own, other, beside))
        with self.phases.timed("check", "capture"):
            outcomes.append(self._capture(driver, call, prepared))
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
        return self._outcome([parity, *outcomes], errors, compiles=executed - start)

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
        if outcome.name != host_sync.NAME or outcome.status != PASSED:
            return outcome
        if not log.audited:
            return not_run(host_sync.NAME, log.unaudited)
        more = f"{outcome.reason}, {log.driver_calls} driver calls"
        return replace(outcome, reason=more)

    def _start(
        self, call: CardCall, prepared: Prepared, world: CardWorld, stalled: str
    ) -> Started | None:
        """Make a call beside a stalled stream; None if none was in time."""
        if not self.runs[0].finished or world.dsl is None:
            return None
        start = call.start_on_stalled if stalled == _OWN else call.start_beside_stalled
        for cycles in _STALLS:
            made = start(
                prepared,
                label=f"{stalled} stalled",
                pattern=self.scenario.scratch,
                stall=cycles,
            )
            late = made.done if stalled == _OWN else made.late(cycles)
            if not late:
                return made
            if cycles != _STALLS[-1]:  # perhaps the host was slow
                made.finish()
        # The host waits for its own stream however long that is stalled. What comes
        # late on the current one may have been in time: nothing was shown.
        return made if stalled == _OWN else None

    def _streams(
        self,
        world: CardWorld,
        own: Started | None,
        on_own: Execution | None,
        other: Started | None,
        beside: Execution | None,
    ) -> CheckOutcome:
        """Judge the streams of launches, and calls beside stalled streams."""
        base = self.runs[0]
        if not base.finished:
            return not_run(streams.NAME, "the call was not finished")
        if world.dsl is None:
            return not_run(streams.NAME, "launches are not seen")
        if other is None or beside is None or own is None or on_own is None:
            return not_run(streams.NAME, "the host was slower than the longest stall")
        kernel, found = self.settings.kernel, list[Finding]()
        for run, which in ((on_own, _OWN), (beside, _AMBIENT)):
            if not run.finished:
                return not_run(streams.NAME, f"with {which} stalled: {run.error}")
            found += streams.moved(
                base, run, rows=self.rows, kernel=kernel, stalled=which
            )
        if own.done:
            found.append(_waited(kernel))
        handle = int(world.stream.cuda_stream)
        return streams.check(base, stream=handle, stalled=found)

    def _capture(
        self, driver: Driver, call: CardCall, prepared: Prepared
    ) -> CheckOutcome:
        """Capture a call, replay it with its lengths and with others."""
        if not self.runs[0].finished:
            return not_run(replay.NAME, "the call was not finished")
        if self.scenario.stream != "side":
            world = self.side_world()
            prepared, call = _prepare(driver, self.scenario, world), call.on(world)
        pattern, kernel = self.scenario.scratch, self.settings.kernel
        try:
            captured = call.capture(prepared, pattern=pattern)
        except (SidestreamError, ValueError, RuntimeError) as error:
            first = str(error).splitlines()[0]
            return replay.check((), refused=first, kernel=kernel)
        made = []
        for case, lengths in (
            (self.scenario, "the lengths of the capture"),
            (_rearranged(self.scenario), "other lengths"),
        ):
            if case is None:
                continue
            with call.other_lengths(case):
                made.append(
                    replay.Replay(
                        plain=self.runs[0]
                        if case is self.scenario
                        else call.execute(
                            prepared,
                            label=f"a call with {lengths}",
                            pattern=pattern,
                            options=Options,
                        ),
                        replayed=call.replay(
                            captured, label=f"a replay with {lengths}", pattern=pattern
                        ),
                        rows=rows_of(case.lengths_q, self.scenario.capacity_q),
                        lengths=lengths,
                    )
                )
        return replay.check(made, refused="", kernel=kernel)

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


_OWN, _AMBIENT = "the call's stream", "the current stream"
_STALLS = (4_000_000, 100_000_000, 1_000_000_000)
"""Cycles that a stream is stalled for: longer ones where the host was not in time."""


def _waited(kernel: str) -> Finding:
    return Finding(
        kind="host-sync",
        rule=RULES["host-sync"],
        message="execute returns only when the stalled stream of the call is done",
        kernel=kernel,
        sites=(Site(agent="host", operation="execute on a stalled stream"),),
        need=NEEDS["host-sync"],
    )


def _thinned(lengths: tuple[int, ...]) -> tuple[int, ...]:
    """Empty every second sequence; halve one that is alone."""
    if len(lengths) == 1:
        return (lengths[0] // 2,)
    return tuple(n if at % 2 == 0 else 0 for at, n in enumerate(lengths))


def _rearranged(scenario: Scenario) -> Scenario | None:
    """Return a scenario with other lengths in the same room, or None."""
    turned = scenario.lengths_q[::-1], scenario.lengths_kv[::-1]
    if turned == (scenario.lengths_q, scenario.lengths_kv):
        turned = _thinned(scenario.lengths_q), _thinned(scenario.lengths_kv)
    if turned == (scenario.lengths_q, scenario.lengths_kv):
        return None
    return replace(scenario, lengths_q=turned[0], lengths_kv=turned[1])


def _prepare(driver: Driver, scenario: Any, world: CardWorld) -> Prepared:
    # Of a world, drivers use the chip, the stream and `upload`.
    return driver.prepare(problem_of(scenario), cast(VirtualCuda, world))


def _misses(driver: Driver) -> int:
    return int(driver.cache_info().misses) if isinstance(driver, PlansAhead) else 0
