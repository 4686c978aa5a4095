"""One scenario on a real GPU: the same checks, as far as a card lets one see."""

from __future__ import annotations

from typing import Any, cast

from sidestream.harness.checks import cache, races, streams
from sidestream.harness.checks.outcome import CheckOutcome, not_asked, not_run
from sidestream.harness.cuda.host_sync import HostLog
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.drivers.protocol import Driver, PlansAhead, Prepared
from sidestream.harness.errors import SidestreamError
from sidestream.harness.exec.machine import Options
from sidestream.harness.run.card_call import CardCall
from sidestream.harness.run.card_world import CardWorld, current_world
from sidestream.harness.run.case import CaseOutcome, CaseRun
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.problem import other_totals, problem_of
from sidestream.scenarios.case import build

_NOT_SEEN = (streams.NAME, races.NAME)
"""Checks of what a card does not show: the streams of launches, accesses."""
_NO_ACCESSES = "a card does not tell who accesses what: --device vgpu"


class CardRun(CaseRun):
    """The steps of one case on the current card.

    A launch is not taken apart: reads of unwritten or foreign bytes show only in the
    results, and a schedule is whatever the card does when the call is repeated.
    """

    def run(self) -> CaseOutcome:
        """Make the calls and judge them."""
        driver = self.bench.implementation()
        declined = self.bench.declines(self.scenario)
        if declined is not None:
            raise SidestreamError(f"{self.settings.impl} does not serve it: {declined}")
        with self.phases.timed("build"):
            inputs = build(self.scenario)
        with self.phases.timed("reference"):
            limits, why = self._bounds(inputs)
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
        log = HostLog(table=world.table, virtual=False)
        judged = self._execute(call, prepared, log, int(world.stream.cuda_stream))
        outcomes = [o for o in judged if o.name not in _NOT_SEEN]
        outcomes.append(not_asked(races.NAME, _NO_ACCESSES))
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
        with self.phases.timed("check", "parity"):
            parity, errors = self._parity(inputs, limits, why)
        return self._outcome([parity, *outcomes], errors, compiles=executed - start)

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
            build(other),
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


def _prepare(driver: Driver, scenario: Any, world: CardWorld) -> Prepared:
    # Of a world, drivers use the chip, the stream and `upload`.
    return driver.prepare(problem_of(scenario), cast(VirtualCuda, world))


def _misses(driver: Driver) -> int:
    return int(driver.cache_info().misses) if isinstance(driver, PlansAhead) else 0
