"""What the host code of a plan does on a card, shown once for each plan.

Driver calls and their order, calls beside stalled streams, other totals: a case has
them all, or names the case before it that had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from sidestream.harness.checks import cache, host_sync, races, streams
from sidestream.harness.checks.observation import Execution, Rows
from sidestream.harness.checks.outcome import (
    PASSED,
    CheckOutcome,
    not_asked,
    not_run,
)
from sidestream.harness.cuda.card_log import CardLog
from sidestream.harness.cuda.card_order import CardOrder
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.drivers.protocol import Driver, Prepared, plans_ahead
from sidestream.harness.exec.machine import Options
from sidestream.harness.run import card_races, card_stalls
from sidestream.harness.run.card_call import CardCall
from sidestream.harness.run.card_races import order_of
from sidestream.harness.run.card_stalls import Started
from sidestream.harness.run.card_world import CardWorld
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.problem import other_totals, problem_of
from sidestream.harness.run.settings import Settings
from sidestream.scenarios.case import build
from sidestream.scenarios.scenario import Scenario


@dataclass(frozen=True, kw_only=True)
class HostCode:
    """The host code of one case.

    Attributes:
        settings: How to run.
        scenario: What is called.
        call: Its tensors.
        prepared: What is called.
        world: The card, and the stream of the call.
        log: Watches the calls made with it.
        known: A case that showed what this host code does, or "".
        options: How to execute launches on the virtual GPU.
    """

    settings: Settings
    scenario: Scenario
    call: CardCall
    prepared: Prepared
    world: CardWorld
    log: CardLog
    known: str
    options: Callable[[], Options]

    @property
    def elsewhere(self) -> str:
        """Say where it was shown."""
        return f"the host code of this plan was watched in {self.known}"

    def audited(self, outcome: CheckOutcome) -> CheckOutcome:
        """Let host-sync pass only if the driver was heard."""
        if outcome.name == host_sync.NAME and self.known:
            return not_asked(host_sync.NAME, self.elsewhere)
        if outcome.name != host_sync.NAME or outcome.status != PASSED:
            return outcome
        if not self.log.audited:
            return not_run(host_sync.NAME, self.log.unaudited)
        more = f"{outcome.reason}, {self.log.driver_calls} driver calls"
        return replace(outcome, reason=more)

    def races(self, base: Execution, first: CardOrder | None) -> CheckOutcome:
        """Judge the order of a call's operations.

        Args:
            base: The first call.
            first: Its order, if the host code is watched.
        """
        if not self.settings.races:
            return not_asked(races.NAME, "switched off by --no-races")
        if not base.finished:
            return not_run(races.NAME, "the call was not finished")
        if first is None:
            return not_asked(races.NAME, self.elsewhere)

        def again() -> CardOrder:
            order = order_of(self.call, self.world, self.options)
            self.call.execute(
                self.prepared,
                label="accesses looked at",
                pattern=self.scenario.scratch,
                options=self.options,
                log=CardLog(table=self.world.table, order=order),
            )
            return order

        return card_races.check(
            first,
            again,
            heard=self.log.audited,
            unheard=self.log.unaudited,
            kernel=self.settings.kernel,
        )

    def stalled(self, base: Execution, stalled: str) -> Started | None:
        """Make a call beside a stalled stream, if there is one to be made."""
        if not base.finished or self.world.dsl is None or self.known:
            return None
        return card_stalls.start(
            self.call, self.prepared, stalled=stalled, pattern=self.scenario.scratch
        )

    def streams(
        self,
        base: Execution,
        *,
        own: tuple[Started, Execution] | None,
        beside: Execution | None,
        rows: Rows,
    ) -> CheckOutcome:
        """Judge the streams of launches, and calls beside stalled streams."""
        handle = int(self.world.stream.cuda_stream)
        if not base.finished:
            return not_run(streams.NAME, "the call was not finished")
        if self.world.dsl is None:
            return not_run(streams.NAME, "launches are not seen")
        if self.known:
            made = streams.check(base, stream=handle)
            return replace(made, reason=f"{made.reason}; stalled: {self.elsewhere}")
        return card_stalls.check(
            base,
            own=own,
            beside=beside,
            stream=handle,
            rows=rows,
            kernel=self.settings.kernel,
        )

    def plans(
        self,
        base: Execution,
        driver: Driver,
        seen: cache.Seen,
        *,
        name: str,
        planning: int,
        executing: int,
    ) -> CheckOutcome:
        """Plan again and with other totals, which is called too; count misses.

        Args:
            base: The first call.
            driver: The implementation.
            seen: Declarations of the cases before.
            name: Of this case.
            planning: Compilations of the plan.
            executing: Compilations of the calls.
        """
        if not plans_ahead(driver):
            return not_run(cache.NAME, "compilations are not counted on a card")
        if not base.finished:
            return not_run(cache.NAME, "the call was not finished")
        before = seen.note(self.scenario.declaration(), name)
        if self.known:
            counts = cache.Compilations(
                planning=planning,
                before=before,
                again=0,
                executing=executing,
                other_totals=0,
            )
            made = cache.check(counts, (), kernel=self.settings.kernel)
            return replace(made, reason=f"{made.reason}; {self.elsewhere}")
        self.call.doing.begin("a second plan")
        mark, hits = misses(driver), int(driver.cache_info().hits)
        prepare(driver, self.scenario, self.world)
        again, second = misses(driver) - mark, int(driver.cache_info().hits) - hits
        mark = misses(driver)
        other = other_totals(self.scenario, same_capacity=False)
        prepared = prepare(driver, other, self.world)
        CardCall(
            self.world,
            build(other, rng=_Blank()),
            workspace_bytes=prepared.workspace_bytes,
            phases=Phases(origin=0.0, track=""),
            doing=self.call.doing,
        ).execute(prepared, label="other totals", pattern="zeros", options=Options)
        counts = cache.Compilations(
            planning=planning,
            before=before,
            again=again,
            executing=executing,
            other_totals=misses(driver) - mark,
            hits=second,
        )
        return cache.check(counts, (), kernel=self.settings.kernel)


class _Blank(np.random.Generator):
    """Draws zeros: nobody looks at the results of a call that is only counted."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def standard_normal(self, size: Any = None, *args: Any, **kwargs: Any) -> Any:
        return np.zeros(size)


def prepare(driver: Driver, scenario: Scenario, world: CardWorld) -> Prepared:
    """Plan a scenario; of a world, drivers use chip, stream and `upload`."""
    return driver.prepare(problem_of(scenario), cast(VirtualCuda, world))


def misses(driver: Driver) -> int:
    """Return how often a driver has compiled, as far as it tells."""
    return int(driver.cache_info().misses) if plans_ahead(driver) else 0
