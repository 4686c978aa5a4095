"""What `sidestream mutate` says of our SM120 kernel (docs/mutation.md), decoding.

Every synchronisation is taken to order nothing, over launches that reach all of them.
"""

import subprocess
import sys

import pytest

from sidestream.harness.commands.mutate import launch_folders
from sidestream.harness.dsl.chip import CHIPS
from sidestream.harness.dsl.record import read_launch
from sidestream.harness.exec.machine import Options
from sidestream.harness.mutate.judge import CAUGHT, EQUIVALENT, Court
from sidestream.harness.mutate.mutants import mutants_of
from sidestream.harness.mutate.sites import sites_of
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.parser import parse


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    out = tmp_path_factory.mktemp("mutants") / "run"
    command = [sys.executable, "-m", "sidestream.harness.cli", "record", "--no-races"]
    command += ["--arch", "sm_120a", "--out", str(out)]
    for launch in ("one", "none", "many", "crowd"):
        command += ["--scenario", f"mutate-decode-d128-{launch}"]
    subprocess.run(command, check=True, capture_output=True)
    return out


def court_of(recorded, kernel, *, without=()):
    """Judge mutants of a kernel by its recorded launches."""
    folders = [f for f in launch_folders([recorded]) if kernel in f.name]
    folders = [f for f in folders if not any(name in str(f) for name in without)]
    launches = [read_launch(folder) for folder in folders]
    first = launches[0]
    assert {each.launch.ptx for each in launches} == {first.launch.ptx}
    return Court(
        launches=launches,
        function=decode(parse(first.launch.ptx), first.launch.kernel),
        options=Options(sms=4, max_smem=CHIPS[first.arch].smem_per_block),
        profile="isa",
    )


@pytest.fixture(scope="module")
def court(recorded):
    return court_of(recorded, "forward", without=("-crowd",))


def test_the_launches_reach_every_synchronisation(court):
    assert all(court.executed(site.index) for site in sites_of(court.function))


def test_every_order_is_needed_but_that_of_the_first_fence(court):
    statuses = {
        (mutant.site.instruction.op, mutant.site.index): court.judge(mutant).status
        for mutant in mutants_of(court.function)
        if mutant.change == "weaken"
    }
    left = {op: status for (op, _), status in statuses.items() if status != CAUGHT}
    assert left == {"fence.mbarrier_init": EQUIVALENT}
    assert len(statuses) > 30


def test_bytes_and_counts_are_needed(court):
    """One site of each operation; the rest is the same code unrolled."""
    seen = set()
    for mutant in mutants_of(court.function):
        kind = mutant.site.instruction.op, mutant.change
        if mutant.step and kind not in seen:
            seen.add(kind)
            assert court.judge(mutant).status == CAUGHT, mutant.name
    assert {change for _, change in seen} == {
        "count +1",
        "count -1",
        "bytes +16",
        "bytes -16",
    }


def test_the_work_list_needs_every_barrier(recorded):
    """Those behind its last scan as well, once it scans for a second round."""
    court = court_of(recorded, "worklist")
    mutants = tuple(mutants_of(court.function))
    left = [m.name for m in mutants if court.judge(m).status != CAUGHT]
    assert mutants
    assert not left
    few = court_of(recorded, "worklist", without=("-crowd",))
    assert any(few.judge(m).status != CAUGHT for m in mutants)
