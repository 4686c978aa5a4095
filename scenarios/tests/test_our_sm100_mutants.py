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
from sidestream.scenarios.catalogue_wide import SHAPES

CLASSES = ("arrive", "cluster", "commit", "fence", "tensor-wait", "wait", "warp")


SAMPLE = 5
"""Sites of a class that are judged in each text but that of d128: even steps apart."""


def court_of(scenario, out):
    """Record the forward launch of a scenario, and judge its mutants."""
    command = [sys.executable, "-m", "sidestream.harness.cli", "record", "--no-races"]
    command += ["--arch", "sm_100a", "--scenario", scenario]
    subprocess.run([*command, "--out", str(out)], check=True, capture_output=True)
    (folder,) = (f for f in launch_folders([out]) if "forward" in f.name)
    recorded = read_launch(folder)
    return Court(
        launches=[recorded],
        function=decode(parse(recorded.launch.ptx), recorded.launch.kernel),
        options=Options(sms=4, max_smem=CHIPS[recorded.arch].smem_per_block),
        profile="isa",
    )


def sites_by_class(court):
    """The executed synchronisations that order something, by class."""
    found = defaultdict(list)
    for site in sites_of(court.function):
        if site.kind in CLASSES and court.executed(site.index):
            found[site.kind].append(site)
    return found


def spread(sites):
    """At most `SAMPLE` of the sites, first and last among them."""
    last = len(sites) - 1
    picked = {round(last * i / (SAMPLE - 1)) for i in range(SAMPLE)}
    return [sites[index] for index in sorted(picked)]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """Verdicts on `weaken`, by class and operation."""
    court = court_of(
        "mutate-band-d128-idle", tmp_path_factory.mktemp("mutants") / "run"
    )
    return {
        kind: [
            (
                site.instruction.op,
                court.judge(Mutant(site=site, change="weaken")).status,
            )
            for site in sites
        ]
        for kind, sites in sites_by_class(court).items()
    }


NARROW = ("fp8-d64", "fp8-d128", "fp8-out-d128")


@pytest.fixture(scope="module", params=[*SHAPES, *NARROW])
def sampled(request, tmp_path_factory):
    """The judge of a text, and a sample of its sites by class.

    Texts of head dims past 128, and of one-byte inputs without and with such an output.
    """
    court = court_of(
        f"mutate-band-{request.param}-idle", tmp_path_factory.mktemp("wide") / "run"
    )
    return court, {k: spread(sites) for k, sites in sites_by_class(court).items()}


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


def test_a_mutant_of_each_class_is_caught_in_each_text(sampled):
    court, sample = sampled
    assert set(sample) == set(CLASSES)
    for kind, sites in sample.items():
        mutants = [Mutant(site=site, change="weaken") for site in sites]
        assert CAUGHT in {court.judge(mutant).status for mutant in mutants}, kind


@pytest.mark.parametrize("operation", ["barrier.cluster", "tcgen05.wait::st"])
def test_all_of_these_are_caught_in_each_text(sampled, operation):
    court, _ = sampled
    chosen = [
        site
        for sites in sites_by_class(court).values()
        for site in sites
        if site.instruction.op.startswith(operation)
    ]
    assert chosen
    for site in chosen:
        mutant = Mutant(site=site, change="weaken")
        assert court.judge(mutant).status == CAUGHT, mutant.name
