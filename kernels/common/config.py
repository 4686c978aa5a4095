"""Plan-time facts that the kernels of every architecture share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DTypeName = Literal["float16", "bfloat16"]
Anchor = Literal["top_left", "bottom_right"]
LseLayout = Literal["none", "token_major", "head_major"]

CHUNK = 64
"""Columns of one shared-memory column block: 64 two-byte elements are the 128 bytes
that the 128-byte swizzle spans."""


@dataclass(frozen=True, kw_only=True)
class ForwardContract:
    """What the generated code depends on, whatever the chip.

    Batch, head counts, lengths, strides, window widths and the scale's magnitude are
    runtime arguments and must never appear here.
    """

    dtype: DTypeName
    head_dim: int
    head_dim_v: int
    anchor: Anchor
    has_left: bool
    has_right: bool
    has_sinks: bool
    lse: LseLayout
    prefix_q: bool
    prefix_kv: bool
    negative_scale: bool

    @property
    def chunks(self) -> int:
        """64-column blocks that cover the head dimension of queries and keys."""
        return -(-self.head_dim // CHUNK)

    @property
    def k_steps(self) -> int:
        """16-wide steps over the head dimension in Q K^T."""
        return -(-self.head_dim // 16)
