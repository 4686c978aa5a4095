"""What `sidestream run` costs a torch script: start-up, and 200 small operations.

The script is the same on both sides but for its device, so that the plain run is
torch's own CPU kernels. The operations are run once before the clock starts: the first
call of each shape asks its CPU kernel for the shapes of its results. Of seven calls in
a process the fastest counts, since what else runs on the machine only adds.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROUNDS = 5
SCRIPT = """
import sys, time
import torch
device = sys.argv[1]
x = torch.randn(256, 256, device=device)
w = torch.randn(256, 256, device=device)

def work():
    y = x
    for _ in range(25):
        y = torch.relu(y @ w) * 0.1
        y = y - y.mean(1, keepdim=True)
        y.add_(x[:, :1])
        y = torch.where(y > 0, y, x)
    return float(y.sum())

work()
wall, processor = [], []
for _ in range(7):
    began, spent = time.perf_counter(), time.process_time()
    work()
    wall.append(time.perf_counter() - began)
    processor.append(time.process_time() - spent)
print(min(wall))
print(min(processor))
"""
"""225 calls of operators on 256 by 256 floats, views included, and one read back."""
IMPORT = "import torch\n"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Seconds of one thing, plain and under `sidestream run`."""

    name: str
    plain: float
    virtual: float


def measure() -> list[Cost]:
    """Return medians of a few runs, plain and virtual ones taking turns."""
    with tempfile.TemporaryDirectory() as folder:
        script, empty = Path(folder) / "work.py", Path(folder) / "empty.py"
        script.write_text(SCRIPT)
        empty.write_text(IMPORT)
        runs = [
            (_timed(script, "cpu"), _timed(script, "cuda"), _timed(empty, ""),
             _timed(empty, "cuda"))
            for _ in range(ROUNDS)
        ]  # fmt: skip

    def middle(which: int, part: int) -> float:
        return median(run[which][part] for run in runs)

    return [
        Cost(name="start-up (import torch)", plain=middle(2, 0), virtual=middle(3, 0)),
        Cost(name="whole script", plain=middle(0, 0), virtual=middle(1, 0)),
        Cost(name="225 operations, warm", plain=middle(0, 1), virtual=middle(1, 1)),
        Cost(
            name="the same, of the processor",
            plain=middle(0, 2),
            virtual=middle(1, 2),
        ),
    ]


def _timed(script: Path, device: str) -> tuple[float, ...]:
    """Return the seconds of the process, and those that the script printed."""
    command = [sys.executable, "-m", "sidestream.harness.cli", "run"]
    began = time.perf_counter()
    done = subprocess.run(
        [*(command if device == "cuda" else [sys.executable]), str(script), device],
        check=True,
        capture_output=True,
        text=True,
    )
    seconds = time.perf_counter() - began
    printed = [float(line) for line in done.stdout.splitlines() if _is_number(line)]
    return seconds, *printed


def _is_number(line: str) -> bool:
    try:
        float(line)
    except ValueError:
        return False
    return True


def show(costs: list[Cost]) -> None:
    """Print seconds and the factor between them."""
    print("| | plain CPU, s | `sidestream run`, s | factor |")
    print("|---|---|---|---|")
    for cost in costs:
        factor = cost.virtual / cost.plain
        print(f"| {cost.name} | {cost.plain:.4f} | {cost.virtual:.4f} | {factor:.1f} |")
