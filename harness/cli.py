"""The `sidestream` command line.

Exit status: 0 clean or review, 1 findings, 2 usage, 3 incomplete. Each command imports
what it needs when it is called, so that help and usage errors come at once.
"""

from __future__ import annotations

import gc
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from sidestream.harness.errors import (
    BuildError,
    ContractError,
    SidestreamError,
    UsageError,
)

USAGE, INCOMPLETE, INTERRUPTED = 2, 3, 130
DEFAULT_OUT = Path("sidestream-out")

app = typer.Typer(
    name="sidestream",
    help="Correctness and race detection for varlen attention kernels.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Kernel = Annotated[
    list[str] | None,
    typer.Option("--kernel", metavar="NAME", help="Kernel; repeatable."),
]
Impl = Annotated[str, typer.Option(help="sidestream, fa4 or cudnn.")]
Device = Annotated[str, typer.Option(help="vgpu (virtual) or cuda (a real GPU).")]
Arch = Annotated[str, typer.Option(help="sm_100a, sm_120a or sm_90a.")]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--scenario", metavar="NAME", help="Scenario, or a pattern; repeatable."
    ),
]
Traces = Annotated[
    list[str] | None,
    typer.Option(
        "--trace", metavar="CSV", help="Request trace, or conv or code; repeatable."
    ),
]
Steps = Annotated[int, typer.Option(help="Steps to replay of each trace.")]
Seed = Annotated[int, typer.Option(help="Seed of data and schedule.")]
Schedule = Annotated[
    str,
    typer.Option(
        metavar="S", help="round-robin, random:SEED, pct:SEED:DEPTH or given:STRING."
    ),
]
Profile = Annotated[
    str,
    typer.Option(
        help="What counts as ordered: isa, what the PTX ISA promises, or practice, "
        "with the relaxations that shipping kernels rely on."
    ),
]
Races = Annotated[
    bool,
    typer.Option(
        "--races/--no-races", help="Whether to look for races inside kernels."
    ),
]
Schedules = Annotated[
    int,
    typer.Option(
        help="Drawn schedules to repeat a call under; with 2 and more races are "
        "looked for in each.",
        min=1,
    ),
]
Jobs = Annotated[int, typer.Option(help="Processes.", min=1)]
Deadline = Annotated[float, typer.Option(help="Seconds that a case may take.")]
Budget = Annotated[int, typer.Option(help="Warp instructions a launch may take.")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Folder for the report.")]
JOBS = 1
"""One process compiles each kernel once; more trade compilations for time."""


def _check(
    *,
    kernel: list[str],
    names: list[str],
    traces: list[str],
    steps: int,
    jobs: int,
    out: Path,
    record: bool,
    facts: dict[str, object],
    known: Path | None = None,
) -> None:
    from sidestream.harness.commands import check

    if record:
        launches = out / check.LAUNCHES
        if launches.exists():
            raise UsageError(f"{launches} exists; a recording never overwrites")
        facts = facts | {"launches": launches}
    settings = check.settings_for(kernel, **facts)
    beyond = settings[0].impl != "sidestream" and settings[0].arch == "sm_100a"
    selection = check.Selection(
        names=tuple(names), traces=tuple(traces), steps=steps, beyond=beyond
    )
    status = check.run(
        settings,
        selection.scenarios(),
        jobs=jobs,
        out=out,
        command=_command_line(),
        asked=selection.asked,
        known=known,
    )
    raise typer.Exit(status)


@app.command("check")
def check_command(
    kernel: Kernel = None,
    impl: Impl = "sidestream",
    device: Device = "vgpu",
    arch: Arch = "sm_120a",
    scenario: Names = None,
    trace: Traces = None,
    steps: Steps = 24,
    seed: Seed = 0,
    schedule: Schedule = "",
    schedules: Schedules = 1,
    profile: Profile = "practice",
    races: Races = True,
    jobs: Jobs = JOBS,
    deadline: Deadline = 300.0,
    budget: Budget = 2_000_000_000,
    out: Out = DEFAULT_OUT,
    stats: Annotated[
        bool,
        typer.Option(
            "--stats",
            help="Count, by role and KV tile, what each kernel executes and waits for.",
        ),
    ] = False,
    known: Annotated[
        Path | None,
        typer.Option(help="TOML list of known findings: they ask for review."),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Print kernels, archs and scenarios.")
    ] = False,
) -> None:
    """Run scenarios through an implementation and judge them.

    Without --scenario and --trace: the scenarios that share the core declaration, and
    a shipped trace; one compilation serves them all. `--scenario all` is the whole
    catalogue.
    """
    if list_:
        from sidestream.harness.commands.check import listing

        print(listing())
        return
    facts: dict[str, object] = {
        "impl": impl,
        "device": device,
        "arch": arch,
        "seed": seed,
        "schedule": schedule,
        "schedules": schedules,
        "profile": profile,
        "races": races,
        "deadline": deadline,
        "budget": budget,
        "stats": stats,
    }
    _check(
        kernel=kernel or [],
        names=scenario or [],
        traces=trace or [],
        steps=steps,
        jobs=jobs,
        out=out,
        record=False,
        facts=facts,
        known=known,
    )


@app.command("record")
def record_command(
    kernel: Kernel = None,
    impl: Impl = "sidestream",
    arch: Arch = "sm_120a",
    scenario: Names = None,
    trace: Traces = None,
    steps: Steps = 24,
    seed: Seed = 0,
    schedule: Schedule = "",
    profile: Profile = "practice",
    races: Races = True,
    jobs: Jobs = JOBS,
    deadline: Deadline = 300.0,
    budget: Budget = 2_000_000_000,
    out: Out = DEFAULT_OUT,
) -> None:
    """Check, and write every launch into DIR/launches for `sidestream emulate`."""
    facts: dict[str, object] = {
        "impl": impl,
        "arch": arch,
        "seed": seed,
        "schedule": schedule,
        "profile": profile,
        "races": races,
        "deadline": deadline,
        "budget": budget,
    }
    _check(
        kernel=kernel or [],
        names=scenario or [],
        traces=trace or [],
        steps=steps,
        jobs=jobs,
        out=out,
        record=True,
        facts=facts,
    )


@app.command("emulate")
def emulate_command(
    launch_dir: Annotated[Path, typer.Argument(help="A recorded launch.")],
    ptx: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="PTX in place of the recorded one."),
    ] = None,
    seed: Seed = 0,
    schedule: Schedule = "",
    profile: Profile = "practice",
    races: Races = True,
    sms: Annotated[int, typer.Option(help="Multiprocessors.")] = 4,
    explore: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOW",
            help="Look for a schedule that fails: random:NUMBER, pct:NUMBER[:DEPTH] "
            "or exhaustive:NUMBER (of first decisions to change); repeatable.",
        ),
    ] = None,
    deadline: Deadline = 300.0,
    budget: Budget = 2_000_000_000,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the report.")
    ] = None,
) -> None:
    """Execute one recorded launch again."""
    from sidestream.harness.commands import emulate
    from sidestream.harness.run.settings import Settings

    settings = Settings(
        seed=seed,
        schedule=schedule,
        profile=profile,
        races=races,
        sms=sms,
        deadline=deadline,
        budget=budget,
    )
    status = emulate.run(
        launch_dir,
        ptx=ptx,
        settings=settings,
        out=out,
        command=_command_line(),
        explored=explore or (),
    )
    raise typer.Exit(status)


