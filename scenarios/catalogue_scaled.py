"""Scenarios of block-scaled inputs (MXFP8): a scale for every 32 elements.

As those of one-byte inputs with factors, which they share their lengths' ideas with;
what is asked here beside is where scales lie. Sequences start where a block does not,
end inside one, or have no token, and what belongs to no token or column is NaN. Only
targets with kernels of such inputs take them.
"""

from __future__ import annotations

from typing import Any

from sidestream.scenarios.catalogue_narrow import KINDS
from sidestream.scenarios.declaration import FLOAT8
from sidestream.scenarios.scenario import Scenario

SCALED_TAG = "mxfp8"
SCALED_CORE_TAG = "mxfp8-core"
"""The few of each input type that are enough for a quick look."""

PACKED: dict[str, Any] = {
    "causal": "bottom_right",
    "lse": "token_major",
    "lengths_q_form": "prefix",
    "lengths_kv_form": "prefix",
    "max_len_q": 512,
    "max_len_kv": 512,
}


def _of(kind: str) -> tuple[Scenario, ...]:
    """Return the scenarios of one input type."""
    dtype = KINDS[kind]
    other = "float8_e5m2" if dtype == FLOAT8 else FLOAT8

    def made(name: str, description: str, *tags: str, **facts: Any) -> Scenario:
        usual: dict[str, Any] = {"dtype": dtype, "head_dim": 128, "block_scaled": True}
        return Scenario(
            name=f"mxfp8-{kind}-{name}",
            description=description,
            tags=(SCALED_TAG, kind, *tags),
            **(usual | facts),
        )

    def packed(name: str, description: str, *tags: str, **facts: Any) -> Scenario:
        return made(name, description, *tags, **(PACKED | facts))

    return (
        packed(
            "edges",
            "Lengths around a block and around a tile of keys, and none on either "
            "side; NaN behind the last token and in scales of nothing.",
            SCALED_CORE_TAG,
            "tile-edge",
            "empty",
            "keyless",
            heads_q=1,
            lengths_q=(1, 129, 0, 33, 128, 17),
            lengths_kv=(33, 129, 40, 31, 128, 0),
            tail_q=5,
            tail_kv=70,
        ),
        packed(
            "odd-starts",
            "Every sequence starts inside the block of another that tokens would be "
            "in if they were counted from the first of all.",
            SCALED_CORE_TAG,
            heads_q=4,
            heads_kv=2,
            lengths_q=(7, 45, 131, 3),
            lengths_kv=(65, 97, 258, 30),
        ),
        packed(
            "more-queries",
            "More queries than keys: rows, and a whole tile of them, see nothing.",
            "keyless",
            lengths_q=(150, 40, 9),
            lengths_kv=(20, 33, 9),
        ),
        packed(
            "several-tiles",
            "Three tiles of keys, as many key heads as query heads.",
            SCALED_CORE_TAG,
            heads_q=3,
            heads_kv=3,
            lengths_q=(60, 20),
            lengths_kv=(300, 380),
        ),
        packed(
            "decode",
            "One query a sequence over ragged caches, four query heads on one.",
            "decode",
            "gqa",
            heads_q=4,
            heads_kv=1,
            lengths_q=(1, 1, 0, 1, 1),
            lengths_kv=(257, 3, 9, 128, 0),
        ),
        packed(
            "odd-group",
            "Three query heads on a key head: a pair of CTAs takes rows, not heads, "
            "and each an atom of its own.",
            SCALED_CORE_TAG,
            "gqa",
            heads_q=3,
            heads_kv=1,
            lengths_q=(300, 9),
            lengths_kv=(150, 70),
        ),
        packed(
            "neighbour-half-nan",
            "Every other key and value of a sequence is NaN: no other may see it, and "
            "the largest output passes it over.",
            "neighbour-nan",
            "amax",
            lengths_q=(30, 80, 20),
            lengths_kv=(70, 93, 65),
            nan_sequences=(1,),
            nan_every=2,
        ),
        packed(
            "huge-tail",
            "Queries of the largest numbers and large scales behind the last one: "
            "their outputs are larger than any live row's.",
            SCALED_CORE_TAG,
            "amax",
            heads_q=4,
            lengths_q=(100, 3),
            lengths_kv=(250, 200),
            tail_q=70,
            tail_kv=130,
            tail_fill="huge",
        ),
        packed(
            "equal",
            "Keys of 0, with the smallest scale: weights are equal and exact, so that "
            "each value counts for what it is worth.",
            SCALED_CORE_TAG,
            lengths_q=(150, 40, 9),
            lengths_kv=(170, 133, 9),
            out_dtype="float16",
            values="equal",
        ),
        packed(
            "strides",
            "Prefix sums with a base of their own for each side, and strides wider "
            "than the heads.",
            "layout",
            lengths_q=(33, 20),
            lengths_kv=(70, 20),
            base_q=11,
            base_kv=2**31 - 100,
            layout="spread",
            out_layout="spread",
            stream="side",
        ),
        packed(
            "no-keys",
            "No sequence has a key, and there is no scale of one: the largest output "
            "is 0.",
            "empty",
            "keyless",
            "amax",
            lengths_q=(40, 3),
            lengths_kv=(0, 0),
        ),
        packed(
            "no-queries",
            "No sequence has a query, though there is room for some.",
            "empty",
            "amax",
            lengths_q=(0, 0),
            lengths_kv=(40, 3),
            tail_q=9,
        ),
        packed(
            "nothing",
            "No token on either side, and no scale.",
            "empty",
            "amax",
            lengths_q=(0, 0, 0),
            lengths_kv=(0, 0, 0),
        ),
        made(
            "to-same",
            "Output of the inputs' type, scaled; a window, sinks, and head-major LSE "
            "with counts.",
            SCALED_CORE_TAG,
            "window",
            "sinks",
            "keyless",
            out_dtype=dtype,
            scale_out=40.0,
            heads_q=2,
            heads_kv=2,
            causal="top_left",
            window_left=30,
            sinks=True,
            lse="head_major",
            lse_slack=3,
            lengths_q=(150, 12, 5),
            lengths_kv=(170, 12, 0),
            out_layout="spread",
            tail_q=3,
        ),
        made(
            "to-half",
            "Output in float16; a band on both sides of the bottom-right diagonal and "
            "a negative scale.",
            SCALED_CORE_TAG,
            "window",
            "band",
            "keyless",
            out_dtype="float16",
            anchor="bottom_right",
            window_left=20,
            window_right=9,
            scale=-0.05,
            lengths_q=(130, 90),
            lengths_kv=(150, 30),
        ),
        made(
            "plain",
            "No mask and no LSE; many sequences, whose atoms take more than one pass.",
            lse="none",
            heads_q=1,
            lengths_q=(1,) * 130 + (70,),
            lengths_kv=(1, 3) * 65 + (140,),
        ),
        made(
            "d48x112",
            "Head dims that fill neither a block nor an atom; output of one byte.",
            "head-dim",
            head_dim=48,
            head_dim_v=112,
            out_dtype=other,
            scale_out=3.0,
            lengths_q=(70, 9),
            lengths_kv=(140, 30),
            causal="bottom_right",
            tail_kv=16,
            out_layout="spread",
        ),
    )


SCALED: tuple[Scenario, ...] = tuple(s for kind in KINDS for s in _of(kind))
"""In the order they are run."""
