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
from sidestream.harness.checks.outcome import PASSED, CheckOutcome, not_run
from sidestream.harness.cuda.host_sync import HostLog
from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.drivers.arithmetic import standard
from sidestream.harness.drivers.protocol import (
    Prepared,
    plans_ahead,
    tells_arithmetic,
)
from sidestream.harness.dsl.compile_log import CompileRecord
from sidestream.harness.errors import SidestreamError
from sidestream.harness.exec.cost import CostTable
from sidestream.harness.finding import Finding, Incomplete, Verdict
from sidestream.harness.run import script_keys, unjoined_call
from sidestream.harness.run.bench import Bench
from sidestream.harness.run.case_calls import SIDE_STREAM, Calls, CaseCalls
from sidestream.harness.run.package_warnings import collected
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.plan_facts import host_facts
from sidestream.harness.run.plans import watch_plans
from sidestream.harness.run.problem import problem_of
from sidestream.harness.run.settings import Settings
from sidestream.harness.run.token import command
from sidestream.harness.run.virtual_call import VirtualCall
from sidestream.harness.runtime import CallSite
from sidestream.harness.stats.area import live_area
from sidestream.harness.stats.measure import measure
from sidestream.reference import narrow, tolerance
from sidestream.reports.cost import LaunchCost
from sidestream.reports.model import Case, Check, Error
from sidestream.scenarios.case import CaseInputs, build
from sidestream.scenarios.fill import out_sentinel
from sidestream.scenarios.scenario import Scenario


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


class CaseRun(CaseCalls):
    """The steps of one case on the virtual GPU, in order."""

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
            mark = start = device.compiles.mark()
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
            executed = [
                record
                for record in device.compiles.since(mark)
                if not any(record is other for other in self.capturing)
            ]
            with self.phases.timed("check", "plans"):
                outcomes.append(
                    self._cache(call, prepared, planned, executed, start=start)
                )
        with self.phases.timed("check", "streams"):
            outcomes = [
                self._unjoined(inputs, one) if one.name == streams.NAME else one
                for one in outcomes
            ]
        with self.phases.timed("check", "parity"):
            judged, errors = self._parity(inputs, limits, why)
        return self._outcome(
            [judged, *outcomes], errors, compiles=len(planned) + len(executed)
        )

    def _unjoined(self, inputs: CaseInputs, outcome: CheckOutcome) -> CheckOutcome:
        """Call while another stream is current, once for each host code.

        Implementations that are not given a stream launch on the current one, whichever
        it is.
        """
        driver = self.bench.implementation()
        key = host_facts(self.bench.compile_key(self.scenario), self.scenario)
        if key is None or outcome.status != PASSED or not self.runs[0].finished:
            return outcome
        known = self.bench.watched.get(key)
        if known is not None:
            return replace(outcome, reason=f"{outcome.reason}; unjoined: in {known}")
        if time.monotonic() > self.until:
            return not_run(streams.NAME, self._late("a call beside another stream"))
        made = unjoined_call.check(
            driver,
            inputs,
            activation=self.bench.device(),
            options=self._scheduled,
            base=self.runs[0],
            rows=self.rows,
            kernel=self.settings.kernel,
        )
        self.incomplete += made.incomplete
        if made == unjoined_call.Unjoined():
            self.bench.watched[key] = self.named.name
        return outcome.with_findings(made.findings)

    def _cache(
        self,
        call: VirtualCall,
        prepared: Prepared,
        planned: Sequence[CompileRecord],
        executed: Sequence[CompileRecord],
        *,
        start: int,
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
        unequal = script_keys.unequal(
            [
                (one, CallSite(frames=(one.source_name,)))
                for one in self.bench.device().compiles.since(start)
            ],
            self.bench.keys,
            self.bench.compiled,
        )
        return cache.check(seen, variations, unequal=unequal, kernel=kernel)

    def _bounds(self, inputs: CaseInputs) -> tuple[tolerance.Bound | None, str]:
        driver, problem = self.bench.implementation(), problem_of(self.scenario)
        if tells_arithmetic(driver):
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
        made = self._calls(call, prepared, log)
        return [*self._judge(made, call, log, stream), self._captured()]

    def _judge(
        self, made: Calls, call: VirtualCall, log: HostLog, stream: int
    ) -> list[CheckOutcome]:
        """Judge calls in all but parity and cache."""
        kernel, base = self.settings.kernel, made.filled[0]
        ahead = plans_ahead(self.bench.implementation())
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
        counted = self.runs[0].counted
        area = live_area(self.scenario) if counted else 0
        return tuple(
            measure(
                program,
                result,
                CostTable(),
                head_dims=(self.scenario.head_dim, self.scenario.width_v),
                live_area=area,
            )
            for program, result in counted
        )

    def _outcome(
        self, outcomes: list[CheckOutcome], errors: dict[str, Error], *, compiles: int
    ) -> CaseOutcome:
        again = command(self.settings, self.named)
        facts: dict[str, Any] = {"scenario": self.named.name, "replay": again}
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
            replay=again,
            spans=tuple(self.phases.spans),
            cost=self._cost(),
            relaxed=self.runs[0].relaxed if self.runs else {},
        )
        return CaseOutcome(
            case=case, findings=tuple(findings.values()), incomplete=tuple(incomplete)
        )
