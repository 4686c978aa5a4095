"""Public bugs that reach outside an allocation."""

from __future__ import annotations

from sidestream.scenarios.bugs.bug import Edit
from sidestream.scenarios.bugs.rows.row import Mutant, Row

_GUARD = "        if index < batch:\n            length_q"
_READS = """\
        if index < batch:
            length_q = declared_length(lengths_q, index, cap_q, config.prefix_q)
            length_kv = declared_length(lengths_kv, index, cap_kv, config.prefix_kv)
"""
_DEAD_READS = """\
        length_q = declared_length(lengths_q, index, cap_q, config.prefix_q)
        length_kv = declared_length(lengths_kv, index, cap_kv, config.prefix_kv)
        if index >= batch:
            length_q = Int32(0)
            length_kv = Int32(0)
"""
_ROW = "offset = (first_token + row) * token_stride"

OOB: tuple[Row, ...] = (
    Row(
        issue="Dao-AILab/flash-attention#2860",
        bug_class="oob",
        wrong="A tile of nobody reads the length behind the last sequence's.",
        scenarios=("over-provisioned",),
        mutants=tuple(
            Mutant(
                arch=arch,
                shape=shape,
                scenario="over-provisioned",
                edits=(
                    Edit(
                        file="common/worklist.py",
                        old=_GUARD,
                        new=_GUARD.replace("<", "<="),
                    ),
                ),
                check="bounds",
                kinds=frozenset({"out-of-bounds"}),
            )
            for arch, shape in (("sm_120a", "d64"), ("sm_100a", "d64"))
        ),
    ),
    Row(
        issue="NVIDIA/cudnn-frontend#1015",
        bug_class="oob",
        wrong="The map of a last sequence of one row keeps a flag of the long one "
        "before it.",
        scenarios=("last-one-row",),
        mutants=(
            Mutant(
                arch="sm_100a",
                shape="d128",
                scenario="last-one-row",
                edits=(
                    *(
                        Edit(
                            file="common/launch.py",
                            old=f"inputs.{operand}, tokens_kv,",
                            new=f"inputs.{operand}, Int32(1),",
                        )
                        for operand in ("k", "v")
                    ),
                ),
                check="parity",
                kinds=frozenset({"parity", "nan"}),
            ),
        ),
        counterpart="Our maps are made once a call and never edited, so there is no "
        "flag to be left behind; here the extent is that of the last sequence.",
    ),
    Row(
        issue="vllm-project/vllm#56862",
        bug_class="oob",
        wrong="Lanes behind the end load a table past its row, for values that nobody "
        "uses.",
        scenarios=("over-provisioned",),
        mutants=(
            Mutant(
                arch="sm_120a",
                shape="d128",
                scenario="over-provisioned",
                edits=(Edit(file="common/worklist.py", old=_READS, new=_DEAD_READS),),
                check="bounds",
                kinds=frozenset({"out-of-bounds"}),
            ),
        ),
        counterpart="Our kernels have no block table; the tables that lanes index are "
        "the lengths.",
    ),
    Row(
        issue="Dao-AILab/flash-attention#2755",
        bug_class="oob",
        wrong="Results are scattered to row -1.",
        scenarios=("guarded", "over-provisioned"),
        mutants=tuple(
            Mutant(
                arch=arch,
                shape=shape,
                scenario="guarded",
                edits=(
                    Edit(
                        file="common/rows.py",
                        old=_ROW,
                        new=_ROW.replace("row)", "row - 1)"),
                    ),
                ),
                check="bounds",
                kinds=frozenset({"out-of-bounds"}),
            )
            for arch, shape in (("sm_120a", "d64"), ("sm_100a", "d512"))
        ),
        counterpart="Our kernels take no list of indices; here every row goes one "
        "place too early.",
    ),
)
