"""Classic bugs of varlen kernels put into ours: every one is found, where it is."""

import pytest
from mutant_kernels import mutant

from sidestream.harness.drivers.ours import Sidestream
from sidestream.harness.finding import Verdict
from sidestream.harness.run.case import Bench, run_case
from sidestream.harness.run.settings import Settings
from sidestream.scenarios import catalogue

WORKLIST = """    build_worklist(
        config, lengths_q, lengths_kv, workspace, batch, heads_q, tokens_q, tokens_kv
    ).launch(grid=(1, 1, 1), block=(PREP_THREADS, 1, 1), stream=stream)
"""
FORWARD_LAUNCH = (
    "    ).launch(grid=(ctas, 1, 1), block=(config.threads, 1, 1), stream=stream)\n"
)
BY_TOTAL = """
_BY_TOTAL: dict[object, Any] = {}


def _function(compiled: Any, tokens: int) -> Any:
    key = (compiled.config, tokens)
    if key not in _BY_TOTAL:
        _BY_TOTAL[key] = compile_forward(compiled.config, compiled.spec.arch)
    return _BY_TOTAL[key]


CACHE = CompileCache()
"""


def run(folder, edits, name):
    driver = Sidestream(mutant(folder, *edits))
    # Garbage in the claim counter can keep a kernel busy for long.
    bench = Bench(settings=Settings(budget=10_000_000), driver=driver)
    return run_case(bench, catalogue.by_name(name))


def told(outcome):
    return [(f.kind, f.message[:160]) for f in outcome.findings]


def test_the_copy_without_an_edit_is_clean(tmp_path):
    outcome = run(tmp_path, (), "side-stream")
    assert told(outcome) == []
    assert outcome.incomplete == ()
    assert outcome.case.verdict is Verdict.CLEAN


MUTANTS = {
    "compile key with the packed total": (
        [
            (
                "plan.py",
                "        self.function(\n",
                "        _function(self, view_q.tokens)(\n",
            ),
            ("plan.py", "\nCACHE = CompileCache()\n", BY_TOTAL),
        ],
        "totals-a",
        ("cache-miss", "cache", ""),
    ),
    "lengths listed on the host": (
        [
            (
                "plan.py",
                "        spec = self.spec\n        view_q",
                "        spec = self.spec\n        lengths_q.tolist()\n        view_q",
            )
        ],
        "totals-a",
        ("host-sync", "host-sync", "plan.py"),
    ),
    "work list read before it is written": (
        [
            ("sm120/launch.py", WORKLIST, ""),
            ("sm120/launch.py", FORWARD_LAUNCH, FORWARD_LAUNCH + WORKLIST),
        ],
        "totals-a",
        ("uninit-read", "scratch", "loader.py"),
    ),
    "scratch word assumed zero": (
        [("sm120/worklist.py", "        counter[0] = Int32(0)\n", "")],
        "scratch-random",
        ("uninit-read", "scratch", ""),
    ),
    "row of a neighbour overwritten": (
        [
            (
                "sm120/epilogue.py",
                "row < cutlass.min(live_rows, Int32(ROWS_PER_WARP))",
                "row < Int32(ROWS_PER_WARP)",
            )
        ],
        "output-guarded",
        ("stray-write", "bounds", ""),
    ),
    "heads of LSE swapped": (
        [
            (
                "sm120/epilogue.py",
                "offset = token * heads + head",
                "offset = token * heads + (heads - 1 - head)",
            )
        ],
        "gqa",
        ("parity", "parity", ""),
    ),
    "bottom right anchored at the declared lengths": (
        [
            (
                "sm120/bounds.py",
                "shift = len_kv - len_q",
                "shift = Int32(512) - Int32(512)",
            )
        ],
        "causal-bottom-right",
        ("parity", "parity", ""),
    ),
    "NaN tail read through V": (
        [
            (
                "sm120/mainloop.py",
                "if cutlass.const_expr(clip):",
                "if cutlass.const_expr(False):",
            )
        ],
        "nan-tail",
        ("nan", "parity", ""),
    ),
    "launched on the default stream": (
        [("plan.py", "cuda.CUstream(stream)", "cuda.CUstream(0)")],
        "side-stream",
        ("stream-race", "stream", ""),
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_kernel_is_found(tmp_path, name):
    edits, scenario, (kind, check, source) = MUTANTS[name]
    outcome = run(tmp_path, edits, scenario)
    assert outcome.case.verdict is Verdict.FINDINGS, outcome.incomplete
    assert kind in {f.kind for f in outcome.findings}, told(outcome)
    assert outcome.case.checks[check].status == "failed"
    if source:
        places = [
            site.source or ""
            for finding in outcome.findings
            if finding.kind == kind
            for site in finding.sites
        ]
        assert any(source in place for place in places), places
