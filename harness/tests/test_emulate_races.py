"""A race that `emulate` finds is replayed by the command that it prints."""

import json
import shlex

import pytest
from device_case import launch_of, text_of
from typer.testing import CliRunner

from sidestream.harness.cli import app
from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.dsl.record import write_launch

RACE = text_of(
    """
    shl.b32 %r1, %r0, 2;
    mov.u32 %r2, words;
    add.u32 %r3, %r2, %r1;
    st.shared.u32 [%r3], %r0;
    xor.b32 %r4, %r1, 128;
    add.u32 %r4, %r2, %r4;
    ld.shared.u32 %r5, [%r4];
    """,
    declare=".shared .align 16 .b8 words[256];",
)


@pytest.fixture
def launch(tmp_path):
    table = AllocationTable()
    buffer = table.allocate(256, "out", fill=b"\0")
    made = launch_of(RACE, buffer.va, threads=64)
    return write_launch(tmp_path / "launch", made, table, "sm_120a")


def emulated(words, out):
    done = CliRunner().invoke(app, [*words, "--out", str(out)])
    return done.exit_code, json.loads((out / "report.json").read_text())


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--races", "--profile", "isa", "--seed", "3"),
        ("--schedule", "pct:2:1", "--sms", "2"),
    ],
)
def test_the_replay_command_shows_the_same_findings(tmp_path, launch, options):
    status, report = emulated(("emulate", str(launch), *options), tmp_path / "one")
    assert status == 1
    assert {finding["kind"] for finding in report["findings"]} == {"smem-race"}
    program, *words = shlex.split(report["findings"][0]["replay"])
    assert program == "sidestream"
    status, again = emulated(words, tmp_path / "two")
    assert status == 1
    assert again["findings"] == report["findings"]
    assert (again["profile"], again["seed"]) == (report["profile"], report["seed"])


def test_races_can_be_left_out(tmp_path, launch):
    words = ("emulate", str(launch), "--no-races")
    status, report = emulated(words, tmp_path / "out")
    assert (status, report["findings"]) == (0, [])
    (case,) = report["cases"]
    assert case["checks"]["race"] == "not-run: switched off by --no-races"
    assert "--no-races" in case["replay"]
