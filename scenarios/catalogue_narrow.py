"""Scenarios of one-byte inputs: E4M3 and E5M2, with factors on the device.

Every input type has one declaration for most of its scenarios, so that they share a
compilation, and some that declare what that one leaves out. Each call starts with the
largest output of an earlier one, 1e30, so that every scenario asks for its reset; each
capacity past the live rows holds NaN, infinities or the largest numbers, none of which
may reach it.
"""

from __future__ import annotations

from typing import Any

from sidestream.scenarios.declaration import FLOAT8, ONE_BYTE
from sidestream.scenarios.scenario import Scenario

NARROW_TAG = "fp8"
NARROW_CORE_TAG = "fp8-core"
"""The few of each input type that are enough for a quick look."""

KINDS: dict[str, str] = {"e4m3": ONE_BYTE[0], "e5m2": ONE_BYTE[1]}

DESCALES = (0.75, 1.25, 0.3)
"""Of Q, K and V; no two are alike, and none of the products is a power of two."""

PACKED: dict[str, Any] = {
    "head_dim": 128,
    "descales": DESCALES,
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
    # The type that is neither the inputs' own nor what they come to by default.
    other = "float8_e5m2" if dtype == FLOAT8 else FLOAT8

    def made(name: str, description: str, *tags: str, **facts: Any) -> Scenario:
        usual: dict[str, Any] = {"dtype": dtype, "head_dim": 128, "descales": DESCALES}
        return Scenario(
            name=f"fp8-{kind}-{name}",
            description=description,
            tags=(NARROW_TAG, kind, *tags),
            **(usual | facts),
        )

    def packed(name: str, description: str, *tags: str, **facts: Any) -> Scenario:
        return made(name, description, *tags, **(PACKED | facts))

    return (
        packed(
            "edges",
            "Lengths around a tile of keys, and none on either side; NaN behind the "
            "last token.",
            NARROW_CORE_TAG,
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
            "more-queries",
            "More queries than keys: rows, and a whole tile of them, see nothing.",
            "keyless",
            lengths_q=(150, 40, 9),
            lengths_kv=(20, 33, 9),
        ),
        packed(
            "several-tiles",
            "Three tiles of keys, as many key heads as query heads: the reference of "
            "the weights rises in steps.",
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
            "Three query heads on a key head: a pair of CTAs takes rows, not heads.",
            "gqa",
            heads_q=3,
            heads_kv=1,
            lengths_q=(140, 9),
            lengths_kv=(150, 70),
        ),
        packed(
            "neighbour-nan",
            "One sequence holds NaN in K and V, over more rows than a warp has: no "
            "other may see it, and the largest output passes it over.",
            "neighbour-nan",
            "amax",
            lengths_q=(30, 80, 20),
            lengths_kv=(70, 93, 65),
            nan_sequences=(1,),
        ),
        packed(
            "neighbour-half-nan",
            "Every other key and value of a sequence is NaN, so that its rows have a "
            "maximum and no sum.",
            NARROW_CORE_TAG,
            "neighbour-nan",
            "amax",
            lengths_q=(30, 80, 20),
            lengths_kv=(70, 93, 65),
            nan_sequences=(1,),
            nan_every=2,
        ),
        packed(
            "huge-tail",
            "Queries of the largest numbers behind the last one: those rows of a tile "
            "take one key alone, and so have larger outputs than any live row.",
            NARROW_CORE_TAG,
            "amax",
            heads_q=4,
            lengths_q=(100, 3),
            lengths_kv=(250, 200),
            tail_q=70,
            tail_kv=130,
            tail_fill="huge",
        ),
        packed(
            "infinite-tail",
            "Infinities behind the last token, of E4M3 its NaN.",
            lengths_q=(50, 37, 11),
            lengths_kv=(100, 75, 23),
            tail_q=30,
            tail_kv=130,
            tail_fill="inf",
        ),
        packed(
            "flat",
            "Keys so small that weights are nearly equal: all round alike.",
            lengths_q=(20, 70),
            lengths_kv=(130, 40),
            values="flat",
        ),
        made(
            "equal",
            "Keys of 0: weights are equal and exact, so that each value counts for "
            "what it is worth, and the bound is that of float32.",
            NARROW_CORE_TAG,
            out_dtype="float16",
            causal="bottom_right",
            lengths_q=(150, 40, 9),
            lengths_kv=(170, 133, 9),
            tail_q=5,
            tail_kv=70,
            values="equal",
        ),
        packed(
            "sharp",
            "Scores so large that one weight takes nearly all, and small ones are "
            "below the smallest number of the type.",
            lengths_q=(20, 70),
            lengths_kv=(130, 40),
            values="sharp",
        ),
        packed(
            "ties",
            "Every key occurs twice: equal weights round alike.",
            lengths_q=(20, 70),
            lengths_kv=(260, 40),
            values="ties",
        ),
        packed(
            "faint",
            "The first key takes nearly all of every row and has no value: the output "
            "is of weights that E4M3 rounds to twice their size without a factor.",
            NARROW_CORE_TAG,
            lengths_q=(40,),
            lengths_kv=(300,),
            values="faint",
        ),
        packed(
            "strides",
            "Prefix sums with a base of their own for each side, and strides wider "
            "than the heads by as few bytes as are allowed.",
            NARROW_CORE_TAG,
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
            "fused",
            "Q, K and V are slices of one projection.",
            "layout",
            heads_q=4,
            heads_kv=2,
            lengths_q=(64, 33),
            lengths_kv=(64, 33),
            layout="fused_qkv",
            out_layout="padded",
            tail_q=5,
            tail_kv=5,
        ),
        packed(
            "kv-record",
            "K and V are halves of one record.",
            "layout",
            heads_q=4,
            heads_kv=2,
            lengths_q=(20, 70),
            lengths_kv=(100, 65),
            layout="kv_pair",
            tail_kv=10,
        ),
        packed(
            "no-keys",
            "No sequence has a key, and K and V have no token: the largest output is "
            "0.",
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
            "no-capacity",
            "Q and O have no token, and still the largest output becomes 0.",
            NARROW_CORE_TAG,
            "empty",
            "amax",
            lengths_q=(0, 0),
            lengths_kv=(40, 3),
        ),
        packed(
            "nothing",
            "No token on either side.",
            "empty",
            "amax",
            lengths_q=(0, 0, 0),
            lengths_kv=(0, 0, 0),
        ),
        made(
            "to-same",
            "Output of the inputs' type, scaled; a window, sinks, and head-major LSE "
            "with counts.",
            NARROW_CORE_TAG,
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
            "to-other",
            "Output of the other one-byte type, scaled down; sinks of -200 on rows "
            "without keys.",
            "sinks",
            "keyless",
            out_dtype=other,
            scale_out=0.3,
            causal="bottom_right",
            sinks=True,
            sink_value=-200.0,
            lengths_q=(40, 20),
            lengths_kv=(0, 3),
        ),
        made(
            "saturated",
            "A factor that takes most outputs past the largest number of their type; "
            "the largest output is that of before.",
            NARROW_CORE_TAG,
            "amax",
            out_dtype=FLOAT8,
            scale_out=4000.0,
            lengths_q=(60, 5),
            lengths_kv=(140, 30),
        ),
        made(
            "to-half",
            "Output in float16; a band on both sides of the bottom-right diagonal and "
            "a negative scale.",
            NARROW_CORE_TAG,
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
            "No mask and no LSE.",
            lse="none",
            heads_q=2,
            heads_kv=2,
            lengths_q=(20, 70),
            lengths_kv=(130, 40),
        ),
        made(
            "d64",
            "Head dim 64: half of the columns of a block are none of K.",
            "head-dim",
            head_dim=64,
            lengths_q=(70, 9),
            lengths_kv=(140, 30),
            causal="bottom_right",
            tail_kv=16,
            out_layout="padded",
        ),
        made(
            "d48x112",
            "Head dims that fill neither a block nor the step of a product; output of "
            "one byte.",
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
        made(
            "d16",
            "The narrowest head dim: 16 bytes a row.",
            "head-dim",
            head_dim=16,
            out_dtype=dtype,
            scale_out=1.0,
            lengths_q=(70, 9),
            lengths_kv=(140, 30),
            causal="top_left",
        ),
    )


NARROW: tuple[Scenario, ...] = tuple(s for kind in KINDS for s in _of(kind))
"""In the order they are run; only targets with kernels of one-byte inputs take them."""

LARGEST_NARROW_FLOPS = 60_000_000
"""No scenario here has more work than this."""
