"""The commands on our kernels, from check to replay, and their exit statuses."""

import json
import re
import signal
import subprocess
import sys
import time

import pytest
from device_case import launch_of, text_of

from sidestream.harness import cli
from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.dsl.record import write_launch

FORMS = (
    *("report.json", "report.html", "junit.xml"),
    *("results.sarif", "trace.perfetto.json"),
)


@pytest.fixture
def sidestream(capsys, monkeypatch):
    """Run a command line in this process; returns its status and what it printed."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["sidestream", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return int(stop.value.code or 0), capsys.readouterr().out

    return run


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A recorded run of one scenario, made once."""
    out = tmp_path_factory.mktemp("recorded") / "out"
    argv = ["record", "--scenario", "two-short", "--jobs", "1", "--out", str(out)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["sidestream", *argv])
        with pytest.raises(SystemExit) as stop:
            cli.main()
    assert not stop.value.code
    return out


def forward(recorded):
    (folder,) = (recorded / "launches" / "two-short").glob("*forward*")
    return folder


def test_a_clean_run_is_0_and_writes_every_form(sidestream, tmp_path):
    names = ["--scenario", "two-short", "--scenario", "empty-keys"]
    out = tmp_path / "deep" / "out"
    status, shown = sidestream("check", *names, "--jobs", 1, "--out", out)
    assert status == 0
    assert "verdict: clean" in shown
    assert f"report: {out / 'report.html'}" in shown.replace("\n", "")
    document = json.loads((out / "report.json").read_text())
    assert document["verdict"] == "clean"
    assert [c["scenario"] for c in document["cases"]] == ["two-short", "empty-keys"]
    for case in document["cases"]:
        assert set(case["checks"].values()) == {"passed"}
    assert all((out / form).stat().st_size for form in FORMS)


def test_steps_of_a_trace_share_one_compilation(sidestream, tmp_path):
    trace = ["--trace", "code", "--steps", 4]
    status, shown = sidestream("check", *trace, "--jobs", 1, "--out", tmp_path)
    assert status == 0, shown
    document = json.loads((tmp_path / "report.json").read_text())
    assert len(document["cases"]) == 4
    totals = {tuple(c["scenario"] for c in document["cases"])}
    assert len(totals) == 1
    assert document["stats"]["compiles"] <= 1
    assert sum(row["cases"] for row in document["stats"]["compilations"]) == 4


def test_a_deadline_that_passes_is_3(sidestream, tmp_path):
    limits = ["--scenario", "two-short", "--budget", 50, "--out", tmp_path]
    status, shown = sidestream("check", *limits, "--jobs", 1)
    assert status == 3
    assert "budget" in shown
    assert "verdict: incomplete" in shown


def test_every_launch_is_recorded_and_emulates_clean(sidestream, recorded):
    folders = sorted((recorded / "launches" / "two-short").iterdir())
    assert len(folders) == 2
    for folder in folders:
        status, shown = sidestream("emulate", folder)
        assert status == 0, shown
        assert "verdict: clean" in shown


def test_code_that_strays_is_1_and_names_the_tensor(sidestream, recorded, tmp_path):
    folder = forward(recorded)
    text = (folder / "kernel.ptx").read_text()
    store = re.search(r"st\.global\.v4\S*\s+\[%rd\d+\]", text)
    assert store
    # As if a row were a gigabyte further on.
    strayed = text.replace(store.group(0), store.group(0)[:-1] + "+1073741824]")
    (tmp_path / "k.ptx").write_text(strayed)
    out = tmp_path / "out"
    status, shown = sidestream(
        "emulate", folder, "--ptx", tmp_path / "k.ptx", "--out", out
    )
    assert status == 1
    assert "out-of-bounds" in shown
    assert "past the end of" in shown
    assert "common/rows.py" in shown
    document = json.loads((out / "report.json").read_text())
    assert document["verdict"] == "findings"
    assert document["findings"][0]["sites"][0]["ptx_line"]


