"""Scenarios about the world around the call: streams, scratch, capacity."""

from __future__ import annotations

from sidestream.scenarios.core import core
from sidestream.scenarios.fill import SCRATCH
from sidestream.scenarios.scenario import Scenario


def _poisoned(pattern: str) -> Scenario:
    """Same numbers under every pattern, so results must be bitwise equal."""
    return core(
        name=f"scratch-{pattern}",
        description=f"Workspace filled with the pattern '{pattern}' before the call; "
        "nothing may be assumed of it (flashinfer-ai/flashinfer#1584).",
        tags=("host", "scratch"),
        heads_q=4,
        heads_kv=2,
        lengths_q=(20, 0, 65, 3),
        lengths_kv=(70, 9, 65, 0),
        scratch=pattern,
    )


HOST: tuple[Scenario, ...] = (
    *(_poisoned(pattern) for pattern in SCRATCH),
    core(
        name="side-stream",
        description="The handle's stream is not torch's current one: every operation "
        "must be ordered on the handle's (NVIDIA/cudnn-frontend#543, #614).",
        tags=("host", "stream", "smoke"),
        lengths_q=(33, 100),
        lengths_kv=(67, 111),
        stream="side",
    ),
    core(
        name="side-stream-prefix",
        description="Side stream, prefix sums with bases and poisoned scratch "
        "(NVIDIA/cudnn-frontend#483: the call falls back to stream 0).",
        tags=("host", "stream", "prefix", "prefix-base"),
        lengths_q=(9, 0, 40),
        lengths_kv=(70, 5, 12),
        base_q=3,
        base_kv=11,
        stream="side",
        scratch="large",
    ),
    core(
        name="side-stream-keyless",
        description="Zero-key fills belong on the launch stream too (found in review "
        "of NVIDIA/cudnn-frontend#512).",
        tags=("host", "stream", "empty", "keyless"),
        lengths_q=(20, 33),
        lengths_kv=(0, 0),
        tail_kv=8,
        stream="side",
        scratch="ones",
    ),
    Scenario(
        name="output-guarded",
        description="Capacity past the live rows and gaps between them: an output tile "
        "that overshoots writes a neighbour or a guard.",
        tags=("host", "bounds", "strides"),
        lengths_q=(1, 127, 2, 65),
        lengths_kv=(30, 64, 65, 3),
        out_layout="padded",
        tail_q=64,
        lse="head_major",
        lse_slack=3,
    ),
    Scenario(
        name="last-sequence-one-row",
        description="A long sequence, then one with a single row: descriptors that are "
        "patched per sequence shrink to one row (NVIDIA/cudnn-frontend#1015).",
        tags=("host", "bounds", "lengths"),
        heads_q=4,
        heads_kv=1,
        head_dim=128,
        lengths_q=(127, 1),
        lengths_kv=(40, 9),
        lengths_q_form="prefix",
        tail_q=20,
    ),
    core(
        name="over-provisioned-grid",
        description="Four or more sequences that are no multiple of the tile, so a "
        "grid sized from totals has invalid tiles that read cu_seqlens[B + 1] "
        "(Dao-AILab/flash-attention#2860).",
        tags=("host", "bounds", "lengths"),
        heads_q=1,
        lengths_q=(33, 70, 5, 90, 17),
        lengths_kv=(33, 70, 5, 90, 17),
        tail_q=3,
        tail_kv=3,
    ),
)
