"""Scenarios of head dims from 128 on: what every kernel must serve, at each of them.

A shape has one declaration for most of its scenarios, so that they share a compilation,
and some that declare what that one leaves out. Where values have a head dim of their
own, operands that share a record keep theirs apart.
"""

from __future__ import annotations

from typing import Any

from sidestream.scenarios.scenario import Scenario

WIDE_TAG = "wide"
WIDE_CORE_TAG = "wide-core"
"""The few of each shape that are enough for a quick look."""

SHAPES: dict[str, dict[str, Any]] = {
    "d192x128": {"head_dim": 192, "head_dim_v": 128},
    "d256": {"head_dim": 256},
    "d512": {"head_dim": 512},
}
"""The head dims past 128."""
EVERY_CHOICE: dict[str, dict[str, Any]] = {"d128": {"head_dim": 128}} | SHAPES
"""Head dims of which each meets every choice of the interface here. Those of 64 do in
the other files of the catalogue, which also have more of 128."""

PACKED: dict[str, Any] = {
    "causal": "bottom_right",
    "lse": "token_major",
    "lengths_q_form": "prefix",
    "lengths_kv_form": "prefix",
    "max_len_q": 512,
    "max_len_kv": 512,
}


def _of(shape: str) -> tuple[Scenario, ...]:
    """Return the scenarios of one shape."""
    dims = EVERY_CHOICE[shape]

    def wide(name: str, description: str, *tags: str, **facts: Any) -> Scenario:
        kept = (tag for tag in tags if shape in SHAPES or tag != WIDE_CORE_TAG)
        return Scenario(
            name=f"wide-{shape}-{name}",
            description=description,
            tags=(WIDE_TAG, shape, *kept),
            **(dims | facts),
        )

    def shared(name: str, description: str, *tags: str, **facts: Any) -> Scenario:
        return wide(name, description, *tags, **(PACKED | facts))

    return (
        shared(
            "edges",
            "Lengths around a tile and a slice of keys, and none on either side; NaN "
            "behind the last token.",
            WIDE_CORE_TAG,
            "tile-edge",
            "empty",
            "keyless",
            heads_q=1,
            lengths_q=(1, 129, 0, 33, 128, 17),
            lengths_kv=(33, 129, 40, 31, 128, 0),
            tail_q=5,
            tail_kv=70,
        ),
        shared(
            "more-queries",
            "More queries than keys: rows, and a whole tile of them, see nothing.",
            "keyless",
            heads_q=2,
            lengths_q=(150, 40, 9),
            lengths_kv=(20, 33, 9),
        ),
        shared(
            "several-tiles",
            "Three tiles of keys, so that both places for scores are used again, "
            "and units that follow each other with an odd number of tiles.",
            WIDE_CORE_TAG,
            heads_q=3,
            heads_kv=3,
            lengths_q=(60, 20),
            lengths_kv=(300, 380),
        ),
        shared(
            "decode",
            "One query a sequence over ragged caches, four query heads on one.",
            "decode",
            "gqa",
            heads_q=4,
            heads_kv=1,
            lengths_q=(1, 1, 0, 1, 1),
            lengths_kv=(257, 3, 9, 128, 0),
        ),
        shared(
            "odd-group",
            "Three query heads on a key head: a pair of CTAs takes rows, not heads.",
            "gqa",
            heads_q=3,
            heads_kv=1,
            lengths_q=(140, 9),
            lengths_kv=(150, 70),
        ),
        shared(
            "neighbour-nan",
            "One sequence holds NaN in K and V, which no other may see.",
            "neighbour-nan",
            lengths_q=(30, 40, 20),
            lengths_kv=(70, 33, 65),
            nan_sequences=(1,),
        ),
        shared(
            "bases-strides",
            "Prefix sums with a base of their own for each side, one near the end of "
            "int32, and strides wider than the heads.",
            WIDE_CORE_TAG,
            "layout",
            lengths_q=(33, 20),
            lengths_kv=(70, 20),
            base_q=11,
            base_kv=2**31 - 100,
            layout="spread",
            out_layout="spread",
            stream="side",
        ),
        shared(
            "no-keys",
            "No sequence has a key, and K and V have no token.",
            "empty",
            "keyless",
            lengths_q=(40, 3),
            lengths_kv=(0, 0),
        ),
        shared(
            "no-queries",
            "No sequence has a query, though there is room for some.",
            "empty",
            lengths_q=(0, 0),
            lengths_kv=(40, 3),
            tail_q=9,
        ),
        shared(
            "no-capacity",
            "Q and O have no token: nothing is launched.",
            "empty",
            lengths_q=(0, 0),
            lengths_kv=(40, 3),
        ),
        wide(
            "sinks-window",
            "Sinks and a sliding window over several tiles, in float16, with counts.",
            WIDE_CORE_TAG,
            "window",
            "sinks",
            "keyless",
            dtype="float16",
            heads_q=2,
            heads_kv=2,
            causal="top_left",
            window_left=30,
            sinks=True,
            lse="head_major",
            lse_slack=3,
            lengths_q=(150, 12, 5),
            lengths_kv=(170, 12, 0),
        ),
        wide(
            "very-negative-sink",
            "Sink -200 on rows without keys (NVIDIA/cudnn-frontend#1095).",
            "sinks",
            "keyless",
            causal="bottom_right",
            sinks=True,
            sink_value=-200.0,
            lse="head_major",
            lengths_q=(40, 20),
            lengths_kv=(0, 3),
        ),
        wide(
            "band",
            "A band on both sides of the bottom-right diagonal, a negative scale.",
            "window",
            "band",
            "keyless",
            anchor="bottom_right",
            window_left=20,
            window_right=9,
            scale=-0.05,
            lengths_q=(130, 90),
            lengths_kv=(150, 30),
        ),
        wide(
            "tile-wide-window",
            "A window of exactly a tile of keys.",
            "window",
            "tile-edge",
            causal="top_left",
            window_left=127,
            lengths_q=(140, 65),
            lengths_kv=(260, 128),
        ),
        wide(
            "plain",
            "No mask and no LSE, in float16, large values.",
            dtype="float16",
            lse="none",
            values="large",
            heads_q=2,
            heads_kv=2,
            lengths_q=(20, 70),
            lengths_kv=(130, 40),
        ),
    )


def _between(head_dim: int, head_dim_v: int) -> Scenario:
    """Return a scenario of head dims that do not fill their blocks of 64 columns."""
    return Scenario(
        name=f"wide-d{head_dim}x{head_dim_v}",
        description=f"Head dims {head_dim} and {head_dim_v}: columns past them must "
        "be zero in a tile, and are never written.",
        tags=(WIDE_TAG, "head-dim"),
        head_dim=head_dim,
        head_dim_v=head_dim_v,
        lengths_q=(70, 9),
        lengths_kv=(140, 30),
        causal="bottom_right",
        tail_kv=16,
        out_layout="spread",
    )


WIDE: tuple[Scenario, ...] = (
    *(scenario for shape in EVERY_CHOICE for scenario in _of(shape)),
    _between(72, 136),
    _between(136, 40),
    _between(200, 72),
    _between(264, 264),
    _between(320, 512),
    _between(8, 200),
)
"""In the order they are run; a target takes those of the head dims that it serves."""

LARGEST_WIDE_FLOPS = 200_000_000
"""No scenario here has more work than this."""
