"""The one declaration that most scenarios share.

A serving engine plans once and then runs with lengths that change at every step. The
scenarios made here and the steps of a trace differ in lengths, heads, batch, strides,
bases, streams, scratch and values, none of which a compile key may hold, so all of
them together need a single compilation.
"""

from __future__ import annotations

from typing import Any

from sidestream.scenarios.scenario import Scenario

CORE_TAG = "core"

CORE: dict[str, Any] = {
    "dtype": "bfloat16",
    "head_dim": 64,
    "causal": "bottom_right",
    "lse": "token_major",
    "lengths_q_form": "prefix",
    "lengths_kv_form": "prefix",
    "max_len_q": 512,
    "max_len_kv": 512,
}
"""Plan-time facts of the core declaration; windows, sinks and scale stay unset."""


def core(**facts: Any) -> Scenario:
    """Return a scenario with the core declaration and `facts`, tagged `core`.

    Raises:
        ContractError: as `Scenario`.
        TypeError: `facts` names a field that the core declaration fixes.
    """
    tags = (CORE_TAG, *facts.pop("tags", ()))
    return Scenario(tags=tags, **CORE, **facts)
