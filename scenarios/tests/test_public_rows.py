"""Public bugs of numbers, layout, bounds and overflow: every row has its scenarios.

Every shape of our SM120 kernel is clean in all of them, and with the bug put in it is
not. test_sm100_public_rows.py has the same of our SM100 kernel.
"""

from pathlib import Path

import pytest
from public_rows import (
    dims_of,
    far_cases_of,
    mutants_of,
    require_caught,
    require_clean,
    require_right,
    require_wrapped,
    scenarios_of,
    settings_of,
    shapes_of,
    types_of,
)

from sidestream.harness.run.bench import Bench
from sidestream.kernels.support import matrix
from sidestream.scenarios.bugs.rows import CLASSES, ROWS
from sidestream.scenarios.bugs.rows.table import table
from sidestream.scenarios.catalogue_each import EACH, SHAPES, each
from sidestream.scenarios.declaration import ONE_BYTE
from sidestream.scenarios.far import FAR, by_name, far, places

ARCH = "sm_120a"
DOCUMENT = Path(__file__).parents[2] / "docs" / "kernel-bugs.md"
PUBLISHED = {
    "numerics-edge": {
        "NVIDIA/cudnn-frontend#624",
        "NVIDIA/cudnn-frontend#842",
        "NVIDIA/cudnn-frontend#1083",
        "NVIDIA/cudnn-frontend#1095",
        "NVIDIA/cudnn-frontend#1156",
        "NVIDIA/TransformerEngine#3528",
        "Dao-AILab/flash-attention#2402b",
    },
    "layout": {
        "NVIDIA/cudnn-frontend#587",
        "NVIDIA/cudnn-frontend#613",
        "Dao-AILab/flash-attention#2553",
        "Dao-AILab/flash-attention#2670",
        "flashinfer-ai/flashinfer#4382",
    },
    "oob": {
        "Dao-AILab/flash-attention#2755",
        "Dao-AILab/flash-attention#2860",
        "NVIDIA/cudnn-frontend#1015",
        "vllm-project/vllm#56862",
    },
    "overflow": {
        "Knowledgator/FlashDeBERTa#11",
        "NVIDIA/cudnn-frontend#odesc-int32",
        "fla-org/flash-linear-attention#1080",
        "sgl-project/sglang#20389",
    },
}
"""Every public report of these classes that this project has looked at."""


def reach(shape, name, operand):
    return places(by_name(far(shape, name)))[operand].reach


@pytest.fixture(scope="module")
def bench():
    return Bench(settings=settings_of(ARCH))


@scenarios_of(ARCH)
def test_every_shape_is_clean(bench, scenario):
    require_clean(bench, scenario)


@mutants_of(ARCH)
def test_a_public_bug_in_our_kernel_is_caught(row, mutant):
    require_caught(row, mutant)


@far_cases_of(ARCH)
def test_rows_past_2_31_elements_are_right(case):
    require_right(ARCH, case)


@mutants_of(ARCH, overflow=True)
def test_an_offset_of_32_bits_is_caught(row, mutant):
    require_wrapped(row, mutant)


@pytest.mark.parametrize("bug_class", CLASSES)
def test_every_published_row_is_covered(bug_class):
    rows = [row.issue for row in ROWS if row.bug_class == bug_class]
    assert len(set(rows)) == len(rows)
    assert PUBLISHED[bug_class] <= set(rows)
    # What is not a report is a class of bugs, and says so.
    classes = [r for r in ROWS if r.bug_class == bug_class and "#" not in r.issue]
    assert all("Not of one report" in row.counterpart for row in classes)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.issue)
def test_scenarios_of_a_row_exist_at_every_shape(row):
    names = {scenario.name for scenario in EACH}
    spell = each
    if row.bug_class == "overflow":
        names, spell = {case.scenario.name for case in FAR}, far
    assert row.scenarios
    assert row.mutants
    assert {spell(shape, name) for shape in SHAPES for name in row.scenarios} <= names
    used = {m.scenario for m in row.mutants} | {m.spared for m in row.mutants}
    assert used - {""} <= set(row.scenarios)


def test_every_scenario_is_that_of_some_row():
    named = {name for row in ROWS for name in row.scenarios}
    there = [s.name for s in EACH] + [case.scenario.name for case in FAR]
    assert named == {name.split("-", 2)[2] for name in there}


def test_operands_reach_past_2_31_elements():
    """By strides, by heads and by tokens; and just not, one stride less."""
    for shape in SHAPES:
        for name in ("strides", "past-edge", "heads", "late"):
            assert reach(shape, name, "out") >= 2**31
        assert reach(shape, "below-edge", "out") < 2**31
        assert reach(shape, "late", "lse") >= 2**31
        assert reach(shape, "heads", "lse") >= 2**31


def test_every_shape_of_the_matrix_is_looked_at():
    """One-byte inputs too: every pair of head dims in one type, every type at some."""
    for arch in ("sm_120a", "sm_100a"):
        looked = [(dims_of(SHAPES[s]), types_of(SHAPES[s])) for s in shapes_of(arch)]
        for wanted in ({"float16", "bfloat16"}, set(ONE_BYTE)):
            served = {
                (row.head_dims, name)
                for row in matrix()
                for name in wanted
                if row.arch == arch and row.served[name]
            }
            there = {(d, t) for d, types in looked for t in types if t in wanted}
            assert there <= served
            assert {dims for dims, _ in there} == {dims for dims, _ in served}
            assert {name for _, name in there} == {name for _, name in served}


def test_the_table_is_that_of_the_document():
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("|")] == table()
