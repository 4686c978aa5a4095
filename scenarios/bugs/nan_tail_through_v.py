"""Value rows past the end of a sequence are multiplied by weights of zero."""

from __future__ import annotations

from sidestream.scenarios.bugs.bug import Bug, Edit

NAN_TAIL_THROUGH_V = Bug(
    name="nan-tail-through-v",
    description="Scores past the last key are masked, but the values are not cleared: "
    "NaN in the capacity tail reaches O as 0 * NaN.",
    issue="NVIDIA/cudnn-frontend#842",
    edits=(
        Edit(
            file="sm120/values.py",
            old="if cutlass.const_expr(clip):",
            new="if cutlass.const_expr(False):",
        ),
    ),
    scenario="nan-tail",
    check="parity",
    kinds=frozenset({"nan"}),
)
