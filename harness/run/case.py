"""One scenario through one implementation: calls, checks, verdict."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sidestream.harness.checks import (
    bounds,
    cache,
    determinism,
    execution,
    host_sync,
    parity,
    races,
    scratch,
    streams,
)
from sidestream.harness.checks.observation import Execution, rows_of
from sidestream.harness.checks.outcome import CheckOutcome, not_run
from sidestream.harness.cuda.host_sync import HostLog
from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.drivers.arithmetic import standard
from sidestream.harness.drivers.protocol import (
    PlansAhead,
    Prepared,
    TellsArithmetic,
)
from sidestream.harness.dsl.compile_log import CompileRecord
from sidestream.harness.errors import SidestreamError
from sidestream.harness.exec.cost import CostTable
from sidestream.harness.exec.machine import Options
from sidestream.harness.exec.schedule import Schedule
from sidestream.harness.finding import Finding, Incomplete, Verdict
from sidestream.harness.run.bench import Bench
from sidestream.harness.run.package_warnings import collected
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.plans import watch_plans
from sidestream.harness.run.problem import problem_of
from sidestream.harness.run.settings import Settings
from sidestream.harness.run.token import command
from sidestream.harness.run.virtual_call import VirtualCall
from sidestream.harness.stats.area import live_area
from sidestream.harness.stats.measure import measure
from sidestream.reference import narrow, tolerance
from sidestream.reports.cost import LaunchCost
from sidestream.reports.model import Case, Check, Error
from sidestream.scenarios.case import CaseInputs, build
from sidestream.scenarios.fill import out_sentinel
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


@dataclass(frozen=True, kw_only=True)
class CaseOutcome:
    """What a case adds to a report; `warnings` are those of packages."""

    case: Case
    findings: tuple[Finding, ...]
    incomplete: tuple[Incomplete, ...]
    warnings: tuple[str, ...] = ()


def run_case(bench: Bench, scenario: Scenario) -> CaseOutcome:
    """Run one scenario; whatever goes wrong is in the outcome and raises nothing.

    Raises:
        KeyboardInterrupt: as it comes.
    """
    with collected() as warned:
        outcome = _run_case(bench, scenario)
    return replace(outcome, warnings=tuple(warned))


def _run_case(bench: Bench, scenario: Scenario) -> CaseOutcome:
    phases = Phases(origin=bench.origin, track=bench.track)
    try:
        if bench.settings.device == "cuda":
            from sidestream.harness.run.card_case import CardRun

            return CardRun(bench, scenario, phases).run()
        return CaseRun(bench, scenario, phases).run()
    except (SidestreamError, ValueError, MemoryError) as error:
        reason = f"{type(error).__name__}: {error}"
    except Exception as error:
        reason = f"unexpected {type(error).__name__}: {error}"
    return unjudged(bench.settings, scenario, reason, phases)


def unjudged(
    settings: Settings, scenario: Scenario, reason: str, phases: Phases | None = None
) -> CaseOutcome:
    """Return the outcome of a case that could not be run at all."""
    case = Case(
        impl=settings.impl,
        kernel=settings.kernel,
        scenario=scenario.name,
        description=scenario.description,
        verdict=Verdict.INCOMPLETE,
        checks={parity.NAME: Check(status="not-run", reason=reason)},
        seconds=dict(phases.seconds) if phases else {},
        spans=tuple(phases.spans) if phases else (),
        replay=command(settings, scenario),
    )
    entry = Incomplete(reason=reason, kernel=settings.kernel, scenario=scenario.name)
    return CaseOutcome(case=case, findings=(), incomplete=(entry,))


class CaseRun:
    """The steps of one case on the virtual GPU, in order."""

    def __init__(self, bench: Bench, scenario: Scenario, phases: Phases) -> None:
        self.bench, self.phases = bench, phases
        self.settings = bench.settings
        self.scenario = replace(scenario, seed=scenario.seed + self.settings.seed)
        self.named = scenario
        self.rows = rows_of(scenario.lengths_q, scenario.capacity_q)
        self.until = time.monotonic() + self.settings.deadline
        self.runs: list[Execution] = []
        self.incomplete: list[Incomplete] = []

    def run(self) -> CaseOutcome:
        """Make the calls and judge them.

        Raises:
            SidestreamError: the implementation does not serve the scenario.
        """
        device, driver = self.bench.device(), self.bench.implementation()
        declined = self.bench.declines(self.scenario)
        if declined is not None:
            raise SidestreamError(f"{self.settings.impl} does not serve it: {declined}")
        with self.phases.timed("build"):
            inputs = build(self.scenario)
        with self.phases.timed("reference"):
            limits, why = self._bounds(inputs)
        stream = SIDE_STREAM if self.scenario.stream == "side" else 0
        with VirtualCuda(device, AllocationTable(), stream=stream) as world:
            mark = device.compiles.mark()
            with self.phases.timed("compile"):
                prepared = driver.prepare(problem_of(self.scenario), world)
            planned = device.compiles.since(mark)
            call = VirtualCall(
                world,
                inputs,
                workspace_bytes=prepared.workspace_bytes,
                phases=self.phases,
            )
            log = HostLog(table=world.table)
            mark = device.compiles.mark()
            outcomes = self._execute(call, prepared, log, stream)
            executed = device.compiles.since(mark)
            with self.phases.timed("check", "plans"):
                outcomes.append(self._cache(call, prepared, planned, executed))
        with self.phases.timed("check", "parity"):
            judged, errors = self._parity(inputs, limits, why)
        return self._outcome(
            [judged, *outcomes], errors, compiles=len(planned) + len(executed)
        )

    def _cache(
        self,
        call: VirtualCall,
        prepared: Prepared,
        planned: Sequence[CompileRecord],
        executed: Sequence[CompileRecord],
    ) -> CheckOutcome:
        """Plan again and compare; an implementation that raises tells nothing here."""
        kernel = self.settings.kernel
        if self.runs[0].error is not None:
            return not_run(cache.NAME, f"execute raised {self.runs[0].error}")
        try:
            seen, variations = watch_plans(
                self.scenario,
                driver=self.bench.implementation(),
                world=call.world,
                call=call,
                prepared=prepared,
                planned=planned,
                executed=executed,
                seen=self.bench.seen,
            )
        except (SidestreamError, ValueError) as error:
            return not_run(cache.NAME, f"planning again raised {error}")
        return cache.check(seen, variations, kernel=kernel)

    def _bounds(self, inputs: CaseInputs) -> tuple[tolerance.Bound | None, str]:
        driver, problem = self.bench.implementation(), problem_of(self.scenario)
        if isinstance(driver, TellsArithmetic):
            model = driver.arithmetic(problem, self.settings.arch)
        else:
            model = standard(problem)
        try:
            return tolerance.bound(inputs.problem(), dtype=model), ""
        except ValueError as error:
            return None, str(error)

    def _execute(
        self, call: VirtualCall, prepared: Prepared, log: HostLog, stream: int
    ) -> list[CheckOutcome]:
        """Make every call of the case and judge all but parity and cache."""
        return self._judge(self._calls(call, prepared, log), call, log, stream)

    def _calls(self, call: VirtualCall, prepared: Prepared, log: HostLog) -> Calls:
        """Make every call of the case; the host is watched in the first."""
        ahead = isinstance(self.bench.implementation(), PlansAhead)
        patterns = [self.scenario.scratch]
        patterns += [p for p in ON_CHIP if p != self.scenario.scratch]
        patterns = patterns[: scratch.FEWEST_PATTERNS]
        base = self._call(
            call, prepared, patterns[0], log=log if ahead else None, record=True
        )
        going = base.finished
        filled = [base]
        filled += [
            self._call(call, prepared, p, log=log) for p in patterns[1:] if going
        ]
        again = [base]
        if going:
            again += [
                self._call(call, prepared, patterns[0], drawn=number)
                for number in range(1, self.settings.schedules + 1)
            ]
        isolations = self._isolate(call, prepared, patterns[0]) if going else []
        return Calls(filled=filled, again=again, isolations=isolations)

    def _judge(
        self, made: Calls, call: VirtualCall, log: HostLog, stream: int
    ) -> list[CheckOutcome]:
        """Judge calls in all but parity and cache."""
        kernel, base = self.settings.kernel, made.filled[0]
        ahead = isinstance(self.bench.implementation(), PlansAhead)
        calls = len(made.filled) if ahead else len(made.filled) - 1
        with self.phases.timed("check"):
            return [
                execution.check(self.runs, kernel=kernel),
                bounds.check(
                    self.runs,
                    allowed=call.allowed(),
                    spell=call.spell,
                    broken_guards=call.broken_guards(),
                    isolations=made.isolations,
                    rows=self.rows,
                    kernel=kernel,
                ),
                scratch.check(
                    made.filled,
                    workspace_bytes=call.workspace_bytes,
                    rows=self.rows,
                    kernel=kernel,
                ),
                races.check(
                    made.again if self.settings.schedules > 1 else [base],
                    asked=self.settings.races,
                ),
                determinism.check(made.again, rows=self.rows, kernel=kernel),
                host_sync.check(
                    log.events,
                    calls=calls,
                    returns_outputs="out" not in base.written,
                    callers=call.names,
                    kernel=kernel,
                    scratch=None if ahead else ("workspace", stream),
                )
                if calls
                else not_run(host_sync.NAME, "no call could be watched"),
                streams.check(base, stream=stream),
            ]

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
            other = (schedule.seed ^ _OTHER_SCHEDULE) + drawn - 1
            schedule = Schedule(policy="random", seed=other)
            label = "another schedule"
            if self.settings.schedules > 1:
                label = f"schedule {schedule.spell()}"
        label = label or f"scratch {pattern}"
        folder = self.settings.launches
        # The first call keeps the core's own fill: values that look like nothing.
        fill = ON_CHIP.get(pattern) if self.runs else None

        def options() -> Options:
            options = Options(
                budget=self.settings.budget,
                deadline=max(0.001, self.until - time.monotonic()),
                sms=self.settings.sms,
                max_smem=self.bench.device().chip.smem_per_block,
                cost=CostTable() if record and self.settings.stats else None,
            ).scheduled(schedule)
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
        reason = f"deadline of {self.settings.deadline:g} s passed before {label}"
        late = Incomplete(reason=reason, kernel=self.settings.kernel)
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

    def _parity(
        self, inputs: CaseInputs, limits: tolerance.Bound | None, why: str
    ) -> tuple[CheckOutcome, dict[str, Error]]:
        base = self.runs[0]
        if limits is None:
            return not_run(parity.NAME, why), {}
        if not base.finished:
            return not_run(parity.NAME, "the call was not finished"), {}
        out = narrow.from_bits(base.out, narrow.by_name(self.scenario.output_dtype))
        if inputs.scale_out is not None:
            out = out / float(inputs.scale_out[0])
        outcome, far = parity.check(
            limits,
            parity.Result(
                out=out,
                lse=base.lse,
                unwritten=base.out == out_sentinel(self.scenario.output_dtype),
                amax=float(base.amax[0]) if base.amax is not None else None,
            ),
            rows=self.rows,
            judge=inputs.judged,
            kernel=self.settings.kernel,
        )
        errors = {"out": Error(ratio=far.out, absolute=far.out_error, at=far.out_at)}
        if far.amax is not None:
            errors["amax"] = Error(
                ratio=far.amax, absolute=far.amax_error or 0.0, at=()
            )
        if far.lse is not None:
            errors["lse"] = Error(
                ratio=far.lse, absolute=far.lse_error or 0.0, at=far.lse_at or ()
            )
        return outcome, errors

    def _cost(self) -> tuple[LaunchCost, ...]:
        """Sum up what the first call cost, if it was counted."""
        area = live_area(self.scenario)
        return tuple(
            measure(
                program,
                result,
                CostTable(),
                head_dims=(self.scenario.head_dim, self.scenario.width_v),
                live_area=area,
            )
            for program, result in self.runs[0].counted
        )

    def _outcome(
        self, outcomes: list[CheckOutcome], errors: dict[str, Error], *, compiles: int
    ) -> CaseOutcome:
        replay = command(self.settings, self.named)
        facts: dict[str, Any] = {"scenario": self.named.name, "replay": replay}
        findings = {
            f.id: replace(f, **facts) for o in outcomes for f in reversed(o.findings)
        }
        for run in self.runs:
            self.incomplete += [
                replace(i, scenario=self.named.name) for i in run.incomplete
            ]
            # A defect that no check claims is a defect all the same.
            for f in run.findings:
                findings.setdefault(f.id, replace(f, **facts))
        incomplete = list(dict.fromkeys(self.incomplete))
        for outcome in outcomes:
            if outcome.status != "not-run" or not outcome.asked:
                continue
            if not incomplete and not findings:
                incomplete.append(
                    Incomplete(
                        reason=f"{outcome.name}: {outcome.reason}",
                        kernel=self.settings.kernel,
                        scenario=self.named.name,
                    )
                )
        verdict = Verdict.CLEAN
        if incomplete:
            verdict = Verdict.INCOMPLETE
        if findings:
            verdict = Verdict.FINDINGS
        case = Case(
            impl=self.settings.impl,
            kernel=self.settings.kernel,
            scenario=self.named.name,
            description=self.named.description,
            verdict=verdict,
            checks={o.name: Check(status=o.status, reason=o.reason) for o in outcomes},
            errors=errors,
            code=self.bench.code(self.scenario),
            compiles=compiles,
            launches=len(self.runs[0].launches),
            warp_instructions=sum(run.warp_instructions for run in self.runs),
            seconds=dict(self.phases.seconds),
            findings=tuple(findings),
            replay=replay,
            spans=tuple(self.phases.spans),
            cost=self._cost(),
            relaxed=self.runs[0].relaxed if self.runs else {},
        )
        return CaseOutcome(
            case=case, findings=tuple(findings.values()), incomplete=tuple(incomplete)
        )
