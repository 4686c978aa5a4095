"""Execute reads the device lengths on the host."""

from __future__ import annotations

from sidestream.scenarios.bugs.bug import Bug, Edit

HOST_READS_LENGTHS = Bug(
    name="host-reads-lengths",
    description="Execute sizes its grid from `lengths_q.tolist()`: it blocks on "
    "everything queued before, and cannot be captured in a graph.",
    issue="NVIDIA/cudnn-frontend#606",
    edits=(
        Edit(
            file="execute.py",
            old="        declared = spec.batch",
            new="        units = min(units, units + max(lengths_q.tolist()))\n"
            "        declared = spec.batch",
        ),
    ),
    scenario="two-short",
    check="host-sync",
    kinds=frozenset({"host-sync"}),
)
