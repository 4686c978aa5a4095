"""Public bugs of offsets that do not fit 32 bits."""

from __future__ import annotations

from sidestream.scenarios.bugs.bug import Edit
from sidestream.scenarios.bugs.rows.row import Mutant, Row

_OUT = "offset = (first_token + row) * token_stride"
_OUT_WRAPPED = "offset = Int64(Int32((first_token + row) * token_stride))"


def _out(arch: str, shape: str, scenario: str, spared: str = "") -> Mutant:
    """O is stored at an offset that was multiplied in 32 bits."""
    return Mutant(
        arch=arch,
        shape=shape,
        scenario=scenario,
        edits=(Edit(file="common/rows.py", old=_OUT, new=_OUT_WRAPPED),),
        check="parity",
        kinds=frozenset({"parity", "out-of-bounds"}),
        spared=spared,
    )


def _lse(arch: str, shape: str, scenario: str, offset: str) -> Mutant:
    """LSE is stored at an offset that was multiplied in 32 bits."""
    return Mutant(
        arch=arch,
        shape=shape,
        scenario=scenario,
        edits=(
            Edit(
                file="common/normalise.py",
                old=f"        offset = {offset}\n",
                new=f"        offset = Int64(Int32({offset}))\n",
            ),
        ),
        check="parity",
        kinds=frozenset({"parity", "out-of-bounds"}),
    )


OVERFLOW: tuple[Row, ...] = (
    Row(
        issue="NVIDIA/cudnn-frontend#odesc-int32",
        bug_class="overflow",
        wrong="The place of a sequence in O is its first token times the stride, in "
        "32 bits.",
        scenarios=("late", "strides"),
        mutants=(
            _out("sm_120a", "d64", "late"),
            _out("sm_100a", "d512", "late"),
            _out("sm_100a", "d192x128", "strides"),
        ),
    ),
    Row(
        issue="sgl-project/sglang#20389",
        bug_class="overflow",
        wrong="A token of Q, K or V is found by a product in 32 bits.",
        scenarios=("strides", "late"),
        mutants=tuple(
            Mutant(
                arch=arch,
                shape=shape,
                scenario="strides",
                edits=(
                    Edit(
                        file="common/tokens.py",
                        old="cute.assume(token_stride, ",
                        new="cute.assume(Int64(Int32(token_stride)), ",
                    ),
                ),
                check="parity",
                kinds=frozenset({"parity"}),
            )
            for arch, shape in (("sm_120a", "d128"), ("sm_100a", "d64"))
        ),
        counterpart="Our kernels leave the product to the copy engine; here the "
        "stride that it is given is cut to 32 bits.",
    ),
    Row(
        issue="fla-org/flash-linear-attention#1080",
        bug_class="overflow",
        wrong="Offsets wrap past 2^31 elements, to finite values that are wrong.",
        scenarios=("below-edge", "past-edge"),
        mutants=(
            _out("sm_120a", "d128", "past-edge", spared="below-edge"),
            _out("sm_100a", "d256", "past-edge", spared="below-edge"),
        ),
    ),
    Row(
        issue="Knowledgator/FlashDeBERTa#11",
        bug_class="overflow",
        wrong="A position in the packed batch times the number of heads takes 32 bits.",
        scenarios=("late", "heads"),
        mutants=(
            _lse("sm_120a", "d64", "late", "token * problem.heads_q + head"),
            _lse("sm_100a", "d128", "late", "token * problem.heads_q + head"),
            _lse("sm_100a", "d64", "heads", "head * problem.lse_head_stride + token"),
        ),
    ),
    Row(
        issue="capacity near the limit",
        bug_class="overflow",
        wrong="The size of the largest buffer is reckoned in 32 bits.",
        scenarios=("capacity", "late"),
        mutants=(
            Mutant(
                arch="sm_120a",
                shape="d128",
                scenario="capacity",
                edits=(
                    Edit(
                        file="common/worklist.py",
                        old="cutlass.min(cutlass.max(length, Int32(0)), cap)",
                        new="cutlass.min(cutlass.max(length, Int32(0)), "
                        "(cap << 3) >> 3)",
                    ),
                ),
                check="parity",
                kinds=frozenset({"parity"}),
            ),
        ),
        counterpart="Not of one report: the class.",
    ),
)
"""Scenarios of these rows are those of `scenarios/far.py`."""
