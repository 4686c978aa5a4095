"""The compile key holds the packed total, so every serving step compiles again."""

from __future__ import annotations

from sidestream.scenarios.bugs.bug import Bug, Edit

KEY_HOLDS_TOTALS = Bug(
    name="key-holds-totals",
    description="Execute fetches code by a key with the packed token count in it: a "
    "continuous batcher compiles at every step.",
    issue="NVIDIA/cudnn-frontend#552",
    edits=(
        Edit(
            file="plan.py",
            old="    config: KernelConfig\n    arch: str\n",
            new="    config: KernelConfig\n    arch: str\n    tokens: int = 0\n",
        ),
        Edit(
            file="execute.py",
            old="        self.function(\n",
            new="        from sidestream.kernels.plan import CACHE, CompileKey\n"
            "        keyed = CompileKey(\n"
            "            config=self.config, arch=spec.arch, tokens=view_q.tokens\n"
            "        )\n"
            "        CACHE.get(keyed)(\n",
        ),
    ),
    scenario="totals-a",
    check="cache",
    kinds=frozenset({"cache-miss"}),
)
