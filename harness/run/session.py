"""Many cases, one report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from sidestream.harness.finding import Incomplete
from sidestream.harness.run.environment import environment, version
from sidestream.harness.run.package_warnings import collected
from sidestream.harness.run.settings import Settings
from sidestream.reports.model import Case, Declined, Report, folded
from sidestream.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from sidestream.harness.run.case import CaseOutcome


class Watcher(Protocol):
    """Hears how a session goes on."""

    def started(self, name: str) -> None:
        """A case begins."""

    def ended(self, case: Case) -> None:
        """A case is judged."""


Watching = Callable[[int], AbstractContextManager[Watcher]]
"""Makes a watcher for a number of cases."""


@dataclass(kw_only=True)
class Session:
    """One run over scenarios.

    Attributes:
        settings: How to run.
        scenarios: What to run, in the order of the report.
        asked: Whether the scenarios were named one by one: then declining one leaves
            the run incomplete.
        jobs: Processes; 1 runs in this one.
        command: The command line, for the report.
    """

    settings: Settings
    scenarios: Sequence[Scenario]
    asked: bool = False
    jobs: int = 1
    command: str = "sidestream check"
    _outcomes: dict[int, CaseOutcome] = field(default_factory=dict)
    _declined: dict[int, str] = field(default_factory=dict)
    _warned: dict[str, None] = field(default_factory=dict)

    def run(self, watching: Watching) -> Report:
        """Run everything; Ctrl-C ends it early and what is left counts as not run."""
        started, origin = datetime.now(UTC), time.time()
        why = "the run ended early"
        with collected() as self._warned:
            try:
                self._run(origin, watching)
            except KeyboardInterrupt:
                why = "interrupted"
        return self._report(
            started=started.isoformat(timespec="seconds"),
            seconds=time.time() - origin,
            why=why,
        )

    def _run(self, origin: float, watching: Watching) -> None:
        from sidestream.harness.exec.build import load
        from sidestream.harness.run.bench import Bench, kept_keys
        from sidestream.harness.run.case import unjudged
        from sidestream.harness.run.pool import Pool

        load()  # built once here, not by every worker
        bench = Bench(settings=self.settings, origin=origin, keys=kept_keys())
        served: list[int] = []
        for index, scenario in enumerate(self.scenarios):
            reason = bench.declines(scenario)
            if reason is None:
                served.append(index)
            elif self.asked:
                text = f"{self.settings.impl} declines it: {reason}"
                self._outcomes[index] = unjudged(self.settings, scenario, text)
            else:
                self._declined[index] = reason
        cases = [self.scenarios[index] for index in served]
        with watching(len(cases)) as watcher:
            pool = Pool(
                settings=self.settings,
                jobs=self.jobs,
                origin=origin,
                on_start=lambda at: watcher.started(cases[at].name),
            )
            with closing(pool.run(cases)) as ended:
                for at, outcome in ended:
                    self._outcomes[served[at]] = outcome
                    watcher.ended(outcome.case)

    def _warnings(self) -> dict[str, str]:
        """What packages warned of, each once, as facts of the environment."""
        told = dict(self._warned)
        for outcome in self._outcomes.values():
            told |= dict.fromkeys(outcome.warnings)
        return {f"warning {n}": text for n, text in enumerate(told, 1)}

    def _report(self, *, started: str, seconds: float, why: str) -> Report:
        outcomes = [self._outcomes[index] for index in sorted(self._outcomes)]
        incomplete = [entry for o in outcomes for entry in o.incomplete]
        incomplete += [
            Incomplete(
                reason=f"not run: {why}",
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
            environment=environment(self.settings.device) | self._warnings(),
            wall_seconds=seconds,
            started=started,
        )
