"""A sample of what `sidestream mutate` says of our SM100 kernel (docs/mutation.md).

Every synchronisation that orders something is taken to order nothing, over one launch.
"""

import subprocess
import sys
from collections import defaultdict

import pytest

from sidestream.harness.commands.mutate import launch_folders
from sidestream.harness.dsl.chip import CHIPS
from sidestream.harness.dsl.record import read_launch
from sidestream.harness.exec.machine import Options
from sidestream.harness.mutate.judge import CAUGHT, Court
from sidestream.harness.mutate.mutants import Mutant
from sidestream.harness.mutate.sites import sites_of
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.parser import parse

CLASSES = ("arrive", "cluster", "commit", "fence", "tensor-wait", "wait", "warp")


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """Verdicts on `weaken`, by class and operation."""
    out = tmp_path_factory.mktemp("mutants") / "run"
    command = [sys.executable, "-m", "sidestream.harness.cli", "record", "--no-races"]
    command += ["--arch", "sm_100a", "--scenario", "mutate-band-d128-idle"]
    subprocess.run([*command, "--out", str(out)], check=True, capture_output=True)
    (folder,) = (f for f in launch_folders([out]) if "forward" in f.name)
    recorded = read_launch(folder)
    function = decode(parse(recorded.launch.ptx), recorded.launch.kernel)
    options = Options(sms=4, max_smem=CHIPS[recorded.arch].smem_per_block)
    court = Court(
        launches=[recorded], function=function, options=options, profile="isa"
    )
    found = defaultdict(list)
    for site in sites_of(function):
        if site.kind in CLASSES and court.executed(site.index):
            verdict = court.judge(Mutant(site=site, change="weaken"))
            found[site.kind].append((site.instruction.op, verdict.status))
    return found


@pytest.mark.parametrize("kind", CLASSES)
def test_a_mutant_of_each_class_is_caught(verdicts, kind):
    assert CAUGHT in {status for _, status in verdicts[kind]}


@pytest.mark.parametrize(
    "operation",
    ["barrier.cluster", "fence.proxy", "tcgen05.wait::ld", "tcgen05.wait::st"],
)
def test_all_of_these_are_caught(verdicts, operation):
    rows = [row for rows in verdicts.values() for row in rows]
    statuses = [status for op, status in rows if op.startswith(operation)]
    assert statuses
    assert set(statuses) == {CAUGHT}
