"""Execute fills the output that its kernel then overwrites."""

from __future__ import annotations

from sidestream.scenarios.bugs.bug import Bug, Edit

OUTPUT_FILLED_FIRST = Bug(
    name="output-filled-first",
    description="Execute clears the output before its kernel writes every live row: a "
    "dead fill at the bandwidth of the memory, over rows that belong to nobody too.",
    issue="NVIDIA/cudnn-frontend#429",
    edits=(
        Edit(
            file="execute.py",
            old="        declared = spec.batch",
            new="        out.zero_()\n        declared = spec.batch",
        ),
    ),
    scenario="two-short",
    check="host-sync",
    kinds=frozenset({"hidden-launch"}),
)
