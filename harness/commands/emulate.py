"""`sidestream emulate`: one recorded launch, executed again, or other code for it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from sidestream.harness.checks import bounds, execution, races, scratch
from sidestream.harness.checks.outcome import (
    PASSED,
    CheckOutcome,
    judged,
    not_asked,
    not_run,
)
from sidestream.harness.commands import console, recorded_code
from sidestream.harness.commands.check import prepare_folder
from sidestream.harness.commands.recorded_code import DIFFERS
from sidestream.harness.device import explore
from sidestream.harness.device.outcome import Outcome, failed, no_time
from sidestream.harness.device.programs import CACHE
from sidestream.harness.device.vgpu import run_launch
from sidestream.harness.dsl.chip import CHIPS
from sidestream.harness.dsl.record import RecordedLaunch, read_launch
from sidestream.harness.errors import PtxError, UnsupportedError, UsageError
from sidestream.harness.exec.machine import Options, check_geometry, parameter_block
from sidestream.harness.exec.program import Program
from sidestream.harness.finding import Finding, Verdict
from sidestream.harness.run.environment import environment, version
from sidestream.harness.run.settings import Settings
from sidestream.reports.model import Case, Check, Report, folded
from sidestream.reports.write import write


def run(
    folder: Path,
    *,
    ptx: Path | None,
    settings: Settings,
    out: Path | None,
    command: str,
    explored: Sequence[str] = (),
) -> int:
    """Execute a recorded launch, report what it shows, return the exit status.

    With `explored`, words of `explore.schedules`, it is executed under those schedules
    until one of them fails, which is then what is reported.

    Raises:
        UsageError: the folder, the PTX or its target is not usable; nothing was run
            or written.
    """
    recorded = read_launch(folder, ptx)
    program = _program(recorded, ptx or folder / "kernel.ptx")
    arch = program.function.target
    options = Options(
        budget=settings.budget,
        deadline=settings.deadline,
        sms=settings.sms,
        max_smem=CHIPS[arch].smem_per_block,
    ).scheduled(settings.scheduled)
    check_geometry(program, recorded.launch, options)
    parameter_block(program, recorded.launch)
    if out is not None:
        prepare_folder(out)
    began, started = time.time(), datetime.now(UTC)
    before = recorded.memory.snapshot()
    profile = settings.profile if settings.races else None
    failure, tried = None, 0
    compared: CheckOutcome | None = None
    try:
        failure, tried = _explore(recorded, options, profile, explored)
        if failure is not None:
            options = options.scheduled(failure.schedule)
            settings = replace(settings, schedule=failure.schedule.spell())
        outcome = run_launch(recorded.launch, recorded.memory, options, None, profile)
        if ptx is not None and outcome.finished:
            compared = recorded_code.compare(folder, options, recorded)
    except KeyboardInterrupt:
        outcome = failed(recorded.launch, "interrupted", no_time())
    replay = _replay(folder, ptx, settings)
    outcome = replace(
        outcome,
        findings=tuple(replace(f, replay=replay) for f in outcome.findings),
        incomplete=tuple(replace(i, scenario=folder.name) for i in outcome.incomplete),
    )
    checks = _checks(outcome, raced=settings.races)
    checks += [compared] if compared else []
    case = _case(outcome, folder.name, replay, checks)
    report = Report(
        command=command,
        version=version(),
        device="vgpu",
        arch=arch,
        profile=settings.profile,
        seed=settings.seed,
        cases=(case,),
        findings=folded(outcome.findings),
        incomplete=outcome.incomplete,
        environment=environment(),
        wall_seconds=time.time() - began,
        started=started.isoformat(timespec="seconds"),
    )
    page = write(report, out) if out is not None else None
    changed: Counter[str] = Counter()
    for change in recorded.memory.changed(before):
        changed[change.allocation.name] += change.stop - change.start
    return console.say(
        report,
        str(page) if page else None,
        notes=[
            *_found(failure, tried),
            *([compared.reason] if compared and compared.status != PASSED else []),
            *(f"changed: {n} bytes of {name}" for name, n in changed.items()),
        ],
    )


def _replay(folder: Path, ptx: Path | None, settings: Settings) -> str:
    """Return the command that shows the same again: what is not the default is said."""
    words = ["sidestream emulate", str(folder)]
    if ptx is not None:
        words.append(f"--ptx {ptx}")
    if not settings.races:
        words.append("--no-races")
    usual = Settings()
    for name in ("schedule", "seed", "profile", "sms", "budget", "deadline"):
        value = getattr(settings, name)
        if value != getattr(usual, name):
            words.append(f"--{name} {value}")
    return " ".join(words)


def _explore(
    recorded: RecordedLaunch,
    options: Options,
    profile: str | None,
    explored: Sequence[str],
) -> tuple[explore.Failure | None, int]:
    """Look for a schedule that fails; how many were tried."""
    if not explored:
        return None, 0
    wanted = [s for word in explored for s in explore.schedules(word)]
    with console.counting("schedules", len(wanted)) as tell:
        failure = explore.explore(
            recorded.launch,
            recorded.memory,
            options,
            wanted,
            profile=profile,
            tell=tell,
        )
    return failure, failure.tried if failure else len(wanted)


def _found(failure: explore.Failure | None, tried: int) -> Iterator[str]:
    if failure is not None:
        how = "memory differs from" if failure.differs else "it fails otherwise than"
        yield f"schedule {tried} of those explored fails: {how} in turn"
        yield f"schedule: {failure.schedule.spell()}"
    elif tried:
        yield f"{tried} schedules explored, none fails otherwise than in turn"


def _program(recorded: RecordedLaunch, path: Path) -> Program:
    """Parse and lower, so that what is wrong with the text is a usage error.

    Raises:
        UsageError: naming file and line.
    """
    try:
        program = CACHE.get(recorded.launch, recorded.memory).program
    except PtxError as error:
        raise UsageError(f"{path}: {error}") from error
    except UnsupportedError as error:
        raise UsageError(f"{path}: {error}") from error
    target = program.function.target
    if target not in CHIPS:
        raise UsageError(
            f"{path}: unknown target {target!r}; there are {', '.join(CHIPS)}"
        )
    return program


def _case(
    outcome: Outcome, name: str, replay: str, checks: Sequence[CheckOutcome]
) -> Case:
    verdict = Verdict.CLEAN
    if any(c.name == recorded_code.NAME and c.status == DIFFERS for c in checks):
        verdict = Verdict.REVIEW
    if outcome.incomplete:
        verdict = Verdict.INCOMPLETE
    if outcome.findings:
        verdict = Verdict.FINDINGS
    return Case(
        impl="launch",
        kernel=outcome.kernel,
        scenario=name,
        description="A recorded launch.",
        verdict=verdict,
        checks={c.name: Check(status=c.status, reason=c.reason) for c in checks},
        launches=1,
        warp_instructions=outcome.warp_instructions,
        seconds=outcome.seconds,
        findings=tuple(f.id for f in outcome.findings),
        replay=replay,
    )


def _checks(outcome: Outcome, *, raced: bool) -> list[CheckOutcome]:
    """Sort findings by the check they belong to."""
    groups: dict[str, list[Finding]] = {
        name: [] for name in (execution.NAME, bounds.NAME, scratch.NAME, races.NAME)
    }
    for finding in outcome.findings:
        if races.is_race(finding):
            groups[races.NAME].append(finding)
        elif finding.kind in bounds.KINDS:
            groups[bounds.NAME].append(finding)
        elif finding.kind == "uninit-read":
            groups[scratch.NAME].append(finding)
        else:
            groups[execution.NAME].append(finding)
    checks = []
    for name, mine in groups.items():
        if not mine and not outcome.finished:
            why = outcome.incomplete[0].reason if outcome.incomplete else "a defect"
            checks.append(not_run(name, f"the launch did not end: {why}"))
        elif name == races.NAME and not raced:
            checks.append(not_asked(name, "switched off by --no-races"))
        elif name == races.NAME and not mine and outcome.incomplete:
            checks.append(not_run(name, outcome.incomplete[0].reason))
        else:
            held = "the launch ran to its end"
            if name == scratch.NAME:
                held += scratch.told(outcome.harmless)
            checks.append(judged(name, mine, held))
    return checks
