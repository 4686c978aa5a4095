"""Scenarios of every shape, and mutants that put public bugs into our kernels."""

from __future__ import annotations

import pytest

from sidestream.harness.drivers.ours import Sidestream
from sidestream.harness.dsl.activation import activate
from sidestream.harness.finding import Verdict
from sidestream.harness.run.bench import Bench
from sidestream.harness.run.case import run_case
from sidestream.harness.run.far_call import run_far
from sidestream.harness.run.settings import Settings
from sidestream.kernels.support import matrix
from sidestream.scenarios import catalogue
from sidestream.scenarios.bugs.rows import ROWS
from sidestream.scenarios.bugs.seed import adapter_with
from sidestream.scenarios.catalogue_each import EACH, SHAPES, each
from sidestream.scenarios.far import FAR, by_name, far

BUDGET = 20_000_000
"""Warp instructions: a bug may send a kernel into a loop without end."""


def settings_of(arch):
    kernel = {"sm_100a": "sm100", "sm_120a": "sm120"}[arch]
    return Settings(arch=arch, kernel=kernel, budget=BUDGET)


def shapes_of(arch):
    """Shapes that a target serves in the types of the scenarios, by its plans."""
    return [
        shape
        for shape, facts in SHAPES.items()
        for row in matrix()
        if (row.arch, row.head_dims) == (arch, dims_of(facts))
        and all(row.served[name] for name in types_of(facts))
    ]


def dims_of(facts):
    """Head dims of a shape: of queries and keys, and of values."""
    return facts["head_dim"], facts.get("head_dim_v", facts["head_dim"])


def types_of(facts):
    """Types of a shape's inputs."""
    return [facts["dtype"]] if "dtype" in facts else ["float16", "bfloat16"]


def scenarios_of(arch):
    """One parameter for each scenario of each shape that a target serves."""
    served = shapes_of(arch)
    chosen = [s for s in EACH if s.tags[1] in served]
    return pytest.mark.parametrize("scenario", chosen, ids=lambda s: s.name)


def far_cases_of(arch):
    """One parameter for each call past 2^31 elements of each shape of a target."""
    prefixes = tuple(far(shape, "") for shape in shapes_of(arch))
    cases = [case for case in FAR if case.scenario.name.startswith(prefixes)]
    return pytest.mark.parametrize("case", cases, ids=lambda c: c.scenario.name)


def mutants_of(arch, *, overflow=False):
    """One parameter for each mutant of a target, with its row."""
    rows = [r for r in ROWS if (r.bug_class == "overflow") == overflow]
    chosen = [(r, m) for r in rows for m in r.mutants if m.arch == arch]
    return pytest.mark.parametrize(
        ("row", "mutant"), chosen, ids=[f"{r.issue} {m.shape}" for r, m in chosen]
    )


def mutated(row, mutant):
    """Our driver with the bug in the kernels."""
    name = f"{row.issue} {mutant.arch} {mutant.shape} {mutant.scenario}"
    return Sidestream(adapter_with(name, mutant.edits))


def require_clean(bench, scenario):
    outcome = run_case(bench, scenario)
    lines = [f"{f.kind}: {f.message}\n  {f.replay}" for f in outcome.findings]
    lines += [f"not judged: {entry.reason}" for entry in outcome.incomplete]
    assert outcome.case.verdict is Verdict.CLEAN, "\n".join(lines)


def require_caught(row, mutant):
    bench = Bench(settings=settings_of(mutant.arch), driver=mutated(row, mutant))
    scenario = catalogue.by_name(each(mutant.shape, mutant.scenario))
    outcome = run_case(bench, scenario)
    assert outcome.case.checks[mutant.check].status == "failed", outcome.case.checks
    assert outcome.case.verdict is Verdict.FINDINGS
    assert mutant.kinds & {finding.kind for finding in outcome.findings}


def require_right(arch, case):
    seen = run_far(case, driver=Sidestream(), device=activate(arch=arch))
    assert seen.reasons == ()
    assert seen.kinds == frozenset()


def require_wrapped(row, mutant):
    driver, device = mutated(row, mutant), activate(arch=mutant.arch)

    def seen(name):
        return run_far(by_name(far(mutant.shape, name)), driver=driver, device=device)

    assert mutant.kinds & seen(mutant.scenario).kinds
    if mutant.spared:
        assert seen(mutant.spared).kinds == frozenset()
