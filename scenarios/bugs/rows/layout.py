"""Public bugs of how operands and results lie in memory."""

from __future__ import annotations

from sidestream.scenarios.bugs.bug import Edit
from sidestream.scenarios.bugs.rows.row import Mutant, Row

_START = "q_start = starts_q[sequence]\n"

LAYOUT: tuple[Row, ...] = (
    Row(
        issue="NVIDIA/cudnn-frontend#613",
        bug_class="layout",
        wrong="The capacity is taken for elements over stride: half of the truth for "
        "K and V in one record.",
        scenarios=("kv-record",),
        mutants=tuple(
            Mutant(
                arch=arch,
                shape=shape,
                scenario="kv-record",
                edits=(
                    Edit(
                        file="execute.py",
                        old="            Int32(view_k.tokens),\n",
                        new="            Int32(math.prod(k.shape) // k.stride()[0]),\n",
                    ),
                ),
                check="parity",
                kinds=frozenset({"parity"}),
            )
            for arch, shape in (("sm_120a", "d64"), ("sm_100a", "d192x128"))
        ),
    ),
    Row(
        issue="Dao-AILab/flash-attention#2553",
        bug_class="layout",
        wrong="The epilogue stores accumulators as another instruction lays them out: "
        "values change places, and the norm stays.",
        scenarios=("guarded", "identical"),
        mutants=(
            Mutant(
                arch="sm_120a",
                shape="d64",
                scenario="guarded",
                edits=(
                    Edit(
                        file="sm120/epilogue.py",
                        old="word[0] = packed[2 * d + half]",
                        new="word[0] = packed[2 * d + (1 - half)]",
                    ),
                ),
                check="parity",
                kinds=frozenset({"parity", "nan"}),
            ),
            Mutant(
                arch="sm_100a",
                shape="d128",
                scenario="guarded",
                edits=(
                    Edit(
                        file="sm100/staging.py",
                        old="packed.iterator + 4 * piece,",
                        new="packed.iterator + 4 * (piece ^ 1),",
                    ),
                ),
                check="parity",
                kinds=frozenset({"parity", "nan"}),
            ),
        ),
    ),
    Row(
        issue="NVIDIA/cudnn-frontend#587",
        bug_class="layout",
        wrong="Prefix sums are read as lengths.",
        scenarios=("over-provisioned", "identical"),
        mutants=(
            Mutant(
                arch="sm_120a",
                shape="d64",
                scenario="over-provisioned",
                edits=(
                    Edit(
                        file="common/worklist.py",
                        old="    if cutlass.const_expr(prefix):\n",
                        new="    if cutlass.const_expr(False):\n",
                    ),
                ),
                check="parity",
                kinds=frozenset({"parity", "nan"}),
            ),
            Mutant(
                arch="sm_100a",
                shape="e4m3",
                scenario="over-provisioned",
                edits=(
                    Edit(
                        file="common/worklist.py",
                        old="    if cutlass.const_expr(prefix):\n",
                        new="    if cutlass.const_expr(False):\n",
                    ),
                ),
                check="parity",
                kinds=frozenset({"parity", "nan"}),
            ),
        ),
    ),
    Row(
        issue="Dao-AILab/flash-attention#2670",
        bug_class="layout",
        wrong="Strides are those of a dense tensor, whatever the tensor's are.",
        scenarios=("fused", "kv-record"),
        mutants=(
            Mutant(
                arch="sm_100a",
                shape="d256",
                scenario="fused",
                edits=(
                    Edit(
                        file="execute.py",
                        old="        problem = Problem(\n",
                        new="        dense = Int64(spec.heads_q * spec.head_dim)\n"
                        "        q_at = q_at._replace(token_stride=dense)\n"
                        "        problem = Problem(\n",
                    ),
                ),
                check="parity",
                kinds=frozenset({"parity", "nan"}),
            ),
        ),
    ),
    Row(
        issue="flashinfer-ai/flashinfer#4382",
        bug_class="layout",
        wrong="A sequence of several queries is found at the offset of another: right "
        "up to four queries each.",
        scenarios=("identical",),
        mutants=tuple(
            Mutant(
                arch=arch,
                shape=shape,
                scenario="identical",
                edits=(
                    Edit(
                        file="common/unit.py",
                        old="from cutlass import Int32, cute\n",
                        new="import cutlass\nfrom cutlass import Int32, cute\n",
                    ),
                    Edit(
                        file="common/unit.py",
                        old=_START,
                        new="q_start = cutlass.min(starts_q[sequence], 4 * sequence)\n",
                    ),
                ),
                check="parity",
                kinds=frozenset({"parity", "unwritten", "nan"}),
            )
            for arch, shape in (("sm_120a", "d128"), ("sm_100a", "d512"))
        ),
    ),
    Row(
        issue="bottom-right per sequence",
        bug_class="layout",
        wrong="The diagonal of bottom-right masks is shifted by the lengths of the "
        "whole call, not of the sequence.",
        scenarios=("more-queries", "unbounded-left"),
        mutants=tuple(
            Mutant(
                arch=arch,
                shape=shape,
                scenario="more-queries",
                edits=(
                    Edit(
                        file="common/bounds.py",
                        old="        shift = len_kv - len_q\n",
                        new="        shift = Int32(-130)\n",
                    ),
                ),
                check="parity",
                kinds=frozenset({"parity", "nan"}),
            )
            for arch, shape in (("sm_120a", "d64"), ("sm_100a", "d64"))
        ),
        counterpart="Not of one report: the class. The shift is that of the first "
        "sequence for all of them.",
    ),
)