def test_other_results_than_those_of_the_recorded_code_are_to_be_looked_at(
    sidestream, recorded, tmp_path
):
    folder = forward(recorded)
    text = (folder / "kernel.ptx").read_text()
    other, out = tmp_path / "k.ptx", tmp_path / "out"
    other.write_text(text + "\n")
    status, shown = sidestream("emulate", folder, "--ptx", other, "--out", out)
    assert status == 0
    assert "verdict: clean" in shown
    # Scores of keys past the mask get the weight of others.
    turned = text.replace("ex2.approx.ftz.f32", "abs.ftz.f32", 1)
    assert turned != text
    other.write_text(turned)
    status, shown = sidestream("emulate", folder, "--ptx", other, "--out", out)
    assert status == 0
    assert "verdict: review" in shown
    assert re.search(r"results differ from the recorded code: \d+ bytes of out", shown)
    document = json.loads((out / "report.json").read_text())
    assert document["cases"][0]["checks"]["results"] == "failed"
    assert document["findings"] == []


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_ending_a_watched_launch_leaves_a_report(sent, tmp_path, interruptible):
    table = AllocationTable()
    buffer = table.allocate(256, "out", fill=b"\0")
    poll = "ld.global.u32 %r1, [%rd0];\nsetp.eq.u32 %p0, %r1, 0;"
    text = text_of(f"ROUND:\n{poll}\n@%p0 bra ROUND;")
    write_launch(tmp_path / "launch", launch_of(text, buffer.va), table, "sm_120a")
    out = tmp_path / "out"
    command = [sys.executable, "-m", "sidestream.harness.cli", "emulate"]
    process = subprocess.Popen(
        [*command, str(tmp_path / "launch"), "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not out.exists():
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(sent)
    shown, errors = process.communicate(timeout=120)
    assert process.returncode == 3, (shown, errors)
    document = json.loads((out / "report.json").read_text())
    assert document["verdict"] == "incomplete"
    assert [entry["reason"] for entry in document["incomplete"]] == ["interrupted"]
    assert all((out / form).stat().st_size for form in FORMS)


def test_code_without_semantics_is_3_and_names_the_line(sidestream, recorded, tmp_path):
    folder = forward(recorded)
    text = (folder / "kernel.ptx").read_text()
    line = text[: text.index("elect.sync")].count("\n") + 1
    changed = text.replace("elect.sync ", "elect.bogus ", 1)
    (tmp_path / "k.ptx").write_text(changed)
    status, shown = sidestream("emulate", folder, "--ptx", tmp_path / "k.ptx")
    assert status == 3
    assert "elect.bogus" in shown
    assert f"PTX line {line}" in shown


def test_a_token_of_a_report_runs_its_case_again(sidestream, recorded, tmp_path):
    document = json.loads((recorded / "report.json").read_text())
    command = document["cases"][0]["replay"].split()
    assert command[:2] == ["sidestream", "replay"]
    status, _ = sidestream(*command[1:], "--out", tmp_path)
    assert status == 0
    again = json.loads((tmp_path / "report.json").read_text())
    assert [c["scenario"] for c in again["cases"]] == ["two-short"]
    assert again["cases"][0]["errors"] == document["cases"][0]["errors"]


def test_a_report_is_rendered_again(sidestream, recorded):
    before = (recorded / "report.json").read_bytes()
    (recorded / "report.html").unlink()
    status, shown = sidestream("report", recorded)
    assert status == 0
    assert "verdict: clean" in shown
    assert (recorded / "report.html").stat().st_size > 10_000
    assert (recorded / "report.json").read_bytes() == before


@pytest.fixture
def interruptible():
    """Undo what a shell does to background jobs: it lets them ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_leaves_a_valid_report(tmp_path, jobs, interruptible):
    command = [sys.executable, "-m", "sidestream.harness.cli", "check"]
    process = subprocess.Popen(
        [*command, "--jobs", str(jobs), "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if re.match(r" *1/\d+ ", line):
            break
    process.send_signal(signal.SIGINT)
    shown, errors = process.communicate(timeout=120)
    assert process.returncode == 3, (shown, errors)
    assert "verdict: incomplete" in shown
    document = json.loads((tmp_path / "report.json").read_text())
    assert document["verdict"] == "incomplete"
    assert len(document["cases"]) >= 1
    left = [i for i in document["incomplete"] if i["reason"] == "not run: interrupted"]
    assert len(left) > 50
    assert all((tmp_path / form).stat().st_size for form in FORMS)
