"""Wall time of whole cases by phase, warp instructions a second, peak memory.

Every figure is of one process on one core; the shares of the phases, not the seconds,
are what to compare between machines.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCENARIOS = ("one-long-many-short", "tile-edges-d128", "nan-tail", "decode-batch-32")


@dataclass(frozen=True, kw_only=True)
class Phases:
    """One run of `sidestream check`.

    Attributes:
        name: Scenarios that were run.
        seconds: Wall seconds by phase, as the report gives them.
        warp_instructions: Executed by all launches.
        peak_mib: Largest resident set of the process, in MiB.
    """

    name: str
    seconds: dict[str, float]
    warp_instructions: int
    peak_mib: float


def _check(*options: str) -> tuple[dict[str, Any], float]:
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        subprocess.run(
            [
                *(sys.executable, "-m", "sidestream.harness.cli", "check"),
                *(*options, "--jobs", "1", "--out", folder),
            ],
            check=True,
            capture_output=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        report = json.loads((Path(folder) / "report.json").read_text())
    return report, max(before, after) / 1024


def measure() -> list[Phases]:
    """Run a few scenarios one by one, then the default check."""
    rows = []
    for options in [*(("--scenario", name) for name in SCENARIOS), ()]:
        report, peak = _check(*options)
        stats = report["stats"]
        rows.append(
            Phases(
                name=options[1] if options else "default check",
                seconds=stats["seconds"],
                warp_instructions=stats["warp_instructions"],
                peak_mib=peak,
            )
        )
    return rows


def show(rows: list[Phases]) -> None:
    """Print seconds and shares by phase."""
    names = list(rows[0].seconds)
    print("| case | " + " | ".join(names) + " | M warp instr/s | peak MiB |")
    print("|---" * (len(names) + 3) + "|")
    for row in rows:
        total = sum(row.seconds.values())
        parts = [
            f"{row.seconds.get(n, 0):.2f} s ({row.seconds.get(n, 0) / total:.0%})"
            for n in names
        ]
        rate = row.warp_instructions / max(row.seconds["execute"], 1e-9) / 1e6
        print(f"| {row.name} | {' | '.join(parts)} | {rate:.1f} | {row.peak_mib:.0f} |")


_LOAD = "from sidestream.harness.exec.build import load; load()"
_FIRST_CASE = """
import os, sys
from sidestream.harness.run import session
run = session.Session._run
def until_first_case(self, *rest):
    from sidestream.harness.run import case
    case.CaseRun.run = lambda self: os._exit(0)
    run(self, *rest)
session.Session._run = until_first_case
from sidestream.harness.cli import main
sys.argv = ["sidestream", "check", "--out", sys.argv[1]]
main()
"""
"""`sidestream check` up to where its first case starts: core and CuTe DSL are ready."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """Wall and processor seconds of a process that starts and is ready."""

    name: str
    wall: float
    processor: float


def _timed(name: str, code: str, *, repeats: int = 3, **env: str) -> Start:
    """Start a process `repeats` times; the quickest counts."""
    walls, processors = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            began, before = time.perf_counter(), os.times()
            subprocess.run(
                [sys.executable, "-c", code, folder],
                check=True,
                env={**os.environ, **env},
                capture_output=True,
            )
            after = os.times()
            walls.append(time.perf_counter() - began)
            processors.append(
                after.children_user
                - before.children_user
                + after.children_system
                - before.children_system
            )
    return Start(name=name, wall=min(walls), processor=min(processors))


def start() -> list[Start]:
    """Time the first build of the core, and starts with and without caches."""
    with tempfile.TemporaryDirectory() as empty:
        cold = _timed(
            "core built from nothing", _LOAD, repeats=1, SIDESTREAM_CACHE=empty
        )
    with tempfile.TemporaryDirectory() as empty:
        uncompiled = _timed(
            "check to its first case, no bytecode kept",
            _FIRST_CASE,
            repeats=1,
            PYTHONPYCACHEPREFIX=empty,
            PYTHONDONTWRITEBYTECODE="1",
        )
    return [
        cold,
        _timed("core loaded", _LOAD),
        _timed("torch and CuTe DSL imported", "import torch, cutlass.cute"),
        _timed("check to its first case", _FIRST_CASE),
        uncompiled,
    ]


def show_start(rows: list[Start]) -> None:
    """Print the start-up table."""
    print("| what | wall s | processor s |\n|---|---|---|")
    for row in rows:
        print(f"| {row.name} | {row.wall:.2f} | {row.processor:.2f} |")