@app.command(
    "run",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def run_command(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="A Python script.")],
    arch: Arch = "sm_100a",
    profile: Profile = "practice",
    seed: Seed = 0,
    schedule: Annotated[
        str,
        typer.Option(
            metavar="S",
            help="When operations land: eager, laziest, latest, round-robin, "
            "random:SEED or given:STRING.",
        ),
    ] = "",
    races: Races = True,
    devices: Annotated[
        int,
        typer.Option(
            min=1,
            max=8,
            help="How many devices of this chip there are.",
        ),
    ] = 1,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the report.")
    ] = None,
) -> None:
    """Run any Python script that uses torch CUDA and CuTe DSL on the virtual GPU."""
    from sidestream.harness.commands import run

    status = run.run(
        script,
        context.args,
        arch=arch,
        profile=profile,
        seed=seed,
        schedule=schedule,
        races=races,
        out=out,
        command=_command_line(),
        devices=devices,
    )
    raise typer.Exit(status)


@app.command("mutate")
def mutate_command(
    launch_dir: Annotated[
        list[Path], typer.Argument(help="Recorded launches, or folders of them.")
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLASS",
            help="Class of synchronisation, such as barrier, arrive, wait, fence or "
            "commit; repeatable.",
        ),
    ] = None,
    known: Annotated[
        bool,
        typer.Option(
            "--known",
            help="Take launches that have findings as they are; a mutant is caught by "
            "one that it adds.",
        ),
    ] = False,
    profile: Profile = "practice",
    sms: Annotated[int, typer.Option(help="Multiprocessors.")] = 4,
    jobs: Jobs = JOBS,
    deadline: Deadline = 300.0,
    budget: Budget = 2_000_000_000,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the report.")
    ] = None,
) -> None:
    """Delete or weaken each synchronisation of recorded launches, one at a time."""
    from sidestream.harness.commands import mutate
    from sidestream.harness.run.settings import Settings

    settings = Settings(profile=profile, sms=sms, deadline=deadline, budget=budget)
    status = mutate.run(
        launch_dir,
        only=only or [],
        known=known,
        jobs=jobs,
        settings=settings,
        out=out,
        command=_command_line(),
    )
    raise typer.Exit(status)


