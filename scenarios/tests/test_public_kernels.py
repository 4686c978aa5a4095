"""Released kernels of other people, unmodified, on the virtual SM100.

Nobody here wrote them, so that they run clean and in parity is evidence about the
virtual GPU. Each case compiles for 5 to 15 s; the rest of the named ones run with

    sidestream check --impl fa4 --arch sm_100a
    sidestream check --impl cudnn --arch sm_100a
"""

import importlib.util
import time

import numpy as np
import pytest
from seeded_runs import seeded

from sidestream.harness.commands.check import Selection
from sidestream.harness.drivers.cudnn import CudnnFrontend
from sidestream.harness.finding import Verdict
from sidestream.harness.run.pool import Pool
from sidestream.harness.run.problem import problem_of
from sidestream.harness.run.settings import KERNELS, Settings
from sidestream.reference.tolerance import bound
from sidestream.scenarios import catalogue
from sidestream.scenarios.case import build
from sidestream.scenarios.catalogue_each import EACH
from sidestream.scenarios.catalogue_narrow import NARROW
from sidestream.scenarios.catalogue_public import (
    LARGEST_PUBLIC_FLOPS,
    PUBLIC,
    PUBLIC_TAG,
)
from sidestream.scenarios.catalogue_scaled import SCALED

CASES = {
    "fa4": {"d256-grouped-causal": 1, "splits-d128": 3, "clc-d128": 1},
    "cudnn": {
        "d192x128-crossed": 2,
        "d256-crossed": 2,
        "d128-unequal": 2,
        "fp8-d128-unequal": 2,
        "fp8-d128-crossed": 2,
        "d512-grouped-causal": 2,
    },
}
"""By package, what is run here and how many kernels a call launches."""

SEEDS = 20

TOLD = frozenset(
    {"fp8-d128-unequal", "fp8-d128-crossed"}
    | {"d512-roles-unequal", "d512-roles-crossed"}
)
"""Scenarios with races that docs/public-kernels.md tells of. Here they run without
looking for any."""


def installed(impl):
    package = {"fa4": "flash_attn", "cudnn": "cudnn"}[impl]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


def outcomes_of(impl, names):
    """Run scenarios; workers are processes of their own, as one has one target."""
    outcomes = []
    for races in (True, False):
        some = [name for name in names if (name not in TOLD) is races]
        assert len(some) != 1, "a case alone runs in this process, bound to a target"
        settings = Settings(impl=impl, kernel="sm100", arch="sm_100a", races=races)
        pool = Pool(settings=settings, jobs=2, origin=time.time())
        run = pool.run([catalogue.by_name(name) for name in some]) if some else ()
        outcomes += dict(run).values()
    return outcomes


@pytest.mark.parametrize("impl", CASES)
def test_public_kernels_are_clean(impl):
    installed(impl)
    outcomes = outcomes_of(impl, CASES[impl])
    complaints = [
        line
        for outcome in outcomes
        for line in (
            *(f"{f.kind}: {f.message}\n  {f.replay}" for f in outcome.findings),
            *(f"not judged: {entry.reason}" for entry in outcome.incomplete),
        )
    ]
    cases = {o.case.scenario: o.case for o in outcomes}
    assert not complaints, "\n".join(complaints)
    assert {case.verdict for case in cases.values()} == {Verdict.CLEAN}
    assert {name: case.launches for name, case in cases.items()} == CASES[impl]
    for case in cases.values():
        statuses = {name: check.status for name, check in case.checks.items()}
        if case.scenario in TOLD:
            assert statuses.pop("race") == "not-run"
        assert set(statuses.values()) == {"passed"}
        assert 0.0 < case.errors["out"].ratio <= 1.0
        assert case.warp_instructions > 100_000


