"""A call in a capture takes the lengths of the call before it."""

from __future__ import annotations

from sidestream.scenarios.bugs.bug import Bug, Edit

LENGTHS_BAKED_AT_CAPTURE = Bug(
    name="lengths-baked-at-capture",
    description="Execute keeps the lengths of its last plain call and captures those: "
    "every replay serves the lengths of the capture.",
    issue="vllm-project/flash-attention#162",
    edits=(
        Edit(
            file="execute.py",
            old="        declared = spec.batch",
            new="        import torch\n"
            "        if torch.cuda.is_current_stream_capturing():\n"
            "            lengths_q, lengths_kv = KEPT[-1]\n"
            "        else:\n"
            "            KEPT.append((lengths_q.clone(), lengths_kv.clone()))\n"
            "        declared = spec.batch",
        ),
        Edit(
            file="execute.py",
            old="MAX_UNITS = ",
            new="KEPT: list = []\nMAX_UNITS = ",
        ),
    ),
    scenario="two-short",
    check="capture",
    kinds=frozenset({"capture"}),
)
