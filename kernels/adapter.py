"""Sidestream's own kernels behind the adapter protocol.

compiled = plan(AttentionSpec(...)).compile()
compiled.execute(q, k, v, out, lse, lengths_q, lengths_kv, workspace, stream)
"""

from __future__ import annotations

from sidestream.kernels.errors import ContractError, PlanError
from sidestream.kernels.execute import Compiled
from sidestream.kernels.plan import CompileKey, Plan, cache_info, plan
from sidestream.kernels.protocol import CacheInfo
from sidestream.kernels.spec import AttentionSpec, validate_lengths

__all__ = [
    "AttentionSpec",
    "CacheInfo",
    "CompileKey",
    "Compiled",
    "ContractError",
    "Plan",
    "PlanError",
    "cache_info",
    "plan",
    "validate_lengths",
]
