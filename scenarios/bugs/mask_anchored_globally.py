"""A bottom-right mask is anchored at the declared lengths, not at the sequence's."""

from __future__ import annotations

from sidestream.scenarios.bugs.bug import Bug, Edit

MASK_ANCHORED_GLOBALLY = Bug(
    name="mask-anchored-globally",
    description="The diagonal of bottom-right causal masks is shifted by the declared "
    "maximum lengths: right for the longest sequence only.",
    issue="",
    edits=(
        Edit(
            file="plan.py",
            old='"anchor": spec.diagonal if has_left or has_right else "top_left"',
            new='"anchor": "top_left"',
        ),
        Edit(
            file="execute.py",
            old="            right=Int32(min(spec.right or 0, MAX_TOKENS)),\n",
            new="            right=Int32(\n"
            "                (spec.right or 0)\n"
            "                + (spec.max_len_kv - spec.max_len_q)\n"
            '                * (spec.diagonal == "bottom_right")\n'
            "            ),\n",
        ),
    ),
    scenario="causal-bottom-right",
    check="parity",
    kinds=frozenset({"parity"}),
)
