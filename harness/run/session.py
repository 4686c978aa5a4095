"""Many cases, one report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from sidestream.harness.finding import Incomplete
from sidestream.harness.run.environment import environment, version
from sidestream.harness.run.settings import Settings
from sidestream.reports.model import Declined, Report, folded
from sidestream.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from sidestream.harness.run.case import CaseOutcome


class Watcher(Protocol):
    """Hears how a session goes on."""

    def started(self, scenario: Scenario) -> None:
        """A case begins."""

    def ended(self, outcome: CaseOutcome) -> None:
        """A case is judged."""

    def declined(self, scenario: Scenario, reason: str) -> None:
        """A scenario is left out: the implementation does not serve it."""


@dataclass(kw_only=True)
class Session:
    """One run over scenarios.

    Attributes:
        settings: How to run.
        scenarios: What to run, in the order of the report.
        asked: Names of scenarios that were asked for one by one: declining one of
            these leaves the run incomplete.
        jobs: Processes; 1 runs in this one.
        command: The command line, for the report.
        watcher: Hears how it goes on, or None.
    """

    settings: Settings
    scenarios: Sequence[Scenario]
    asked: frozenset[str] = frozenset()
    jobs: int = 1
    command: str = "sidestream check"
    watcher: Watcher | None = None
    _outcomes: dict[int, CaseOutcome] = field(default_factory=dict)
    _declined: dict[int, str] = field(default_factory=dict)

    def run(self) -> Report:
        """Run everything; Ctrl-C ends it early and what is left counts as not run."""
        started, origin = datetime.now(UTC), time.time()
        why = ""
        try:
            self._run(origin)
        except KeyboardInterrupt:
            why = "interrupted"
        return self._report(
            started=started.isoformat(timespec="seconds"),
            seconds=time.time() - origin,
            why=why,
        )

    def _run(self, origin: float) -> None:
        from sidestream.harness.run.case import Bench, unjudged
        from sidestream.harness.run.pool import Pool

        bench = Bench(settings=self.settings, origin=origin)
        served: list[int] = []
        for index, scenario in enumerate(self.scenarios):
            reason = bench.declines(scenario)
            if reason is None:
                served.append(index)
            elif scenario.name in self.asked:
                text = f"{self.settings.impl} declines it: {reason}"
                self._end(index, unjudged(self.settings, scenario, text))
            else:
                self._declined[index] = reason
                if self.watcher:
                    self.watcher.declined(scenario, reason)
        cases = [self.scenarios[index] for index in served]
        pool = Pool(
            settings=self.settings,
            jobs=self.jobs,
            origin=origin,
            on_start=lambda at: self._start(cases[at]),
        )
        for at, outcome in pool.run(cases):
            self._end(served[at], outcome)

    def _start(self, scenario: Scenario) -> None:
        if self.watcher:
            self.watcher.started(scenario)

    def _end(self, index: int, outcome: CaseOutcome) -> None:
        self._outcomes[index] = outcome
        if self.watcher:
            self.watcher.ended(outcome)

    def _report(self, *, started: str, seconds: float, why: str) -> Report:
        outcomes = [self._outcomes[index] for index in sorted(self._outcomes)]
        incomplete = [entry for o in outcomes for entry in o.incomplete]
        incomplete += [
            Incomplete(
                reason=f"not run: {why or 'the run ended early'}",
                kernel=self.settings.kernel,
                scenario=scenario.name,
            )
            for index, scenario in enumerate(self.scenarios)
            if index not in self._outcomes and index not in self._declined
        ]
        return Report(
            command=self.command,
            version=version(),
            device=self.settings.device,
            arch=self.settings.arch,
            profile=self.settings.profile,
            seed=self.settings.seed,
            cases=tuple(outcome.case for outcome in outcomes),
            findings=folded(f for outcome in outcomes for f in outcome.findings),
            incomplete=tuple(incomplete),
            declined=tuple(
                Declined(scenario=self.scenarios[index].name, reason=reason)
                for index, reason in sorted(self._declined.items())
            ),
            environment=environment(),
            wall_seconds=seconds,
            started=started,
        )
