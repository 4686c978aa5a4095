"""Whole scenarios: a declaration, lengths, storage, and the world around the call."""

from __future__ import annotations

import hashlib
from typing import Any

from hypothesis import strategies as st

from sidestream.scenarios.core import CORE, CORE_TAG
from sidestream.scenarios.fill import SCRATCH, TAIL_BITS
from sidestream.scenarios.layout import LAYOUTS, OUT_LAYOUTS
from sidestream.scenarios.scenario import STREAMS, VALUES, Scenario
from sidestream.scenarios.strategies.config import declarations, heads
from sidestream.scenarios.strategies.lengths import length, sequences

_BASES = st.just(0) | st.integers(0, 2**30)
_TAILS = length(longest=150)


def _named(fields: dict[str, Any]) -> Scenario:
    """Name a scenario after its content, so that one content has one name."""
    content = repr(sorted(fields.items())).encode()
    digest = hashlib.sha256(content).hexdigest()[:10]
    lengths = list(zip(fields["lengths_q"], fields["lengths_kv"], strict=True))
    return Scenario(
        name=f"drawn-{digest}",
        description=f"Drawn: (queries, keys) {lengths}.",
        **fields,
    )


@st.composite
def _around(
    draw: st.DrawFn, declaration: dict[str, Any], *, max_batch: int, max_flops: int
) -> dict[str, Any]:
    """Draw everything a plan does not know, within what `declaration` allows."""
    per_pair = 4 * declaration["heads_q"] * declaration["head_dim"]
    longest = min(300, declaration.get("max_len_q") or 300)
    most = max(1, max_flops // per_pair)
    pairs = draw(sequences(max_batch=max_batch, longest=longest, max_pairs=most))
    fields: dict[str, Any] = {
        "lengths_q": tuple(q for q, _ in pairs),
        "lengths_kv": tuple(kv for _, kv in pairs),
    }
    for side in ("q", "kv"):
        if declaration[f"lengths_{side}_form"] == "prefix":
            fields[f"base_{side}"] = draw(_BASES)
    if declaration["lse"] == "head_major":
        fields["lse_slack"] = draw(st.integers(0, 20))
    if declaration.get("sinks"):
        fields["sink_value"] = draw(st.none() | st.sampled_from((-200.0, 0.0, 30.0)))
    if draw(st.booleans()):
        fields["tail_q"], fields["tail_kv"] = draw(_TAILS), draw(_TAILS)
        fields["tail_fill"] = draw(st.sampled_from(tuple(TAIL_BITS)))
    layouts = list(LAYOUTS)
    capacity_q = sum(fields["lengths_q"]) + fields.get("tail_q", 0)
    if capacity_q != sum(fields["lengths_kv"]) + fields.get("tail_kv", 0):
        layouts.remove("fused_qkv")
    fields["layout"] = draw(st.sampled_from(layouts))
    fields["out_layout"] = draw(st.sampled_from(OUT_LAYOUTS))
    fields["values"] = draw(st.sampled_from(VALUES))
    fields["scratch"] = draw(st.sampled_from(SCRATCH))
    fields["stream"] = draw(st.sampled_from(STREAMS))
    fields["seed"] = draw(st.integers(0, 2**32 - 1))
    return fields


@st.composite
def scenarios(
    draw: st.DrawFn,
    *,
    declared: st.SearchStrategy[dict[str, Any]] | None = None,
    max_batch: int = 8,
    max_flops: int = 10_000_000,
) -> Scenario:
    """Draw a scenario; `declared` draws the plan-time fields (default: all kinds).

    Work stays at or below `max_flops`, unless one query over its keys has more.
    """
    declaration = draw(declarations() if declared is None else declared)
    around = draw(_around(declaration, max_batch=max_batch, max_flops=max_flops))
    return _named({**declaration, **around, "tags": ("drawn",)})


@st.composite
def core_scenarios(
    draw: st.DrawFn, *, max_batch: int = 16, max_flops: int = 10_000_000
) -> Scenario:
    """Draw a scenario of the core declaration; heads and batch are free."""
    heads_q, heads_kv = draw(heads())
    declaration = {**CORE, "heads_q": heads_q, "heads_kv": heads_kv}
    around = draw(_around(declaration, max_batch=max_batch, max_flops=max_flops))
    return _named({**declaration, **around, "tags": (CORE_TAG, "drawn")})
