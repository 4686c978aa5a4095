"""`sidestream run` from end to end: scripts as they are, verdicts, failures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import sidestream.scenarios

SCRIPTS = Path(next(iter(sidestream.scenarios.__path__))) / "host_scripts"
COMMAND = [sys.executable, "-W", "ignore", "-m", "sidestream.harness.cli", "run"]


def run(script: Path, *arguments: str, options: tuple[str, ...] = ()) -> Any:
    """Run a script; returns the process."""
    return subprocess.run(
        [*COMMAND, *options, str(script), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
    )


def reported(script: Path, out: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run a script and return its exit status and the report."""
    done = run(script, *arguments, options=("--out", str(out)))
    path = out / "report.json"
    assert path.exists(), done.stderr
    return done.returncode, json.loads(path.read_text())


def written(folder: Path, text: str) -> Path:
    path = folder / "script.py"
    path.write_text(text)
    return path


def test_a_missing_wait_between_streams_is_found_with_both_lines(tmp_path):
    status, report = reported(SCRIPTS / "streams_unordered.py", tmp_path)
    assert status == 1
    assert report["verdict"] == "findings"
    kinds = [finding["kind"] for finding in report["findings"]]
    assert kinds == ["stream-race", "stream-race"]
    sites = [site["source"] for site in report["findings"][0]["sites"]]
    assert all("streams_unordered.py:" in site for site in sites)
    assert "wait_stream" in report["findings"][0]["need"]


def test_streams_that_wait_for_each_other_are_no_finding(tmp_path):
    status, report = reported(SCRIPTS / "streams_ordered.py", tmp_path)
    assert status == 0, report["findings"]
    assert report["findings"] == []
    assert report["incomplete"] == []


def test_our_kernel_runs_on_a_side_stream_to_the_right_values(tmp_path):
    status, report = reported(SCRIPTS / "attention.py", tmp_path)
    assert status == 0, (report["findings"], report["incomplete"])
    assert report["cases"][0]["launches"] == 2
    assert report["cases"][0]["warp_instructions"] > 10_000


def test_a_launch_that_nothing_orders_behind_its_operands_is_found(tmp_path):
    status, report = reported(SCRIPTS / "attention.py", tmp_path, "forget")
    assert status == 1
    races = [f for f in report["findings"] if f["kind"] == "stream-race"]
    told = [site["operation"] for f in races for site in f["sites"]]
    assert any("sidestream" in operation for operation in told)


def test_a_script_that_raises_is_incomplete_and_shows_its_traceback(tmp_path):
    script = written(tmp_path, "import torch\nraise ValueError('mine')\n")
    done = run(script)
    assert done.returncode == 3
    assert "ValueError: mine" in done.stdout + done.stderr
    assert "the script raised ValueError: mine" in done.stdout


def test_what_native_code_hid_of_a_refused_launch_is_in_the_report(tmp_path):
    script = written(
        tmp_path,
        "from sidestream.harness.dsl.activation import active\n"
        "active().keep_raised(ValueError('a launch of no blocks'))\n",
    )
    status, report = reported(script, tmp_path / "out")
    assert status == 3
    (entry,) = report["incomplete"]
    assert entry["reason"] == "ValueError: a launch of no blocks"


def test_packages_compile_in_the_process_of_a_script(tmp_path):
    script = written(
        tmp_path,
        "import os\n"
        "print(os.environ['CUDNN_FRONTEND_DISABLE_COMPILED_CACHE'])\n"
        "print(os.environ['FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED'])\n",
    )
    assert run(script).stdout.startswith("1\n0\n")


@pytest.mark.parametrize(("end", "status"), [("0", 0), ("5", 3)])
def test_the_exit_of_a_script_is_told(end, status, tmp_path):
    done = run(written(tmp_path, f"import sys\nprint('here')\nsys.exit({end})\n"))
    assert done.returncode == status
    assert done.stdout.startswith("here\n")
    assert ("the script exits with 5" in done.stdout) == (status == 3)


def test_a_script_sees_its_own_command_line_and_neighbours(tmp_path):
    (tmp_path / "neighbour.py").write_text("NAME = 'next door'\n")
    text = "import sys, neighbour\nprint(sys.argv[1:], neighbour.NAME, __name__)\n"
    done = run(written(tmp_path, text), "--flag", "3")
    assert "['--flag', '3'] next door __main__" in done.stdout
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--arch", "sm_1"), "sm_1"),
        (("--schedule", "never"), "never"),
    ],
)
def test_bad_options_are_usage_errors(options, told, tmp_path):
    done = run(written(tmp_path, "print('ran')\n"), options=options)
    assert done.returncode == 2
    assert told in done.stderr + done.stdout
    assert "ran" not in done.stdout


def test_a_script_that_is_not_there_is_a_usage_error(tmp_path):
    done = run(tmp_path / "none.py")
    assert done.returncode == 2
    assert "none.py" in done.stderr + done.stdout


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_script_that_is_ended_leaves_a_report(sent, tmp_path):
    text = (
        "import torch, time\nx = torch.ones(4, device='cuda')\n"
        "print('ready', flush=True)\ntime.sleep(60)\n"
    )
    script = written(tmp_path, text)
    process = subprocess.Popen(
        [*COMMAND, "--out", str(tmp_path / "out"), str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # A shell lets background jobs ignore the signal, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    os.kill(process.pid, sent)
    process.communicate(timeout=60)
    assert process.returncode == 3
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert any("interrupted" in entry["reason"] for entry in report["incomplete"])


@pytest.mark.parametrize(
    ("handler", "ending"),
    [("", -signal.SIGTERM), ("signal.signal(signal.SIGTERM, lambda *_: exit(7))\n", 7)],
)
def test_a_child_that_a_script_forks_keeps_its_sigterm(handler, ending, tmp_path):
    text = (
        f"import multiprocessing, signal, time\n{handler}"
        "forked = multiprocessing.get_context('fork')\n"
        "child = forked.Process(target=time.sleep, args=(60,))\n"
        "child.start()\ntime.sleep(0.3)\nchild.terminate()\nchild.join()\n"
        "print('ended by', child.exitcode)\n"
    )
    done = run(written(tmp_path, text), options=("--out", str(tmp_path / "out")))
    assert f"ended by {int(ending)}\n" in done.stdout


def test_a_call_of_the_driver_without_a_model_is_told_though_it_is_ignored(tmp_path):
    script = written(
        tmp_path,
        "from contextlib import suppress\n"
        "from cuda.bindings import runtime\n"
        "with suppress(Exception):\n"
        "    runtime.cudaGraphCreate(0)\n",
    )
    status, report = reported(script, tmp_path / "out")
    assert status == 3
    (entry,) = report["incomplete"]
    assert (
        entry["reason"]
        == "cuda.bindings.runtime.cudaGraphCreate has no model on the virtual GPU"
    )
