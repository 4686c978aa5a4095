"""The forward kernel runs before the kernel that builds its work list."""

from __future__ import annotations

from sidestream.scenarios.bugs.bug import Bug, Edit

_BUILD = """\
    build_worklist(
        config,
        lengths_q,
        lengths_kv,
        problem.workspace,
        problem.batch,
        problem.unit_rows,
        problem.unit_heads,
        tokens_q,
        tokens_kv,
        problem.factors.amax,
    ).launch(grid=(1, 1, 1), block=(PREP_THREADS, 1, 1), stream=stream)
"""
_FORWARD = """\
        preferred_smem_carveout=100,
    )
"""

WORKLIST_READ_EARLY = Bug(
    name="worklist-read-early",
    description="The two launches change places: the forward kernel reads a work list "
    "that is not written yet, and finds whatever the last call left in scratch.",
    issue="NVIDIA/cudnn-frontend#543",
    edits=(
        Edit(file="common/launch.py", old=_BUILD, new=""),
        Edit(file="common/launch.py", old=_FORWARD, new=_FORWARD + _BUILD),
    ),
    scenario="scratch-zeros",
    check="scratch",
    kinds=frozenset({"uninit-read"}),
)
