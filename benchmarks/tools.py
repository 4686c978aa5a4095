"""What other tools see of the seeded bugs, beside what Sidestream says.

    python -m benchmarks.tools --card seen.json    # on a card: compute-sanitizer, CSAN
    python -m benchmarks.tools --ours ours.json    # anywhere: Sidestream, virtual GPU
    python -m benchmarks.tools --page seen.json ours.json > docs/confusion-matrix.md

Kernel bugs that SM90 can express run under compute-sanitizer's four tools, scripts with
host bugs under PyTorch's CUDA sanitizer (`TORCH_CUDA_SANITIZER`), each beside its fixed
twin, in a process of its own with a limit of time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.seeded_kernel import expressible
from sidestream.harness.exec.machine import Options
from sidestream.scenarios.bugs.kernels import KERNEL_BUGS
from sidestream.scenarios.bugs.kernels.kernel_bug import KernelBug

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
ALONE = "no tool"
CSAN = "PyTorch CUDA sanitizer"
_BUGGY = (
    *("metadata_on_current", "zeroed_on_ambient", "launched_on_default"),
    *("staging_rewritten", "result_read_early", "handed_between_streams"),
    *("storage_let_go", "copied_back_outside", "captured_too_late"),
)
_PACKAGE = ("key_holds_total", "lengths_on_host", "fills_output")
SCRIPTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_BUGGY, ("buggy",)),
    **{f"package_at_every_step {bug}": (bug,) for bug in _PACKAGE},
}
"""Scripts of `scenarios/host_scripts`, with the arguments that put the bug in."""
LIMIT = 40
"""Seconds that one process may take."""
_ERRORS = re.compile(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard")
_RACES = re.compile(r"CSAN detected a possible data race")

Verdicts = dict[str, dict[str, str]]
"""By subject, `buggy` or `fixed` behind its name, what each tool says."""


def verdict(code: int | None, output: str, pattern: re.Pattern[str]) -> str:
    """Say what a tool said: `found N`, `nothing`, `hangs`, or how the process failed.

    Args:
        code: Exit status, None where the limit of time ended it.
        output: All that it printed.
        pattern: Finds findings; a group that is a number counts them.
    """
    number = 0
    for match in pattern.finditer(output):
        counts = [int(group) for group in match.groups() if group is not None]
        number += counts[0] if counts else 1
    if number:
        return f"found {number}"
    if code is None:
        return "hangs"
    last = output.strip().splitlines()[-1:] or [""]
    return "nothing" if code == 0 else f"fails: {last[0][:100]}"


def run(command: list[str], environment: Mapping[str, str]) -> tuple[int | None, str]:
    """Run a process to its end, or to the limit; return its status and its output."""
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)  # the tool and the program under it
        output, _ = process.communicate()
        return None, output
    return process.returncode, output


def on_card(jobs: int) -> dict[str, Any]:
    """Run everything under the tools of this machine.

    Raises:
        SystemExit: compute-sanitizer is not installed.
    """
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        raise SystemExit("compute-sanitizer is not on the PATH")
    kernels = [bug for bug in KERNEL_BUGS if expressible(bug)]
    work: list[tuple[str, str, Callable[[], str]]] = []
    for bug in kernels:
        for state in ("buggy", "fixed"):
            program = [sys.executable, "-m", "benchmarks.seeded_kernel", bug.name]
            program += ["--fixed"] if state == "fixed" else []
            for tool in (ALONE, *TOOLS):
                front = [] if tool == ALONE else [sanitizer, "--tool", tool]
                work.append(
                    (f"{bug.name} {state}", tool, _tool([*front, *program], _ERRORS))
                )
    for name, buggy in SCRIPTS.items():
        script = str(_scripts() / f"{name.split()[0]}.py")
        for state, arguments in (("buggy", buggy), ("fixed", ())):
            command = [sys.executable, script, *arguments]
            work.append((f"{name} {state}", ALONE, _tool(command, _RACES)))
            work.append(
                (
                    f"{name} {state}",
                    CSAN,
                    _tool(command, _RACES, {"TORCH_CUDA_SANITIZER": "1"}),
                )
            )
    seen: Verdicts = {}
    with ThreadPoolExecutor(jobs) as pool:
        for (subject, tool, _), said in zip(
            work, pool.map(lambda item: item[2](), work), strict=True
        ):
            seen.setdefault(subject, {})[tool] = said
    version = subprocess.run(
        [sanitizer, "--version"], capture_output=True, text=True, check=False
    ).stdout.split("\n")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "card": _card(),
        "compute-sanitizer": next((v for v in version if "ersion" in v), ""),
        "seen": seen,
    }


def _tool(
    command: list[str],
    pattern: re.Pattern[str],
    environment: Mapping[str, str] | None = None,
) -> Callable[[], str]:
    return lambda: verdict(*run(command, environment or {}), pattern)


def _scripts() -> Path:
    import sidestream.scenarios

    return Path(next(iter(sidestream.scenarios.__path__))) / "host_scripts"


def _card() -> str:
    import torch

    return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"


def ours() -> dict[str, Any]:
    """Say what Sidestream finds of the same, on the virtual GPU."""
    seen: Verdicts = {}
    for bug in KERNEL_BUGS:
        if expressible(bug):
            for state in ("buggy", "fixed"):
                kinds = _kernel_kinds(bug, fixed=state == "fixed")
                seen[f"{bug.name} {state}"] = {"Sidestream": _said(kinds)}
    for name, buggy in SCRIPTS.items():
        for state, arguments in (("buggy", buggy), ("fixed", ())):
            seen[f"{name} {state}"] = {"Sidestream": _script(name, arguments)}
    return {"seen": seen}


def _said(kinds: Iterable[str]) -> str:
    told = sorted(set(kinds))
    return ", ".join(told) if told else "nothing"


def _kernel_kinds(bug: KernelBug, *, fixed: bool) -> set[str]:
    import numpy as np

    from sidestream.harness.cuda.memory import AllocationTable
    from sidestream.harness.device.vgpu import run_launch
    from sidestream.harness.exec.schedule import Schedule
    from sidestream.harness.launch import Launch
    from sidestream.scenarios.litmus.kernel import GLOBAL_BYTES, map_of

    table = AllocationTable()
    buffer = table.allocate(GLOBAL_BYTES, "g")
    kernel = bug.kernel(fixed=fixed)
    launch = Launch(
        kernel="litmus",
        ptx=kernel.text(),
        grid=(kernel.ctas, 1, 1),
        block=(kernel.threads(), 1, 1),
        cluster=(kernel.cluster, 1, 1),
        params=(buffer.va.to_bytes(8, "little"), map_of(buffer.va)),
    )
    kinds: set[str] = set()
    for schedule in bug.schedules:
        buffer.data[:] = 0
        buffer.data.view(np.uint32)[: len(kernel.memory)] = kernel.memory
        options = Options(budget=200_000).scheduled(Schedule.parse(schedule))
        for profile in bug.profiles[:1]:
            outcome = run_launch(launch, table, options, profile=profile)
            kinds |= {finding.kind for finding in outcome.findings}
            kinds |= {"incomplete" for _ in outcome.incomplete}
    return kinds


def _script(name: str, arguments: tuple[str, ...]) -> str:
    from sidestream.harness.run.script import run_script
    from sidestream.harness.runtime import Landing

    done = run_script(
        _scripts() / f"{name.split()[0]}.py",
        arguments,
        arch="sm_90a",
        landing=Landing.parse("eager"),
        options=Options(),
        profile=None,
    )
    kinds = {finding.kind for finding in done.findings}
    return _said(kinds | {"values" for _ in done.incomplete})


def page(card: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """Return the page that shows both, as Markdown."""
    seen: Verdicts = card["seen"]
    lines = [
        "# What other tools see of the seeded bugs",
        "",
        f"{card['card']}, compute-sanitizer {card['compute-sanitizer'].strip()},",
        f"{card['date']}. Made by `python -m benchmarks.tools`. Every bug stands",
        "beside its fixed twin; *twin* is what a tool says of that, where it says",
        "anything: the same of both tells a bug from its fix no better than silence.",
        f"*hangs*: it did not end within {LIMIT} s. Sidestream's column is the virtual",
        "GPU's.",
        "",
        "## Kernels that SM90 can express",
        "",
        *_table([b.name for b in KERNEL_BUGS if expressible(b)], seen, own["seen"]),
        "",
        "## Host programs",
        "",
        *_table(list(SCRIPTS), seen, own["seen"], tools=(ALONE, CSAN)),
        "",
        *_sums(seen, own["seen"]),
    ]
    return "\n".join(lines) + "\n"


def _table(
    names: list[str],
    seen: Verdicts,
    own: Verdicts,
    tools: tuple[str, ...] = (ALONE, *TOOLS),
) -> list[str]:
    heads = ["bug", *tools, "Sidestream"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name in names:
        cells = [name]
        for tool in (*tools, "Sidestream"):
            source = own if tool == "Sidestream" else seen
            bug = source.get(f"{name} buggy", {}).get(tool, "not run")
            twin = source.get(f"{name} fixed", {}).get(tool, "not run")
            cells.append(bug if twin == "nothing" else f"{bug}; twin: {twin}")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _sums(seen: Verdicts, own: Verdicts) -> list[str]:
    """Count bugs told, and twins told of, for each tool."""
    lines = ["| tool | bugs told of | false alarms on twins |", "|---|---|---|"]
    for tool in (*TOOLS, CSAN, "Sidestream"):
        source = own if tool == "Sidestream" else seen
        counts = {}
        for state in ("buggy", "fixed"):
            said = [
                verdicts[tool]
                for subject, verdicts in source.items()
                if subject.endswith(state) and tool in verdicts
            ]
            if tool == "Sidestream":
                told = [text for text in said if text != "nothing"]
            else:
                told = [text for text in said if text.startswith("found")]
            counts[state] = f"{len(told)} of {len(said)}"
        lines.append(f"| {tool} | {counts['buggy']} | {counts['fixed']} |")
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--card", type=Path, metavar="JSON")
    parser.add_argument("--ours", type=Path, metavar="JSON")
    parser.add_argument("--page", type=Path, nargs=2, metavar=("CARD", "OURS"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    if given.card:
        given.card.write_text(json.dumps(on_card(given.jobs), indent=1))
    if given.ours:
        given.ours.write_text(json.dumps(ours(), indent=1))
    if given.page:
        card, own = (json.loads(path.read_text()) for path in given.page)
        print(page(card, own), end="")
