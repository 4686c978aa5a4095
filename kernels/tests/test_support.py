"""The support matrix: asked of the plans, and the same wherever it is printed."""

from pathlib import Path

import pytest

from sidestream.kernels import spec as spec_module
from sidestream.kernels import support
from sidestream.kernels.errors import PlanError
from sidestream.kernels.plan import plan
from sidestream.kernels.spec import AttentionSpec

ROOT = Path(__file__).parents[2]


def cell(arch, dims, feature):
    (row,) = (r for r in support.matrix() if (r.arch, r.head_dims) == (arch, dims))
    return row.served[feature]


def test_the_readme_holds_the_table_of_the_plans():
    text = (ROOT / "README.md").read_text()
    assert "\n".join(support.table()) in text


def test_what_a_plan_refuses_is_not_served(monkeypatch):
    assert cell("sm_100a", (512, 512), "sinks")
    limits = spec_module.LARGEST_HEAD_DIM | {"sm_100a": 256}
    monkeypatch.setattr(spec_module, "LARGEST_HEAD_DIM", limits)
    assert not cell("sm_100a", (512, 512), "sinks")
    assert cell("sm_100a", (256, 256), "sinks")


@pytest.mark.parametrize(
    "row", support.matrix(), ids=lambda r: f"{r.arch}-{r.head_dims}"
)
def test_a_cell_says_what_plan_says(row):
    """By the plan itself, declaration by declaration."""
    for feature, asked in support.FEATURES.items():
        answers = set()
        for changes in asked:
            facts = {"dtype": "bfloat16", "heads_q": 2, "heads_kv": 1} | changes
            spec = AttentionSpec(
                batch=2,
                head_dim=row.head_dims[0],
                head_dim_v=row.head_dims[1],
                max_len_q=300,
                max_len_kv=300,
                arch=row.arch,
                **facts,
            )
            try:
                plan(spec)
                answers.add(True)
            except PlanError:
                answers.add(False)
        assert row.served[feature] == (answers == {True})
