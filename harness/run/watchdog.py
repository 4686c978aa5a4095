"""A process that ends its parent when a call does not end: what a hung kernel needs.

No signal reaches a thread that waits inside the driver, and one that holds the
interpreter lets no other thread run. So another process keeps the time. When it is up
it writes a finding and kills the parent, whose kernel ends with its context.

    with Watchdog(folder) as watchdog:
        watchdog.arm("test_a[two-short]", seconds=60, scenario="two-short")
        ...
        watchdog.disarm()
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from sidestream.harness.finding import Finding, Rule, Site

RULE = Rule(
    id="execution.ends",
    title="CUDA Programming Guide: a kernel whose threads wait for each other forever "
    "never completes",
)
_PROGRAM = Path(__file__).with_name("watchdog_process.py")


class Watchdog:
    """Watches this process; a context manager.

    Args:
        folder: Where findings are written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Watchdog:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_PROGRAM), str(os.getpid())],
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the parent
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process = None

    def arm(self, label: str, *, seconds: float, scenario: str = "") -> None:
        """End this process some seconds from now, and say that `label` hung."""
        file = str(file_of(self._folder, label))
        self._say(
            {"label": label, "seconds": seconds, "scenario": scenario, "file": file}
        )

    def launched(self, kernel: str) -> None:
        """Name a kernel that was launched; findings tell of the last ones."""
        self._say({"kernel": kernel})

    def disarm(self) -> None:
        """What was armed has ended."""
        self._say({})

    def _say(self, message: dict[str, Any]) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()


def file_of(folder: Path, label: str) -> Path:
    """Return where the finding of a label is written."""
    return folder / f"{hashlib.sha256(label.encode()).hexdigest()[:16]}.json"


def finding_of(folder: Path, label: str) -> Finding | None:
    """Return the finding that a watchdog left of something that hung, or None."""
    try:
        told = json.loads(file_of(folder, label).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return hang(
        told["label"],
        seconds=told["seconds"],
        scenario=told["scenario"],
        kernels=tuple(told["kernels"]),
    )


def hang(
    label: str, *, seconds: float, scenario: str = "", kernels: tuple[str, ...] = ()
) -> Finding:
    """Return the finding on a call that did not end.

    Args:
        label: What hung: a test or a case.
        seconds: How long it was given.
        scenario: Its scenario, if it has one.
        kernels: The last launches before, in order.
    """
    last = ", ".join(kernels) or "none seen"
    return Finding(
        kind="deadlock",
        rule=RULE,
        message=(
            f"{label} did not end within {seconds:g} s and its process was ended; "
            f"last launches: {last}"
        ),
        kernel=kernels[-1] if kernels else "",
        scenario=scenario,
        sites=(
            Site(agent="device", operation=f"launch {kernels[-1]}")
            if kernels
            else Site(agent="host", operation=label),
        ),
        need="an arrival for every wait; the virtual GPU names the barrier: --device "
        "vgpu",
    )


def text_of(finding: Finding) -> str:
    """Return a finding as a few lines for a test's report."""
    lines = [f"{finding.kind}: {finding.message}"]
    if finding.scenario:
        lines.append(f"scenario: {finding.scenario}")
    lines += [f"rule: {finding.rule.title}", f"need: {finding.need}"]
    return "\n".join(lines)
