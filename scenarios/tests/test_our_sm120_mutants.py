"""What `sidestream mutate` says of our SM120 kernel (docs/mutation.md), decoding.

Every synchronisation is taken to order nothing, over launches that reach all of them.
"""

import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

from sidestream.harness.commands.mutate import launch_folders
from sidestream.harness.device.programs import CACHE
from sidestream.harness.device.vgpu import watch_launch
from sidestream.harness.dsl.chip import CHIPS
from sidestream.harness.dsl.record import read_launch
from sidestream.harness.exec.abi import MBAR_ARRIVE, MBAR_DROP
from sidestream.harness.exec.machine import Options, Running
from sidestream.harness.exec.program import SMEM_BASE
from sidestream.harness.mutate.judge import CAUGHT, EQUIVALENT, Court
from sidestream.harness.mutate.mutants import DELETE, changed, mutants_of
from sidestream.harness.mutate.sites import sites_of
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.parser import parse


def record(out, family, launches):
    command = [sys.executable, "-m", "sidestream.harness.cli", "record", "--no-races"]
    command += ["--arch", "sm_120a", "--out", str(out)]
    for launch in launches:
        command += ["--scenario", f"mutate-{family}-{launch}"]
    subprocess.run(command, check=True, capture_output=True)
    return out


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    out = tmp_path_factory.mktemp("mutants") / "run"
    return record(out, "decode-d128", ("one", "none", "many", "crowd"))


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
    assert len(orders_needed(court)) > 30


def test_turns_of_an_output_of_one_byte_inputs_are_parted(court, tmp_path):
    """Rows of a turn are copied out before the next are put there."""
    out = record(tmp_path, "decode-fp8-d128", ("one", "none", "many"))
    narrow = orders_needed(court_of(out, "forward"))
    turns = Counter(op for op, _ in narrow)
    turns.subtract(op for op, _ in orders_needed(court))
    assert {op: n for op, n in turns.items() if n} == {"bar.warp.sync": 2}


def orders_needed(court):
    """Judge every synchronisation weakened; that of the first fence is not needed."""
    statuses = {
        (mutant.site.instruction.op, mutant.site.index): court.judge(mutant).status
        for mutant in mutants_of(court.function)
        if mutant.change == "weaken"
    }
    left = {op: status for (op, _), status in statuses.items() if status != CAUGHT}
    assert left == {"fence.mbarrier_init": EQUIVALENT}
    return statuses


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


@pytest.mark.parametrize("seed", [0, 7])
def test_a_deadlock_names_the_barrier_whose_arrival_was_deleted(recorded, seed):
    """The text tells the barrier of some arrivals, and of others one of a ring."""
    court = court_of(recorded, "forward", without=("-crowd", "-one", "-none"))
    (recorded_launch,) = court.launches
    rings = _barriers_arrived_at(recorded_launch, court)
    judged = 0
    for mutant in mutants_of(court.function, only=frozenset({"arrive"})):
        if mutant.change != DELETE or mutant.site.index not in rings:
            continue
        memory = recorded_launch.memory
        before = memory.snapshot()
        watched = watch_launch(
            recorded_launch.launch,
            memory,
            replace(court.options, seed=seed),
            profile="isa",
            code=changed(court.function, mutant),
        )
        memory.restore(before)
        (found,) = (f for f in watched.outcome.findings if f.kind == "deadlock")
        named = re.search(r"the mbarrier at shared address (0x[0-9a-f]+)", found.need)
        assert named, (mutant.name, found.need)
        assert int(named[1], 16) in rings[mutant.site.index], (mutant.name, found.need)
        assert "victim" not in found.sites[0].detail
        judged += 1
    assert judged > 10


def _barriers_arrived_at(recorded_launch, court):
    """By instruction, the addresses of the mbarriers at which it arrives."""
    launch, memory = recorded_launch.launch, recorded_launch.memory
    program = CACHE.get(launch, memory).program
    before = memory.snapshot()
    running = Running(program, launch, memory.entries(), court.options)
    found = {}
    try:
        while running.run(200) == "steps":
            for seen in running.seen():
                if seen.op in (MBAR_ARRIVE, MBAR_DROP):
                    places = found.setdefault(int(program.origin[seen.pc]), set())
                    places.add(SMEM_BASE + seen.offset)
    finally:
        running.close()
        memory.restore(before)
    return found
