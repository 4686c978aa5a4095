"""Scenarios whose launches `sidestream mutate` is run on: every path of one kernel.

All of a family have one declaration as far as code is concerned, declared maxima
included, so that their launches have one text and a mutant meets each of them: several
units a CTA, one and many tiles of keys, a pair on two heads and on two runs of rows,
units without keys, sequences without queries, CTAs without units, rows that both edges
of a band cut, and rows that no edge cuts. None has one sequence alone, which some
kernels compile apart.
"""

from __future__ import annotations

from typing import Any

from sidestream.scenarios.catalogue_wide import SHAPES
from sidestream.scenarios.declaration import FLOAT8, ONE_BYTE
from sidestream.scenarios.scenario import Scenario

MUTATION_TAG = "mutation"
LONGEST_Q = 600
LONGEST_KV = 4700

NARROW_FACTS: dict[str, Any] = {"dtype": FLOAT8, "descales": (0.75, 1.25, 0.5)}
NARROW_SHAPES: dict[str, dict[str, Any]] = {
    "d64": {"head_dim": 64},
    "d128": {"head_dim": 128},
    **{shape: SHAPES[shape] for shape in ("d192x128", "d256")},
}
"""Head dims of one-byte inputs; SM100 serves those up to 128."""


def _family(name: str, **facts: Any) -> tuple[Scenario, ...]:
    """Return the launches of one declaration, the cheapest first."""

    def launch(which: str, description: str, **own: Any) -> Scenario:
        usual: dict[str, Any] = {
            "heads_q": 2,
            "heads_kv": 1,
            "lengths_q_form": "prefix",
            "lengths_kv_form": "prefix",
            "tail_kv": 9,
            "tail_fill": "nan",
            "max_len_q": LONGEST_Q,
            "max_len_kv": LONGEST_KV,
        }
        return Scenario(
            name=f"mutate-{name}-{which}",
            description=description,
            tags=(MUTATION_TAG, name),
            **(usual | facts | own),
        )

    far = {"window_left": 4500} if "window_left" in facts else {}
    return (
        launch("one", "One query, one key.", lengths_q=(1, 0), lengths_kv=(1, 0)),
        launch(
            "none",
            "Queries without keys between sequences of no queries.",
            lengths_q=(20, 0, 129),
            lengths_kv=(0, 30, 0),
        ),
        launch(
            "dead",
            "Several units a CTA, none with keys: only the units' records order.",
            lengths_q=(150,) * 12,
            lengths_kv=(0,) * 12,
        ),
        launch(
            "long",
            "More tiles than a warp has lanes, so that an arrival too few a phase adds "
            "up to a warp too few.",
            lengths_q=(200, 0),
            lengths_kv=(LONGEST_KV, 0),
            values="sharp",
            **far,
        ),
        launch(
            "apart",
            "As many key heads as query heads: a pair works on two runs of rows.",
            heads_kv=2,
            lengths_q=(LONGEST_Q, 5),
            lengths_kv=(600, 300),
        ),
        launch(
            "many",
            "Several units a CTA, of very unequal lengths, some without tokens.",
            lengths_q=(300, 1, 0, 129, 64, 0, 17, 128),
            lengths_kv=(300, 1, 40, 129, 257, 0, 3, 0),
            values="sharp",
        ),
        launch(
            "wide",
            "Several units a CTA that all have two sub-tiles.",
            lengths_q=(150,) * 8,
            lengths_kv=(150, 40, 300, 129, 0, 256, 150, 150),
        ),
        launch(
            "idle",
            "Units of which one CTA of the pair has no rows.",
            heads_kv=2,
            lengths_q=(5,) * 6,
            lengths_kv=(40,) * 6,
        ),
    )


def _few(name: str, rows: int, **facts: Any) -> tuple[Scenario, ...]:
    """Return launches of at most `rows` queries a sequence.

    Some kernels compile those apart: for 16, as in decoding, or for 64.
    """
    many = (rows, 1, 0, rows // 3, rows // 2 + 1, 2)
    lengths: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
        "one": ((1, 0), (1, 0)),
        "none": ((2, 0, rows), (0, 30, 0)),
        "long": ((rows - 3, 0), (LONGEST_KV, 0)),
        "many": (many * 4, (276, 1, 40, 0, 129, 64) * 4),
    }
    if rows < 64:
        # The work list takes 128 sequences at a time, and scans again for the rest.
        lengths["crowd"] = (1, 2, 0) * 60, (3, 0, 1) * 60
    return tuple(
        Scenario(
            name=f"mutate-{name}-{which}",
            description=f"Few rows a sequence: {len(lengths_q)} sequences.",
            tags=(MUTATION_TAG, name),
            lengths_q=lengths_q,
            lengths_kv=lengths_kv,
            lengths_q_form="prefix",
            lengths_kv_form="prefix",
            max_len_q=rows,
            max_len_kv=LONGEST_KV,
            tail_kv=9,
            causal="bottom_right",
            window_left=4500 if which == "long" else 200,
            **facts,
        )
        for which, (lengths_q, lengths_kv) in lengths.items()
    )


_FEW_ROWS = {"decode": 16, "short": 64}
_SERVED_WITH_FEW = {"d128": {"head_dim": 128}} | {
    shape: SHAPES[shape] for shape in ("d192x128", "d256")
}
MUTATION: tuple[Scenario, ...] = (
    *_family("band-d128", head_dim=128, causal="bottom_right", window_left=200),
    *_family("causal-d128", head_dim=128, causal="bottom_right"),
    *_family("full-d128", head_dim=128),
    *_family("band-d64", head_dim=64, causal="bottom_right", window_left=200),
    *(
        scenario
        for shape, dims in SHAPES.items()
        for scenario in _family(
            f"band-{shape}", causal="bottom_right", window_left=200, **dims
        )
    ),
    *(
        scenario
        for shape, dims in NARROW_SHAPES.items()
        for scenario in _family(
            f"band-fp8-{shape}",
            causal="bottom_right",
            window_left=200,
            **(NARROW_FACTS | dims),
        )
    ),
    *_family(
        "band-fp8-out-d128",
        dtype=ONE_BYTE[1],
        out_dtype=FLOAT8,
        head_dim=128,
        causal="bottom_right",
        window_left=200,
        descales=NARROW_FACTS["descales"],
        scale_out=40.0,
    ),
    *_family(
        "band-mxfp8-d128",
        dtype=FLOAT8,
        block_scaled=True,
        head_dim=128,
        causal="bottom_right",
        window_left=200,
    ),
    *(
        scenario
        for kind, rows in _FEW_ROWS.items()
        for shape, dims in _SERVED_WITH_FEW.items()
        for scenario in (
            *_few(f"{kind}-{shape}", rows, **dims),
            *_few(f"{kind}-fp8-{shape}", rows, **(NARROW_FACTS | dims)),
        )
    ),
)
"""Not part of a check of everything: `record --scenario` takes them by name."""
