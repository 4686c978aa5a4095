"""Scenarios about how many tokens the sequences have."""

from __future__ import annotations

from sidestream.scenarios.core import core
from sidestream.scenarios.scenario import Scenario

_EDGES = (1, 63, 64, 65, 127, 128, 129)

LENGTHS: tuple[Scenario, ...] = (
    core(
        name="two-short",
        description="The least that is still varlen: two unequal sequences.",
        tags=("smoke", "lengths"),
        lengths_q=(5, 3),
        lengths_kv=(5, 3),
    ),
    core(
        name="one-token",
        description="A batch of one with one query and one key.",
        tags=("smoke", "lengths"),
        lengths_q=(1,),
        lengths_kv=(1,),
    ),
    Scenario(
        name="cross-lengths",
        description="Queries and keys differ: NVIDIA/cudnn-frontend#543's shape, "
        "lengths [100, 300] against [200, 333], at a third.",
        tags=("lengths",),
        lengths_q=(33, 100),
        lengths_kv=(67, 111),
    ),
    core(
        name="totals-a",
        description="With totals-b and totals-c: one plan, packed totals that change; "
        "a key that holds them compiles again (NVIDIA/cudnn-frontend#552).",
        tags=("lengths", "totals"),
        lengths_q=(40, 60),
        lengths_kv=(53, 80),
    ),
    core(
        name="totals-b",
        description="totals-a with one more query (NVIDIA/cudnn-frontend#552).",
        tags=("lengths", "totals"),
        lengths_q=(41, 60),
        lengths_kv=(53, 80),
    ),
    core(
        name="totals-c",
        description="totals-a with one more key (NVIDIA/cudnn-frontend#552).",
        tags=("lengths", "totals"),
        lengths_q=(40, 60),
        lengths_kv=(53, 81),
    ),
    core(
        name="tile-edges",
        description="Lengths one below, at and above the tile sizes, both sides.",
        tags=("lengths", "tile-edge"),
        heads_q=1,
        lengths_q=_EDGES,
        lengths_kv=_EDGES,
    ),
    Scenario(
        name="tile-edges-crossed",
        description="Every query edge against another key edge.",
        tags=("lengths", "tile-edge"),
        dtype="float16",
        heads_q=1,
        lengths_q=_EDGES,
        lengths_kv=(129, 1, 65, 128, 63, 127, 64),
    ),
    Scenario(
        name="tile-edges-d128",
        description="Tile edges at the widest head dim.",
        tags=("lengths", "tile-edge"),
        heads_q=1,
        head_dim=128,
        lengths_q=(1, 64, 65, 127, 129),
        lengths_kv=(1, 64, 65, 127, 129),
        causal="top_left",
    ),
    core(
        name="one-long-many-short",
        description="One sequence holds most of the work; the rest are decode steps.",
        tags=("lengths", "skew"),
        heads_q=2,
        lengths_q=(1, 1, 200, 1, 2, 1, 1, 3),
        lengths_kv=(9, 30, 256, 17, 2, 64, 1, 5),
    ),
    core(
        name="decode-batch",
        description="One query a sequence over ragged caches, as in serving.",
        tags=("lengths", "decode"),
        heads_q=8,
        heads_kv=2,
        lengths_q=(1,) * 12,
        lengths_kv=(70, 3, 129, 64, 65, 1, 200, 31, 96, 12, 128, 50),
    ),
    core(
        name="decode-batch-32",
        description="More units than an even share of a small grid; binary search over "
        "32 sequences.",
        tags=("lengths", "decode", "batch"),
        heads_q=2,
        lengths_q=(1,) * 32,
        lengths_kv=tuple(1 + (37 * b) % 90 for b in range(32)),
    ),
    core(
        name="mixed-prefill-decode",
        description="Prefill chunks and decode steps packed into one call.",
        tags=("lengths", "decode"),
        heads_q=4,
        heads_kv=1,
        lengths_q=(64, 1, 1, 48, 1),
        lengths_kv=(64, 100, 33, 112, 1),
    ),
    core(
        name="many-single-tokens",
        description="More sequences than warps, one token each (NVIDIA/cudnn-frontend"
        "#610: many tiny units).",
        tags=("lengths", "batch", "scheduler"),
        heads_q=2,
        lengths_q=(1,) * 32,
        lengths_kv=(1,) * 32,
    ),
    core(
        name="empty-queries",
        description="A sequence without queries between two that have some.",
        tags=("lengths", "empty"),
        lengths_q=(30, 0, 17),
        lengths_kv=(20, 40, 9),
    ),
    core(
        name="empty-keys",
        description="Sequences without keys: O is 0 and LSE is -inf. Lengths of "
        "NVIDIA/cudnn-frontend#702, whose first tile is empty.",
        tags=("lengths", "empty", "keyless"),
        lengths_q=(126, 0, 60),
        lengths_kv=(0, 83, 77),
    ),
    core(
        name="empty-everywhere",
        description="First, last and neighbouring sequences empty on either side.",
        tags=("lengths", "empty", "keyless"),
        lengths_q=(0, 9, 0, 0, 70, 5, 0),
        lengths_kv=(4, 0, 0, 7, 66, 0, 0),
    ),
    core(
        name="empty-alternating",
        description="Every other sequence has no keys, so live and dead units "
        "alternate (NVIDIA/cudnn-frontend#575, #1532).",
        tags=("lengths", "empty", "keyless", "scheduler"),
        lengths_q=(20,) * 10,
        lengths_kv=(33, 0) * 5,
    ),
    core(
        name="empty-runs",
        description="Long runs of keyless sequences ahead of a live one.",
        tags=("lengths", "empty", "keyless", "scheduler"),
        lengths_q=(17,) * 14,
        lengths_kv=(0,) * 6 + (65,) + (0,) * 6 + (3,),
    ),
    core(
        name="all-queries-empty",
        description="No live query; O and LSE have capacity that must stay untouched.",
        tags=("lengths", "empty"),
        lengths_q=(0, 0, 0),
        lengths_kv=(5, 0, 70),
        tail_q=40,
    ),
    core(
        name="all-keys-empty",
        description="Every row is dead while K and V have real, NaN-filled buffers.",
        tags=("lengths", "empty", "keyless"),
        lengths_q=(33, 1, 70),
        lengths_kv=(0, 0, 0),
        tail_kv=64,
    ),
    core(
        name="all-keys-empty-no-buffer",
        description="Every row is dead and K and V have no tokens at all.",
        tags=("lengths", "empty", "keyless", "zero-capacity"),
        lengths_q=(33, 1),
        lengths_kv=(0, 0),
    ),
    core(
        name="zero-capacity",
        description="No query tokens and no capacity for any: nothing to launch.",
        tags=("lengths", "empty", "zero-capacity"),
        lengths_q=(0, 0),
        lengths_kv=(3, 4),
    ),
    core(
        name="everything-empty",
        description="Both sides empty, both with poisoned capacity.",
        tags=("lengths", "empty"),
        lengths_q=(0, 0, 0, 0),
        lengths_kv=(0, 0, 0, 0),
        tail_q=16,
        tail_kv=16,
    ),
    Scenario(
        name="declared-far-longer",
        description="Declared maxima far above the real lengths: most of the launched "
        "envelope is dead units (upstream test over_launched_units_are_dead).",
        tags=("lengths", "scheduler"),
        lengths_q=(3, 70),
        lengths_kv=(90, 5),
        max_len_q=4096,
        max_len_kv=4096,
    ),
)
