"""What public bugs of numbers, layouts and bounds ask of a kernel, at every shape.

The same scenarios for each pair of head dims that our kernels are written for, narrow
and wide: a shape is cut in its own way, so that what one has shown says little of
another. `scenarios/bugs/rows` says which public bug each of them would show.

A shape has two declarations, and so two compilations: one that most of the scenarios
share, and one with sinks, a window and the other forms of lengths and LSE. With
one-byte inputs the second has a one-byte output.
"""

from __future__ import annotations

from typing import Any

from sidestream.scenarios.catalogue_narrow import DESCALES
from sidestream.scenarios.catalogue_wide import PACKED
from sidestream.scenarios.catalogue_wide import SHAPES as WIDE_SHAPES
from sidestream.scenarios.declaration import FLOAT8, ONE_BYTE
from sidestream.scenarios.scenario import Scenario

EACH_TAG = "each"

SHAPES: dict[str, dict[str, Any]] = {
    "d64": {"head_dim": 64},
    "d128": {"head_dim": 128},
    **WIDE_SHAPES,
    "e4m3": {"head_dim": 128, "dtype": FLOAT8, "descales": DESCALES},
    "e5m2d64": {"head_dim": 64, "dtype": ONE_BYTE[1], "descales": DESCALES},
    "e4m3d192x128": {
        **WIDE_SHAPES["d192x128"],
        "dtype": FLOAT8,
        "descales": DESCALES,
    },
    "e5m2d256": {"head_dim": 256, "dtype": ONE_BYTE[1], "descales": DESCALES},
}
"""Head dims, and types where they are not those of the declarations below.

One-byte inputs have every pair of head dims that a target serves them at, and each of
the two types.
"""

WINDOWED: dict[str, Any] = {
    "dtype": "float16",
    "causal": "top_left",
    "window_left": 4000,
    "sinks": True,
    "lse": "head_major",
    "lse_slack": 5,
    "max_len_q": 512,
    "max_len_kv": 512,
}

TILE_EDGES = (1, 63, 64, 127, 128)
"""Window offsets by which some row's first key is the last of a tile of 64 or of 128
keys, the first of one, or next to either."""


def each(shape: str, name: str) -> str:
    """Return the full name of a scenario of this file."""
    return f"each-{shape}-{name}"


def _of(shape: str) -> tuple[Scenario, ...]:
    """Return the scenarios of one shape."""
    dims = SHAPES[shape]
    # Operands that share a record have one head dim.
    equal = "head_dim_v" not in dims
    narrow = {"out_dtype": FLOAT8, "scale_out": 40.0} if "dtype" in dims else {}

    def made(
        name: str, description: str, shared: dict[str, Any], **facts: Any
    ) -> Scenario:
        return Scenario(
            name=each(shape, name),
            description=description,
            tags=(EACH_TAG, shape),
            **(shared | dims | facts),
        )

    def packed(name: str, description: str, **facts: Any) -> Scenario:
        return made(name, description, PACKED, **facts)

    def windowed(name: str, description: str, **facts: Any) -> Scenario:
        return made(name, description, WINDOWED | narrow, **facts)

    return (
        packed(
            "nan-tail",
            "NaN in the capacity behind the last token, on both sides.",
            lengths_q=(50, 37, 11),
            lengths_kv=(100, 75, 23),
            tail_q=30,
            tail_kv=130,
        ),
        packed(
            "neighbour-nan",
            "One sequence holds NaN in K and V, and starts inside a tile of another.",
            lengths_q=(30, 40, 20),
            lengths_kv=(70, 33, 65),
            nan_sequences=(1,),
        ),
        packed(
            "over-provisioned",
            "Sequences that fill no tile, so that a grid sized from totals has tiles "
            "of nobody.",
            heads_q=1,
            lengths_q=(33, 70, 5, 90, 17),
            lengths_kv=(33, 70, 5, 90, 17),
            tail_q=3,
            tail_kv=3,
        ),
        packed(
            "last-one-row",
            "A long sequence, then one with a single row.",
            heads_q=4,
            lengths_q=(127, 1),
            lengths_kv=(140, 9),
            tail_q=20,
        ),
        packed(
            "kv-record",
            "K and V are halves of one record, or have gaps where their head dims "
            "differ: extent over stride is not the number of tokens.",
            heads_q=4,
            heads_kv=2,
            lengths_q=(20, 70),
            lengths_kv=(100, 65),
            layout="kv_pair" if equal else "spread",
            tail_kv=10,
        ),
        packed(
            "fused",
            "Q, K and V are slices of one projection, or have gaps where their head "
            "dims differ: no stride is that of a dense tensor.",
            heads_q=4,
            heads_kv=2,
            lengths_q=(64, 33),
            lengths_kv=(64, 33),
            layout="fused_qkv" if equal else "padded",
            out_layout="spread",
            tail_q=5,
            tail_kv=5,
        ),
        packed(
            "identical",
            "Equal lengths in every sequence, with five queries each.",
            heads_q=4,
            lengths_q=(5, 5, 5, 5),
            lengths_kv=(40, 40, 40, 40),
        ),
        packed(
            "more-queries",
            "More queries than keys, by another number in every sequence: the first "
            "rows see nothing.",
            lengths_q=(150, 40, 9),
            lengths_kv=(20, 33, 9),
        ),
        packed(
            "masked-tiles",
            "Diagonals that lie across the tiles: a row finds whole tiles without a "
            "key before it finds one, -inf minus -inf.",
            lengths_q=(300, 70),
            lengths_kv=(340, 90),
        ),
        packed(
            "unbounded-left",
            "Causal without a bound on the left.",
            lengths_q=(66, 12),
            lengths_kv=(66, 80),
        ),
        packed(
            "guarded",
            "Gaps between the rows of O and room behind them, which must stay as "
            "they are.",
            lengths_q=(1, 127, 2, 65),
            lengths_kv=(30, 64, 65, 3),
            out_layout="padded",
            tail_q=64,
        ),
        packed(
            "sharp",
            "Scores so large that one weight takes nearly all.",
            lengths_q=(20, 70),
            lengths_kv=(130, 40),
            values="sharp",
        ),
        windowed(
            "negative-sink",
            "Sink -200 on rows without keys, whose exponential underflows.",
            sink_value=-200.0,
            lengths_q=(40, 20),
            lengths_kv=(0, 3),
        ),
        windowed(
            "one-query",
            "One query a sequence, four query heads to a key head.",
            heads_q=8,
            heads_kv=2,
            lengths_q=(1, 1, 1),
            lengths_kv=(40, 70, 3),
        ),
        *(
            windowed(
                f"window-{left}",
                f"A window of the {left} keys before the diagonal.",
                window_left=left,
                lengths_q=(140, 65),
                lengths_kv=(260, 128),
            )
            for left in TILE_EDGES
        ),
    )


EACH: tuple[Scenario, ...] = tuple(s for shape in SHAPES for s in _of(shape))
"""In the order they are run; part of a check of everything that our kernels serve."""
