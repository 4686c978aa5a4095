"""Scenarios of every shape, and mutants that put public bugs into our kernels."""

from __future__ import annotations

import pytest

from sidestream.harness.drivers.ours import Sidestream
from sidestream.harness.finding import Verdict
from sidestream.harness.run.bench import Bench
from sidestream.harness.run.case import run_case
from sidestream.harness.run.settings import Settings
from sidestream.kernels.spec import LARGEST_HEAD_DIM, UNEQUAL_HEAD_DIMS
from sidestream.scenarios import catalogue
from sidestream.scenarios.bugs.rows import ROWS
from sidestream.scenarios.bugs.seed import adapter_with
from sidestream.scenarios.catalogue_each import EACH, SHAPES, each

BUDGET = 20_000_000
"""Warp instructions: a bug may send a kernel into a loop without end."""


def settings_of(arch):
    kernel = {"sm_100a": "sm100", "sm_120a": "sm120"}[arch]
    return Settings(arch=arch, kernel=kernel, budget=BUDGET)


def shapes_of(arch):
    """Shapes that a target serves, by what its plans take."""
    return [
        shape
        for shape, dims in SHAPES.items()
        if dims["head_dim"] <= LARGEST_HEAD_DIM[arch]
        and ("head_dim_v" not in dims or arch in UNEQUAL_HEAD_DIMS)
    ]


def scenarios_of(arch):
    """One parameter for each scenario of each shape that a target serves."""
    served = shapes_of(arch)
    chosen = [s for s in EACH if s.tags[1] in served]
    return pytest.mark.parametrize("scenario", chosen, ids=lambda s: s.name)


def mutants_of(arch):
    """One parameter for each mutant of a target, with its row."""
    chosen = [(r, m) for r in ROWS for m in r.mutants if m.arch == arch]
    return pytest.mark.parametrize(
        ("row", "mutant"), chosen, ids=[f"{r.issue} {m.shape}" for r, m in chosen]
    )


def require_clean(bench, scenario):
    outcome = run_case(bench, scenario)
    lines = [f"{f.kind}: {f.message}\n  {f.replay}" for f in outcome.findings]
    lines += [f"not judged: {entry.reason}" for entry in outcome.incomplete]
    assert outcome.case.verdict is Verdict.CLEAN, "\n".join(lines)


def require_caught(row, mutant):
    adapter = adapter_with(f"{row.issue} {mutant.arch} {mutant.shape}", mutant.edits)
    bench = Bench(settings=settings_of(mutant.arch), driver=Sidestream(adapter))
    scenario = catalogue.by_name(each(mutant.shape, mutant.scenario))
    outcome = run_case(bench, scenario)
    assert outcome.case.checks[mutant.check].status == "failed", outcome.case.checks
    assert outcome.case.verdict is Verdict.FINDINGS
    assert mutant.kinds & {finding.kind for finding in outcome.findings}