def test_a_released_kernel_gives_back_tensor_memory_that_it_still_reads():
    """cuDNN frontend 1.32.0, sm100/prefill_d512_f16.py, the route with split roles.

    Its dealloc waits for one of the four warps that load O, so the others may be late;
    the package's default at this head dim, prefill_d512_f16_2x2.py, waits for all.
    """
    installed("cudnn")
    outcomes = outcomes_of("cudnn", ("d512-roles-unequal", "d512-roles-crossed"))
    found = [f for outcome in outcomes for f in outcome.findings]
    assert {(f.kind, f.rule.id) for f in found} == {("out-of-bounds", "tmem.access")}
    for finding in found:
        assert finding.sites[0].operation.startswith("tcgen05.ld")
        assert "/prefill_d512_f16.py:" in finding.sites[0].source
    for outcome in outcomes:
        assert not outcome.incomplete
        statuses = {name: c.status for name, c in outcome.case.checks.items()}
        del statuses["execution"], statuses["bounds"]  # where those findings are
        assert statuses.pop("race") == "not-run"
        assert set(statuses.values()) == {"passed"}
        assert 0.0 < outcome.case.errors["out"].ratio <= 1.0


@pytest.mark.parametrize(
    ("impl", "scenario"), [("fa4", "d128-unequal"), ("cudnn", "d64-unequal")]
)
def test_results_do_not_depend_on_the_schedule(impl, scenario):
    installed(impl)
    runs = seeded(impl, scenario, SEEDS)
    assert [run.complaints for run in runs] == [()] * SEEDS
    assert {run.kernels for run in runs} == {runs[0].kernels}
    assert len({(run.out, run.lse) for run in runs}) == 1


def test_each_named_kernel_has_scenarios_of_its_own():
    assert all(PUBLIC_TAG in scenario.tags for scenario in PUBLIC)
    for tag, least in (
        *((shape, 3) for shape in ("d64", "d128", "d192x128", "d256", "d512")),
        *((kernel, 3) for kernel in ("d512-roles", "fp8-d128", "splits", "clc")),
    ):
        family = catalogue.with_tags(PUBLIC_TAG, tag)
        assert len(family) >= least, tag
        # No tokens between live sequences, and eight that are very unequal.
        assert any(_hole(s.lengths_q) for s in family), tag
        assert any(len(s.lengths_kv) == 8 and _skewed(s.lengths_kv) for s in family)
        assert len({s.heads_q == s.heads_kv for s in family}) == 2 or tag == "clc"
        assert len({s.causal for s in family}) == 2, tag


def _hole(lengths):
    inside = range(1, len(lengths) - 1)
    return any(lengths[i - 1] and not lengths[i] and lengths[i + 1] for i in inside)


def _skewed(lengths):
    return max(lengths) > 50 * max(1, min(n for n in lengths if n))


def test_they_are_what_the_default_check_of_a_package_adds():
    usual = Selection(steps=1).scenarios()
    beyond = Selection(steps=1, beyond=True).scenarios()
    assert set(usual).isdisjoint(PUBLIC)
    assert set(beyond) == {*usual, *PUBLIC}
    whole = Selection(names=("all",), beyond=True)
    assert set(whole.scenarios()) == set(catalogue.EVERY) - {*NARROW, *SCALED, *EACH}
    ours = Selection(names=("all",)).scenarios()
    assert set(ours) == set(catalogue.EVERY) - set(PUBLIC)
    assert not whole.asked
    assert Selection(names=("all", "two-short")).asked
    for impl in CASES:
        assert KERNELS[impl]["sm100"] == ("sm_100a",)


@pytest.mark.parametrize("scenario", PUBLIC, ids=lambda s: s.name)
def test_each_has_a_reference_and_a_bound_that_is_not_idle(scenario):
    assert scenario.flops <= LARGEST_PUBLIC_FLOPS
    inputs = build(scenario)
    model = CudnnFrontend().arithmetic(problem_of(scenario), "sm_100a")
    limits = bound(inputs.problem(), dtype=model)
    rows = inputs.judged
    assert np.isfinite(limits.out[rows]).all()
    seen = rows & np.isfinite(limits.reference.lse).all(axis=-1)
    size = np.abs(limits.reference.out[seen])
    loose = 0.8 if problem_of(scenario).is_float8 else 0.2
    assert np.median(limits.out[seen]) < loose * np.median(size)
    assert np.median(limits.lse[seen]) < 2e-3
