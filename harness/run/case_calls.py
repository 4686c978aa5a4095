"""The calls of one case on the virtual GPU, and the capture of one of them."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from sidestream.harness.checks import (
    bounds,
    replay,
    scratch,
)
from sidestream.harness.checks.observation import Execution, difference, rows_of
from sidestream.harness.checks.outcome import PASSED, CheckOutcome, not_run
from sidestream.harness.cuda.host_sync import HostLog
from sidestream.harness.drivers.protocol import (
    Prepared,
    plans_ahead,
)
from sidestream.harness.dsl.compile_log import CompileRecord
from sidestream.harness.exec.cost import CostTable
from sidestream.harness.exec.machine import Options
from sidestream.harness.exec.schedule import Schedule
from sidestream.harness.finding import Incomplete
from sidestream.harness.run import virtual_capture
from sidestream.harness.run.bench import Bench
from sidestream.harness.run.card_capture import rearranged
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.plan_facts import host_facts
from sidestream.harness.run.virtual_call import VirtualCall
from sidestream.harness.run.virtual_capture import VirtualCapture
from sidestream.scenarios.scenario import Scenario

SIDE_STREAM = 0x51DE
ON_CHIP = {"zeros": 0, "ones": 0xFFFF_FFFF, "canary": 0xA5A5_A5A5}
"""What uninitialised registers and shared memory hold, by scratch pattern."""
_OTHER_SCHEDULE = 0x5EED


@dataclass(frozen=True, kw_only=True)
class Calls:
    """The calls of a case, by what they differ in from the first of each list.

    Attributes:
        filled: In what scratch and on-chip memory held.
        again: In nothing but the schedule.
        isolations: In the inputs of some sequences; not with the first call.
    """

    filled: list[Execution]
    again: list[Execution]
    isolations: list[bounds.Isolation]


class CaseCalls:
    """Makes the calls of a case."""

    def __init__(self, bench: Bench, scenario: Scenario, phases: Phases) -> None:
        self.bench, self.phases = bench, phases
        self.settings = bench.settings
        self.scenario = replace(scenario, seed=scenario.seed + self.settings.seed)
        self.named = scenario
        self.rows = rows_of(scenario.lengths_q, scenario.capacity_q)
        self.until = time.monotonic() + self.settings.deadline
        self.runs: list[Execution] = []
        self.incomplete: list[Incomplete] = []
        self.taken: VirtualCapture | None = None
        self.before: Execution | None = None
        """A call with other lengths, made before the capture."""
        self.replays: tuple[Execution, Execution] | None = None
        """A plain call, and a replay that must equal it."""
        self.capturing: tuple[CompileRecord, ...] = ()
        """What was compiled in a capture, for a plan of its own."""

    def _options(self) -> Options:
        """Return how to execute a launch in the time that is left."""
        return Options(
            budget=self.settings.budget,
            deadline=max(0.001, self.until - time.monotonic()),
            sms=self.settings.sms,
            max_smem=self.bench.device().chip.smem_per_block,
        )

    def _scheduled(self) -> Options:
        """Return the same with the schedule that is asked for."""
        return self._options().scheduled(self.settings.scheduled)

    def _calls(self, call: VirtualCall, prepared: Prepared, log: HostLog) -> Calls:
        """Make every call of the case; the host is watched in the first."""
        ahead = plans_ahead(self.bench.implementation())
        patterns = [self.scenario.scratch]
        patterns += [p for p in ON_CHIP if p != self.scenario.scratch]
        patterns = patterns[: scratch.FEWEST_PATTERNS]
        base = self._call(
            call, prepared, patterns[0], log=log if ahead else None, record=True
        )
        going = base.finished
        if going:
            with self.phases.timed("execute", "capture"):
                self._capture(call, prepared, base)
        filled = [base]
        filled += [
            self._call(call, prepared, p, log=log) for p in patterns[1:] if going
        ]
        again = [base]
        if going:
            again += [
                self._repeat(call, prepared, patterns[0], number)
                for number in range(1, self.settings.schedules + 1)
            ]
        isolations = self._isolate(call, prepared, patterns[0]) if going else []
        return Calls(filled=filled, again=again, isolations=isolations)

    def _watches(self, drawn: int, *, first: bool) -> bool:
        """Whether races are looked for in a call: the first, or one of many."""
        each = drawn > 0 and self.settings.schedules > 1
        return self.settings.races and (first or each)

    def _isolate(
        self, call: VirtualCall, prepared: Prepared, pattern: str
    ) -> list[bounds.Isolation]:
        """Change every other sequence, then the rest: the others must not notice."""
        lengths = self.scenario.lengths_q
        isolations = []
        for parity_bit in (0, 1):
            changed = frozenset(range(parity_bit, len(lengths), 2))
            if not any(n for b, n in enumerate(lengths) if b not in changed):
                continue
            if not any(self.scenario.lengths_kv[b] or lengths[b] for b in changed):
                continue
            name = "even" if parity_bit == 0 else "odd"
            label = f"{name} sequences changed"
            run = self._flipped(call, prepared, pattern, changed, label)
            isolations.append(bounds.Isolation(changed=changed, run=run))
        return isolations

    def _flipped(
        self,
        call: VirtualCall,
        prepared: Prepared,
        pattern: str,
        changed: frozenset[int],
        label: str,
    ) -> Execution:
        """Make a call in which Q and V of some sequences have the other sign."""
        with call.flipped(changed):
            return self._call(call, prepared, pattern, label=label)

    def _capture(self, call: VirtualCall, prepared: Prepared, first: Execution) -> None:
        """Capture the first call of another plan, on a stream that can be captured.

        A call with other lengths comes before, once for each host code: what it leaves
        behind must not be in the graph either.
        """
        compiles = self.bench.device().compiles
        mark = compiles.mark()
        driver, other = self.bench.implementation(), rearranged(self.scenario)
        key = host_facts(self.bench.compile_key(self.scenario), self.scenario)
        if other is not None and (key is None or key not in self.bench.watched):
            with call.with_lengths(other):
                self.before = call.execute(
                    prepared,
                    label="a call with other lengths",
                    pattern=self.scenario.scratch,
                    options=self._scheduled,
                )
        self.taken = virtual_capture.capture(
            driver,
            self.scenario,
            call,
            stream=SIDE_STREAM,
            options=self._scheduled,
        )
        self.capturing = compiles.since(mark)

    def _repeat(
        self, call: VirtualCall, prepared: Prepared, pattern: str, number: int
    ) -> Execution:
        """Make the first call under another schedule; a replay stands for one.

        Where that gives other bits a call tells whether the schedule is why.
        """
        taken, base = self.taken, self.runs[0]
        label, schedule = self._drawn(number)
        if (
            taken is None
            or not taken.replayable
            or self.replays
            or time.monotonic() > self.until
        ):
            return self._call(call, prepared, pattern, drawn=number)
        run = taken.replay(
            label=f"a replay under {label}",
            pattern=pattern,
            options=lambda: self._options().scheduled(schedule),
            profile=self.settings.profile
            if self._watches(number, first=False)
            else None,
        )
        same = run.finished and difference(base, run, self.rows.live) is None
        if same:
            self.runs.append(run)
            plain = base
        else:
            plain = self._call(call, prepared, pattern, drawn=number)
        self.replays = (plain, run)
        return run if same else plain

    def _captured(self) -> CheckOutcome:
        """Judge the capture."""
        if self.taken is None:
            return not_run(replay.NAME, "the call was not finished")
        plain, run = self.replays or (self.runs[0], None)
        kernel = self.settings.kernel
        made = self.taken.check(plain, run, rows=self.rows, kernel=kernel)
        before = self.before
        if before is None:
            return made
        self.incomplete += before.incomplete
        known = {finding.id for one in self.runs for finding in one.findings}
        made = made.with_findings([f for f in before.findings if f.id not in known])
        if made.status == PASSED and not before.finished:
            why = before.error or "it was not finished"
            return not_run(replay.NAME, f"{before.label}: {why}")
        return made

    def _drawn(self, number: int) -> tuple[str, Schedule]:
        """Return another schedule, and what a call under it is named."""
        other = (self.settings.scheduled.seed ^ _OTHER_SCHEDULE) + number - 1
        schedule = Schedule(policy="random", seed=other)
        if self.settings.schedules > 1:
            return f"schedule {schedule.spell()}", schedule
        return "another schedule", schedule

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
        schedule = self.settings.scheduled
        if drawn:
            label, schedule = self._drawn(drawn)
        label = label or f"scratch {pattern}"
        folder = self.settings.launches
        # The first call keeps the core's own fill: values that look like nothing.
        fill = ON_CHIP.get(pattern) if self.runs else None

        def options() -> Options:
            cost = CostTable() if record and self.settings.stats else None
            options = replace(self._options(), cost=cost).scheduled(schedule)
            if fill is None:
                return options
            return replace(options, smem_fill=fill, register_fill=fill)

        if self.runs and time.monotonic() > self.until:
            return self._too_late(label)
        progress = self.bench.progress
        run = call.execute(
            prepared,
            label=label,
            pattern=pattern,
            options=options,
            log=log,
            record=folder / self.named.name if folder and record else None,
            progress=(lambda done: progress(label, done)) if progress else None,
            profile=self.settings.profile
            if self._watches(drawn, first=record)
            else None,
        )
        self.runs.append(run)
        return run

    def _too_late(self, label: str) -> Execution:
        """Return a call that was not made because the case's time was up."""
        late = Incomplete(reason=self._late(label), kernel=self.settings.kernel)
        run = replace(
            self.runs[0],
            label=label,
            findings=(),
            launches=(),
            incomplete=(late,),
            finished=False,
            warp_instructions=0,
        )
        self.runs.append(run)
        return run

    def _late(self, label: str) -> str:
        return f"deadline of {self.settings.deadline:g} s passed before {label}"
