"""The launches go to the default stream, whatever handle the caller gave."""

from __future__ import annotations

from sidestream.scenarios.bugs.bug import Bug, Edit

LAUNCHED_ON_DEFAULT_STREAM = Bug(
    name="launched-on-default-stream",
    description="Execute ignores its stream: nothing orders the kernels after the "
    "work that produced their inputs.",
    issue="NVIDIA/cudnn-frontend#483",
    edits=(
        Edit(file="execute.py", old="cuda.CUstream(stream)", new="cuda.CUstream(0)"),
    ),
    scenario="side-stream",
    check="stream",
    kinds=frozenset({"stream-race"}),
)
