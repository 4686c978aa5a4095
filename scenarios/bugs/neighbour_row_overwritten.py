"""The last tile of a sequence stores one row too many."""

from __future__ import annotations

from sidestream.scenarios.bugs.bug import Bug, Edit

NEIGHBOUR_ROW_OVERWRITTEN = Bug(
    name="neighbour-row-overwritten",
    description="The row bound of the output store is off by one: the first row of "
    "the next sequence is overwritten, if its own tile was faster.",
    issue="NVIDIA/cudnn-frontend#1015",
    edits=(
        Edit(
            file="sm120/epilogue.py",
            old="cutlass.min(live_rows, Int32(config.rows_per_warp))",
            new="cutlass.min(live_rows + 1, Int32(config.rows_per_warp))",
        ),
    ),
    scenario="output-guarded",
    check="bounds",
    kinds=frozenset({"stray-write"}),
)
