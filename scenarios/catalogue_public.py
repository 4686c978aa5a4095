"""Scenarios for public packages whose kernels serve more than ours do.

Head dims that differ or go past 128, E4M3 inputs, keys in parts and tiles taken by
cluster launch control. Each kernel meets sequences of no tokens between live ones,
lengths that are very unequal, grouped heads and none, with a mask and without.
"""

from __future__ import annotations

from typing import Any

from sidestream.scenarios.declaration import FLOAT8
from sidestream.scenarios.scenario import Scenario

PUBLIC_TAG = "public"

_UNEQUAL = (1, 257, 3, 0, 40, 129, 2, 64)
"""Eight lengths, from none to two tiles and a token."""

_SHAPES: dict[str, dict[str, Any]] = {
    "d64": {"head_dim": 64},
    "d128": {"head_dim": 128},
    "d192x128": {"head_dim": 192, "head_dim_v": 128},
    "d256": {"head_dim": 256},
    "d512": {"head_dim": 512},
    "d512-roles": {"head_dim": 512, "route": "role-split"},
    "fp8-d128": {"head_dim": 128, "dtype": FLOAT8},
}
_WHAT = {
    "d64": "head dim 64",
    "d128": "head dim 128",
    "d192x128": "head dims 192 and 128",
    "d256": "head dim 256",
    "d512": "head dim 512",
    "d512-roles": "head dim 512 with roles split between CTA pairs",
    "fp8-d128": "E4M3 inputs of head dim 128",
}


def _public(name: str, description: str, *tags: str, **facts: Any) -> Scenario:
    usual = {
        "lse": "token_major",
        "tail_fill": "huge",
        "lengths_q_form": "prefix",
        "lengths_kv_form": "prefix",
    }
    return Scenario(
        name=name,
        description=description,
        tags=(PUBLIC_TAG, *tags),
        **(usual | facts),
    )


def _family(shape: str) -> tuple[Scenario, ...]:
    """Return the scenarios that every kernel of a shape meets."""
    facts = _SHAPES[shape]
    scaled = {"descales": (0.75, 1.25, 0.5)} if shape.startswith("fp8") else {}
    return (
        _public(
            f"{shape}-grouped-causal",
            f"Grouped heads, causal, {_WHAT[shape]}; two sequences of no tokens.",
            shape,
            "empty",
            lengths_q=(130, 0, 37, 0, 150),
            lengths_kv=(130, 0, 37, 0, 150),
            heads_q=2,
            heads_kv=1,
            causal="bottom_right",
            tail_q=3,
            tail_kv=5,
            **facts,
            **scaled,
        ),
        _public(
            f"{shape}-crossed",
            f"As many key heads as query heads, no mask, {_WHAT[shape]}; queries "
            "without keys and keys without queries.",
            shape,
            "empty",
            "keyless",
            lengths_q=(20, 129, 0, 33),
            lengths_kv=(140, 0, 70, 257),
            heads_q=2,
            heads_kv=2,
            tail_kv=9,
            **facts,
            **scaled,
        ),
        _public(
            f"{shape}-unequal",
            f"Eight very unequal lengths, {_WHAT[shape]}.",
            shape,
            "skew",
            lengths_q=_UNEQUAL,
            lengths_kv=_UNEQUAL,
            heads_q=2,
            heads_kv=1,
            causal="bottom_right",
            lse="head_major",
            stream="side",
            **facts,
            **scaled,
        ),
    )


def _split(name: str, description: str, **facts: Any) -> Scenario:
    usual = {"heads_q": 2, "heads_kv": 1, "splits": 3}
    return _public(name, description, "splits", **(usual | facts))


def _clc(name: str, description: str, **facts: Any) -> Scenario:
    usual = {"heads_q": 4, "heads_kv": 2, "route": "clc", "causal": "bottom_right"}
    return _public(name, description, "clc", **(usual | facts))


PUBLIC: tuple[Scenario, ...] = (
    *(scenario for shape in _SHAPES for scenario in _family(shape)),
    _public(
        "e4m3-d128-plain",
        "E4M3 inputs without factors.",
        "fp8-d128",
        dtype=FLOAT8,
        head_dim=128,
        lengths_q=(70, 0, 130),
        lengths_kv=(70, 30, 130),
        causal="bottom_right",
    ),
    _public(
        "d192x128-half",
        "Head dims 192 and 128 in float16, MHA, causal.",
        "d192x128",
        dtype="float16",
        head_dim=192,
        head_dim_v=128,
        heads_q=2,
        heads_kv=2,
        lengths_q=(65, 0, 128),
        lengths_kv=(65, 7, 200),
        causal="bottom_right",
    ),
    _public(
        "d256-half-prefill",
        "Head dim 256 in float16 without a mask and over more than two row tiles.",
        "d256",
        dtype="float16",
        head_dim=256,
        heads_q=1,
        heads_kv=1,
        lengths_q=(300, 0, 5),
        lengths_kv=(200, 50, 129),
    ),
    _public(
        "d256-decode",
        "Head dim 256, one query a sequence.",
        "d256",
        "decode",
        head_dim=256,
        heads_q=4,
        heads_kv=1,
        lengths_q=(1, 1, 0, 1),
        lengths_kv=(200, 0, 3, 129),
        causal="bottom_right",
    ),
    _split(
        "splits-d128",
        "Keys in three parts at head dim 128; no part for the shorter sequences.",
        head_dim=128,
        lengths_q=(5, 0, 60, 1),
        lengths_kv=(600, 40, 130, 0),
        causal="bottom_right",
    ),
    _split(
        "splits-d64",
        "Keys in three parts at head dim 64, MHA and no mask.",
        head_dim=64,
        heads_kv=2,
        lengths_q=(33, 0, 9),
        lengths_kv=(390, 0, 129),
    ),
    _split(
        "splits-d128-unequal",
        "Keys in two parts over eight very unequal lengths.",
        head_dim=128,
        splits=2,
        lengths_q=(1, 3, 2, 0, 40, 129, 2, 64),
        lengths_kv=(1, 520, 30, 0, 40, 257, 2, 64),
        causal="bottom_right",
        lse="head_major",
    ),
    _clc(
        "clc-d128",
        "Tiles taken by cluster launch control at head dim 128.",
        head_dim=128,
        lengths_q=(130, 0, 37, 0, 200),
        lengths_kv=(130, 0, 37, 0, 200),
    ),
    _clc(
        "clc-d64-unequal",
        "Tiles taken by cluster launch control over eight very unequal lengths.",
        head_dim=64,
        lengths_q=_UNEQUAL,
        lengths_kv=_UNEQUAL,
    ),
    _clc(
        "clc-d128-full",
        "Tiles taken by cluster launch control without a mask.",
        head_dim=128,
        heads_q=2,
        heads_kv=1,
        causal="none",
        lengths_q=(20, 129, 0, 33),
        lengths_kv=(140, 0, 70, 257),
    ),
)
"""In the order they are run; most packages decline some of them."""

LARGEST_PUBLIC_FLOPS = 400_000_000
"""No scenario here has more work than this."""