@app.command("replay")
def replay_command(
    token: Annotated[str, typer.Argument(help="The token of a finding or a case.")],
    out: Out = DEFAULT_OUT,
) -> None:
    """Run the case of a finding again."""
    from sidestream.harness.commands import check
    from sidestream.harness.run.token import decode

    settings, scenario = decode(token)
    status = check.run(
        [settings],
        [scenario],
        jobs=1,
        out=out,
        command=_command_line(),
        asked=True,
    )
    raise typer.Exit(status)


@app.command("report")
def report_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Holds report.json.")],
) -> None:
    """Render a report again from its report.json."""
    from sidestream.harness.commands import report

    raise typer.Exit(report.run(folder))


def _command_line() -> str:
    return shlex.join(["sidestream", *sys.argv[1:]])


def _end_as_ctrl_c() -> None:
    """Let SIGTERM, which `timeout` and CI runners send, leave a report as Ctrl-C does.

    Children that a script forks end at once by it, as they would anywhere, unless the
    script has a handler of its own, which they inherit.
    """

    def as_anywhere() -> None:
        if signal.getsignal(signal.SIGTERM) is signal.default_int_handler:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.register_at_fork(after_in_child=as_anywhere)


def main() -> None:
    """Run the command line; errors a user can meet are one line on stderr."""
    # Importing torch and CuTe DSL makes a million objects that stay: looking for
    # garbage among them at the default pace is a quarter of the start-up.
    gc.set_threshold(50_000, 20, 50)
    _end_as_ctrl_c()
    try:
        app()
    except KeyboardInterrupt:  # before a command has anything to report
        raise SystemExit(INTERRUPTED) from None
    except (UsageError, ContractError) as error:
        print(f"sidestream: {error}", file=sys.stderr)
        raise SystemExit(USAGE) from error
    except (BuildError, SidestreamError) as error:
        print(f"sidestream: not run: {error}", file=sys.stderr)
        raise SystemExit(INCOMPLETE) from error


if __name__ == "__main__":
    main()
