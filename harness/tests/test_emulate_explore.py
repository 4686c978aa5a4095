"""What `sidestream emulate --explore` finds is short, and its replay tells the same."""

import json
import shlex

import pytest
from device_case import launch_of, text_of
from typer.testing import CliRunner

from sidestream.harness.cli import app
from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.dsl.record import write_launch
from sidestream.harness.exec.schedule import Schedule

# Warp 1 looks once whether warp 0 has come by, and if so it waits for a barrier that
# warp 0 never comes to. In turn the look is first, since warp 0 works before it stores.
LOOK = text_of(
    """
    setp.ge.u32 %p0, %r0, 32;
    @%p0 bra LATE;
    mov.u32 %r1, 0;
WORK:
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 100;
    @%p1 bra WORK;
    st.relaxed.gpu.global.u32 [%rd0], 1;
    exit;
LATE:
    ld.relaxed.gpu.global.u32 %r2, [%rd0];
    setp.eq.u32 %p2, %r2, 1;
    @%p2 bar.sync 1, 64;
    """
)


@pytest.fixture
def launch(tmp_path):
    table = AllocationTable()
    buffer = table.allocate(256, "out", fill=b"\0")
    made = launch_of(LOOK, buffer.va, threads=64)
    return write_launch(tmp_path / "launch", made, table, "sm_120a")


def emulated(words, out):
    done = CliRunner(env={"COLUMNS": "400"}).invoke(app, [*words, "--out", str(out)])
    told = [line.strip() for line in done.output.splitlines()]
    report = json.loads((out / "report.json").read_text())
    return done.exit_code, told, report


def test_in_turn_nothing_fails(tmp_path, launch):
    status, _, report = emulated(("emulate", str(launch)), tmp_path / "out")
    assert (status, report["findings"]) == (0, [])


@pytest.mark.parametrize("how", ["random:40", "pct:40:2", "exhaustive:12"])
def test_what_exploring_finds_is_short_and_its_replay_tells_the_same(
    tmp_path, launch, how
):
    words = ("emulate", str(launch), "--explore", how)
    status, told, report = emulated(words, tmp_path / "one")
    (finding,) = report["findings"]
    assert (status, finding["kind"]) == (1, "deadlock")
    assert finding["need"]
    program, *words = shlex.split(finding["replay"])
    assert program == "sidestream"
    chosen = Schedule.parse(words[words.index("--schedule") + 1])
    assert chosen.policy == "given"
    assert 1 <= len(chosen.choices) <= 4
    status, again, second = emulated(words, tmp_path / "two")
    assert status == 1
    assert second["findings"] == report["findings"]
    text = "\n".join(told[: told.index(f"replay: {finding['replay']}") + 1])
    assert text.startswith("deadlock: ")
    assert "\n".join(again).startswith(text)
