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


def start() -> dict[str, float]:
    """Seconds to build the core from nothing, and to be ready with warm caches."""
    load = "from sidestream.harness.exec.build import load; load()"
    ready = (
        "from sidestream.harness.dsl.activation import activate; "
        "activate(arch='sm_120a'); " + load
    )

    def timed(code: str, **env: str) -> float:
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            env={**os.environ, **env},
            capture_output=True,
        )
        return time.perf_counter() - began

    with tempfile.TemporaryDirectory() as empty:
        cold = timed(load, SIDESTREAM_CACHE=empty)
    timed(ready)
    return {
        "core built from nothing": cold,
        "core loaded": timed(load),
        "core and CuTe DSL ready": timed(ready),
    }


def show_start(rows: dict[str, float]) -> None:
    """Print the start-up table."""
    print("| what | s |\n|---|---|")
    for name, seconds in rows.items():
        print(f"| {name} | {seconds:.2f} |")
