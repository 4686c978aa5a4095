"""What a run did, as plain data: the one thing every report is rendered from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sidestream.harness.finding import Finding, Incomplete, Verdict
from sidestream.reports.cost import LaunchCost

SCHEMA = "sidestream.report/1"

PASSED, FAILED, NOT_RUN = "passed", "failed", "not-run"
STATUSES = (PASSED, FAILED, NOT_RUN)


@dataclass(frozen=True, kw_only=True)
class Check:
    """The outcome of one check on one case.

    Attributes:
        status: `passed`, `failed` or `not-run`.
        reason: Why it was not run, or what it found; may be empty if it passed.

    Raises:
        ValueError: an unknown status, or one other than `passed` without a reason.
    """

    status: str
    reason: str = ""

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"unknown check status {self.status!r}")
        if self.status != PASSED and not self.reason:
            raise ValueError(f"a check that is {self.status} needs a reason")


@dataclass(frozen=True, kw_only=True)
class Error:
    """How far one output is from the reference.

    Attributes:
        ratio: Largest error in units of its bound; at most 1 for a faithful result,
            infinite for a NaN or a value that had to be exact.
        absolute: Largest absolute error.
        at: Index of the largest ratio.
    """

    ratio: float
    absolute: float
    at: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Span:
    """A stretch of time: seconds since the run began, and for how long.

    One with an `id` can be named by the `after` of others: an arrow leads to them.
    """

    name: str
    start: float
    seconds: float
    track: str
    """The worker that spent it, or the stream that it took place on."""
    detail: str = ""
    id: int = 0
    after: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Case:
    """One scenario through one implementation.

    Attributes:
        impl: Implementation, as on the command line.
        kernel: Kernel of the implementation, as on the command line.
        scenario: Name of the scenario.
        description: What the scenario is for.
        verdict: Of this case alone.
        checks: Outcomes by name of the check.
        errors: Distance from the reference, by output.
        code: What the compiled code depends on, in short; cases with one value are
            served by one compilation.
        compiles: Compilations that the case needed.
        launches: Kernels launched by one execute call.
        warp_instructions: Executed over all launches of the case.
        seconds: Wall time by phase.
        findings: Ids of the findings that it showed.
        replay: One command that runs it again.
        spans: When the time was spent.
        cost: By launch of its first call, if that was asked for.
        relaxed: How often each relaxation of the ordering profile decided something.
    """

    impl: str
    kernel: str
    scenario: str
    description: str = ""
    verdict: Verdict
    checks: Mapping[str, Check]
    errors: Mapping[str, Error] = field(default_factory=dict)
    code: str = ""
    compiles: int = 0
    launches: int = 0
    warp_instructions: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    findings: tuple[str, ...] = ()
    replay: str = ""
    spans: tuple[Span, ...] = ()
    cost: tuple[LaunchCost, ...] = ()
    relaxed: Mapping[str, int] = field(default_factory=dict)

    @property
    def wall(self) -> float:
        """Seconds over all phases."""
        return sum(self.seconds.values())


@dataclass(frozen=True, kw_only=True)
class Declined:
    """A scenario that the implementation does not serve, and was not asked for."""

    scenario: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Compilation:
    """How often the compiler ran for the cases that need one code.

    Attributes:
        impl: Implementation.
        code: As `Case.code`.
        cases: Cases it serves.
        compiles: Compilations; 1 if nothing is compiled again.
    """

    impl: str
    code: str
    cases: int
    compiles: int


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change to one synchronisation of a kernel, and what became of it.

    Attributes:
        kernel: Name of the entry.
        line: Of the PTX text.
        source: `file:line` of the kernel's source, or None.
        operation: The instruction as it is spelt.
        group: Class of synchronisation.
        change: What was done to it.
        status: `caught`, `equivalent` or `survived`.
        by: Kinds of findings that caught it; `output` is results that differ.
        reason: Why it is not caught.
    """

    kernel: str
    line: int
    source: str | None
    operation: str
    group: str
    change: str
    status: str
    by: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Report:
    """A whole run.

    Attributes:
        command: The command line that made it.
        version: Version of Sidestream.
        device: `vgpu` or `cuda`.
        arch: PTX target.
        profile: Ordering profile, `isa` or `practice`.
        seed: Seed of data and schedule.
        cases: In the order they were run.
        findings: One per id: `folded` merges those of several cases.
        incomplete: Everything that could not be judged.
        declined: Scenarios left out because the implementation does not serve them.
        environment: Versions and machine, by name.
        mutants: Of `sidestream mutate`.
        wall_seconds: From start to end.
        started: UTC time of the start, ISO 8601.
    """

    command: str
    version: str
    device: str
    arch: str
    profile: str = "practice"
    seed: int = 0
    cases: tuple[Case, ...] = ()
    findings: tuple[Finding, ...] = ()
    incomplete: tuple[Incomplete, ...] = ()
    declined: tuple[Declined, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    mutants: tuple[Mutant, ...] = ()
    wall_seconds: float = 0.0
    started: str = ""

    @property
    def verdict(self) -> Verdict:
        """The worst of everything; a run that judged nothing is incomplete."""
        verdicts = [case.verdict for case in self.cases]
        if self.findings:
            known = all(finding.known for finding in self.findings)
            verdicts.append(Verdict.REVIEW if known else Verdict.FINDINGS)
        if self.incomplete or not self.cases:
            verdicts.append(Verdict.INCOMPLETE)
        if any(mutant.status == "survived" for mutant in self.mutants):
            verdicts.append(Verdict.REVIEW)
        return Verdict.worst(verdicts)

    @property
    def seconds(self) -> dict[str, float]:
        """Wall time by phase over all cases; workers add up."""
        total: dict[str, float] = {}
        for case in self.cases:
            for phase, spent in case.seconds.items():
                total[phase] = total.get(phase, 0.0) + spent
        return total

    @property
    def warp_instructions(self) -> int:
        """Warp instructions executed over all cases."""
        return sum(case.warp_instructions for case in self.cases)

    @property
    def relaxed(self) -> dict[str, int]:
        """Relaxations of the ordering profile over all cases."""
        total: dict[str, int] = {}
        for case in self.cases:
            for name, count in case.relaxed.items():
                total[name] = total.get(name, 0) + count
        return total

    @property
    def compiles(self) -> int:
        """Compilations over all cases."""
        return sum(case.compiles for case in self.cases)

    @property
    def compilations(self) -> tuple[Compilation, ...]:
        """Compilations by the code they made, the most used first."""
        groups: dict[tuple[str, str], list[Case]] = {}
        for case in self.cases:
            groups.setdefault((case.impl, case.code), []).append(case)
        rows = [
            Compilation(
                impl=impl,
                code=code,
                cases=len(cases),
                compiles=sum(case.compiles for case in cases),
            )
            for (impl, code), cases in groups.items()
        ]
        return tuple(sorted(rows, key=lambda row: -row.cases))


def folded(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Merge findings with one id: the first is kept, `count` adds up.

    `extra["scenarios"]` lists the scenarios that showed it.
    """
    kept: dict[str, Finding] = {}
    for finding in findings:
        before = kept.get(finding.id)
        if before is None:
            kept[finding.id] = replace(
                finding, extra={**finding.extra, "scenarios": scenarios_of(finding)}
            )
            continue
        names = list(dict.fromkeys([*scenarios_of(before), *scenarios_of(finding)]))
        kept[finding.id] = replace(
            before,
            count=before.count + finding.count,
            extra={**before.extra, "scenarios": names},
        )
    return tuple(kept.values())


def scenarios_of(finding: Finding) -> list[str]:
    """Return the scenarios that showed a finding, folded or not."""
    listed: Any = finding.extra.get("scenarios")
    if isinstance(listed, list):
        return [str(name) for name in listed]
    return [finding.scenario] if finding.scenario else []
