"""A word of scratch is assumed to be zero when the call begins."""

from __future__ import annotations

from sidestream.scenarios.bugs.bug import Bug, Edit

SCRATCH_ASSUMED_ZERO = Bug(
    name="scratch-assumed-zero",
    description="The claim counter is never cleared: the first call on zeroed scratch "
    "works, the next one on the same workspace skips its units.",
    issue="flashinfer-ai/flashinfer#1584",
    edits=(
        Edit(
            file="common/worklist.py",
            old="        counter = cute.make_tensor(workspace, cute.make_layout(1))\n"
            "        counter[0] = Int32(0)\n",
            new="",
        ),
    ),
    scenario="scratch-zeros",
    check="scratch",
    kinds=frozenset({"uninit-read"}),
)
