"""Execute prepares metadata on torch's current stream."""

from __future__ import annotations

from sidestream.scenarios.bugs.bug import Bug, Edit

PREPARED_ON_CURRENT_STREAM = Bug(
    name="prepared-on-current-stream",
    description="Execute derives the lengths that its kernels read with an operator of "
    "torch, which goes to the current stream: nothing orders it before the launch.",
    issue="NVIDIA/cudnn-frontend#543",
    edits=(
        Edit(
            file="execute.py",
            old="        declared = spec.batch",
            new="        lengths_q = lengths_q + 0\n        declared = spec.batch",
        ),
    ),
    scenario="side-stream",
    check="host-sync",
    kinds=frozenset({"hidden-launch"}),
)
