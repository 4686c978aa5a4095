"""Other code for a recorded launch, held against what the recorded code leaves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from sidestream.harness.checks.outcome import CheckOutcome, not_run, passed
from sidestream.harness.device.vgpu import run_launch
from sidestream.harness.dsl.record import RecordedLaunch, read_launch
from sidestream.harness.exec.machine import Options

NAME = "results"
DIFFERS = "failed"


def compare(folder: Path, options: Options, other: RecordedLaunch) -> CheckOutcome:
    """Execute the recorded code and compare all memory byte by byte.

    There is no reference for a launch by itself: that the bytes differ may be what was
    intended, so that it makes a verdict of `review` and no finding.

    Args:
        folder: The recorded launch.
        options: Those that the other code was executed with.
        other: The launch of the other code, after it was executed.

    Raises:
        KeyboardInterrupt: as it comes.
    """
    recorded = read_launch(folder)
    ran = run_launch(recorded.launch, recorded.memory, options)
    if not ran.finished:
        why = [i.reason for i in ran.incomplete] + [f.message for f in ran.findings]
        return not_run(NAME, f"the recorded code did not end: {(why or ['?'])[0]}")
    differs: Counter[str] = Counter()
    for change in recorded.memory.changed(other.memory.snapshot()):
        differs[change.allocation.name] += change.stop - change.start
    if not differs:
        return passed(NAME, "the same bytes as the recorded code leaves")
    counted = differs.most_common()
    spelled = ", ".join(f"{count} bytes of {name}" for name, count in counted)
    return CheckOutcome(
        name=NAME,
        status=DIFFERS,
        reason=f"results differ from the recorded code: {spelled}",
    )
