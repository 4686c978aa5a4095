"""Scenarios about heads, head dims, strides, length forms and LSE layouts."""

from __future__ import annotations

from sidestream.scenarios.core import core
from sidestream.scenarios.scenario import Scenario


def _head_dim(dim: int, dtype: str) -> Scenario:
    """One head dim: how far a row fills its 64-column blocks of shared memory."""
    return Scenario(
        name=f"d{dim}-{'fp16' if dtype == 'float16' else 'bf16'}",
        description=f"Head dim {dim}: columns past it in a tile must be zero.",
        tags=("layout", "head-dim"),
        dtype=dtype,
        head_dim=dim,
        heads_q=2,
        heads_kv=1,
        lengths_q=(70, 9),
        lengths_kv=(66, 30),
        causal="bottom_right",
        tail_kv=16,
    )


LAYOUT: tuple[Scenario, ...] = (
    _head_dim(8, "float16"),
    _head_dim(40, "bfloat16"),
    _head_dim(72, "float16"),
    _head_dim(96, "bfloat16"),
    _head_dim(128, "float16"),
    core(
        name="mha",
        description="Each query head has a key head of its own.",
        tags=("layout", "heads"),
        heads_q=3,
        heads_kv=3,
        lengths_q=(40, 66),
        lengths_kv=(50, 66),
    ),
    core(
        name="gqa",
        description="Groups of query heads share a key head; swapped heads of O or LSE "
        "show. Fully distinct values in every head.",
        tags=("layout", "heads", "gqa"),
        heads_q=8,
        heads_kv=2,
        lengths_q=(33, 20),
        lengths_kv=(70, 20),
    ),
    Scenario(
        name="mqa",
        description="One key head for all query heads.",
        tags=("layout", "heads", "gqa"),
        dtype="float16",
        heads_q=6,
        heads_kv=1,
        lengths_q=(33, 20),
        lengths_kv=(70, 20),
        causal="top_left",
    ),
    Scenario(
        name="gqa-one-query",
        description="One query token a sequence and 8 query heads over 2 key heads: "
        "LSE was written for the first head of each group only "
        "(NVIDIA/cudnn-frontend#1083).",
        tags=("layout", "heads", "gqa", "decode", "lse"),
        heads_q=8,
        heads_kv=2,
        lengths_q=(1, 1, 1),
        lengths_kv=(40, 70, 3),
        lse="head_major",
        lse_slack=5,
    ),
    core(
        name="identical-requests",
        description="Equal lengths in every sequence with five queries each: a wrong "
        "request offset still looks plausible (flashinfer-ai/flashinfer#4382).",
        tags=("layout", "decode"),
        heads_q=4,
        heads_kv=1,
        lengths_q=(5, 5, 5, 5),
        lengths_kv=(40, 40, 40, 40),
    ),
    Scenario(
        name="lse-head-major",
        description="LSE as (heads, tokens) with a head stride beyond the capacity.",
        tags=("layout", "lse"),
        heads_q=4,
        heads_kv=2,
        lengths_q=(65, 0, 12),
        lengths_kv=(65, 4, 40),
        lse="head_major",
        lse_slack=7,
        tail_q=9,
    ),
    Scenario(
        name="lse-none",
        description="No LSE asked for: none may be written.",
        tags=("layout", "lse"),
        lengths_q=(65, 12),
        lengths_kv=(65, 40),
        lse="none",
    ),
    core(
        name="kv-pair",
        description="K and V are halves of one [tokens, 2, heads, dim] record; "
        "capacity taken from numel over stride is half of the truth "
        "(NVIDIA/cudnn-frontend#613).",
        tags=("layout", "strides"),
        heads_q=4,
        heads_kv=2,
        lengths_q=(20, 70),
        lengths_kv=(100, 65),
        layout="kv_pair",
        tail_kv=10,
    ),
    core(
        name="fused-qkv",
        description="Q, K and V are slices of one fused projection "
        "(Dao-AILab/flash-attention#2670).",
        tags=("layout", "strides"),
        heads_q=4,
        heads_kv=2,
        lengths_q=(64, 33),
        lengths_kv=(64, 33),
        layout="fused_qkv",
        tail_q=5,
        tail_kv=5,
    ),
    Scenario(
        name="padded-tokens",
        description="NaN between tokens of Q, K and V, and guarded gaps in O.",
        tags=("layout", "strides"),
        heads_q=3,
        heads_kv=1,
        head_dim=40,
        lengths_q=(33, 12),
        lengths_kv=(70, 12),
        layout="padded",
        out_layout="padded",
    ),
    core(
        name="spread-heads",
        description="Head strides above the head dim: NaN between heads as well.",
        tags=("layout", "strides", "head-stride"),
        heads_q=4,
        heads_kv=2,
        lengths_q=(33, 12),
        lengths_kv=(70, 12),
        layout="spread",
        out_layout="spread",
    ),
    core(
        name="prefix-both",
        description="Both sides as prefix sums, base 0; read as counts they are wrong "
        "(NVIDIA/cudnn-frontend#587).",
        tags=("layout", "prefix"),
        lengths_q=(33, 0, 70),
        lengths_kv=(12, 65, 64),
    ),
    Scenario(
        name="prefix-query-only",
        description="Prefix sums for queries, counts for keys.",
        tags=("layout", "prefix"),
        lengths_q=(33, 70),
        lengths_kv=(65, 64),
        lengths_q_form="prefix",
    ),
    Scenario(
        name="prefix-key-only",
        description="Counts for queries, prefix sums for keys.",
        tags=("layout", "prefix"),
        lengths_q=(33, 70),
        lengths_kv=(65, 64),
        lengths_kv_form="prefix",
    ),
    core(
        name="prefix-bases-differ",
        description="Nonzero bases, another on each side: same lengths, buffers still "
        "addressed from token 0 (found in review of NVIDIA/cudnn-frontend#606).",
        tags=("layout", "prefix", "prefix-base"),
        lengths_q=(33, 0, 70),
        lengths_kv=(12, 65, 64),
        base_q=1000,
        base_kv=77,
    ),
    core(
        name="prefix-base-large",
        description="Bases near the end of int32, whose sums with a token still fit.",
        tags=("layout", "prefix", "prefix-base"),
        lengths_q=(9, 30),
        lengths_kv=(40, 3),
        base_q=2**31 - 1 - 39,
        base_kv=2**31 - 1 - 43,
    ),
)
