"""The log-sum-exp of the heads comes in reverse order."""

from __future__ import annotations

from sidestream.scenarios.bugs.bug import Bug, Edit

LSE_HEADS_SWAPPED = Bug(
    name="lse-heads-swapped",
    description="Token-major LSE is stored at the mirrored head: O is right, and every "
    "consumer of the statistics (backward, merging of splits) is wrong.",
    issue="NVIDIA/cudnn-frontend#1083",
    edits=(
        Edit(
            file="common/normalise.py",
            old="offset = token * problem.heads_q + head\n",
            new="offset = (token + 1) * problem.heads_q - 1 - head\n",
        ),
    ),
    scenario="two-short",
    check="parity",
    kinds=frozenset({"parity"}),
)
