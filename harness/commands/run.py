"""`sidestream run`: any Python script that uses torch's CUDA and CuTe DSL."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from sidestream.harness.commands import console
from sidestream.harness.commands.check import prepare_folder
from sidestream.harness.dsl.chip import CHIPS
from sidestream.harness.errors import UsageError
from sidestream.harness.exec.build import cache_dir
from sidestream.harness.exec.machine import Options
from sidestream.harness.finding import Finding, Verdict
from sidestream.harness.run import script_checks
from sidestream.harness.run.environment import environment, version
from sidestream.harness.run.script import ScriptRun, run_script
from sidestream.harness.runtime import Landing
from sidestream.reports.model import Case, Check, Report, Span, folded
from sidestream.reports.write import write

CHECKS = (
    *("stream-race", "allocator-race", "host-sync", "host-alloc", "hidden-launch"),
    *("cache-miss", "stale-key", "capture", "contract"),
)
"""Checks of the host program, each named as its kind."""


def run(
    script: Path,
    arguments: Sequence[str],
    *,
    arch: str,
    profile: str,
    seed: int,
    schedule: str,
    races: bool,
    out: Path | None,
    command: str,
    devices: int = 1,
) -> int:
    """Run a script, report what it shows, return the exit status.

    Raises:
        UsageError: there is no such script, chip or landing policy; nothing was run.
    """
    if not script.is_file():
        raise UsageError(f"{script}: no such script")
    if arch not in CHIPS:
        raise UsageError(f"arch {arch!r} is none of {', '.join(CHIPS)}")
    policy = schedule or (f"random:{seed}" if seed else "round-robin")
    landing = Landing.parse(policy)
    if out is not None:
        prepare_folder(out)
    began, started = time.time(), datetime.now(UTC)
    options = Options(max_smem=CHIPS[arch].smem_per_block)
    done = run_script(
        script,
        arguments,
        arch=arch,
        landing=landing,
        options=options,
        profile=profile if races else None,
        keys=cache_dir() / "keys",
        devices=devices,
    )
    words = ["sidestream run", f"--arch {arch}", f"--schedule {done.schedule}"]
    words += [] if races else ["--no-races"]
    words += [f"--devices {devices}"] if devices != 1 else []
    replay = " ".join([*words, str(script), *arguments])
    found = folded(replace(f, replay=replay) for f in done.findings)
    report = Report(
        command=command,
        version=version(),
        device="vgpu",
        arch=arch,
        profile=profile,
        seed=seed,
        cases=(_case(script, done, found, replay, time.time() - began),),
        findings=found,
        incomplete=done.incomplete,
        environment=environment(),
        wall_seconds=time.time() - began,
        started=started.isoformat(timespec="seconds"),
    )
    page = write(report, out) if out is not None else None
    notes = [
        f"{done.operations} operations, {len(done.outcomes)} launches, "
        f"{len(done.compiled)} compilations, {len(done.waits)} waits of the host",
        *(f"waits: {text}" for text in _implicit(script, done)),
    ]
    return console.say(report, str(page) if page else None, notes=notes)


def _case(
    script: Path,
    done: ScriptRun,
    found: Sequence[Finding],
    replay: str,
    seconds: float,
) -> Case:
    verdict = Verdict.REVIEW if _implicit(script, done) else Verdict.CLEAN
    if done.incomplete:
        verdict = Verdict.INCOMPLETE
    if found:
        verdict = Verdict.FINDINGS
    checks: dict[str, Check] = {}
    told: set[str] = set()
    for name in CHECKS:
        mine = [f for f in found if f.kind == name]
        told |= {f.id for f in mine}
        checks[name] = _check(mine, done)
    checks["launches"] = _check([f for f in found if f.id not in told], done)
    return Case(
        impl="script",
        kernel=script.stem,
        scenario=script.name,
        description="A script, run as it is.",
        verdict=verdict,
        checks=checks,
        launches=len(done.outcomes),
        warp_instructions=sum(o.warp_instructions for o in done.outcomes),
        seconds={"execute": seconds},
        findings=tuple(f.id for f in found),
        replay=replay,
        spans=tuple(
            Span(
                name=moment.name,
                start=moment.start,
                seconds=moment.seconds,
                track=moment.track,
                detail=f"called at {moment.called * 1e6:.0f} us, {moment.place}",
                id=moment.id,
                after=moment.after,
            )
            for moment in done.moments
        ),
    )


def _implicit(script: Path, done: ScriptRun) -> list[str]:
    """Return the waits that the script may not know of, once for each place."""
    seen = {
        wait.site.frames[:1]: f"{script_checks.told(wait)}, at {wait.site}"
        for wait in script_checks.implicit(done.waits, script.resolve().parent)
    }
    return list(seen.values())


def _check(findings: Sequence[Finding], done: ScriptRun) -> Check:
    if findings:
        return Check(status="failed", reason=findings[0].message)
    if done.incomplete:
        return Check(status="not-run", reason=done.incomplete[0].reason)
    return Check(status="passed")
