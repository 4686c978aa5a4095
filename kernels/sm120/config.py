"""Compile-time facts of one SM120 forward artifact and the sizes they imply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DTypeName = Literal["float16", "bfloat16"]
Anchor = Literal["top_left", "bottom_right"]
LseLayout = Literal["none", "token_major", "head_major"]

WARP = 32
ROWS_PER_WARP = 16
"""Rows of one `mma.sync.m16n8k16`; each consumer warp owns this many query rows."""

CHUNK = 64
"""Columns of one shared-memory column block: 64 two-byte elements are the 128 bytes
that the 128-byte swizzle spans."""

SMEM_LIMIT = 101_376
"""Shared memory one CTA may use on compute capability 12.0 (99 KiB)."""


@dataclass(frozen=True, kw_only=True)
class KernelConfig:
    """What the generated code depends on; every field is a plan-time fact.

    Batch, head counts, lengths, strides, window widths and the scale's magnitude are
    runtime arguments and must never appear here.
    """

    dtype: DTypeName
    head_dim: int
    tile_m: int
    anchor: Anchor
    has_left: bool
    has_right: bool
    has_sinks: bool
    lse: LseLayout
    prefix_q: bool
    prefix_kv: bool
    negative_scale: bool

    @property
    def tile_n(self) -> int:
        """Keys of one K/V tile."""
        return 64

    @property
    def stages(self) -> int:
        """Depth of the K ring and of the V ring; a power of two."""
        return 2

    @property
    def chunks(self) -> int:
        """64-column blocks that cover the head dimension (tile width 64 or 128)."""
        return -(-self.head_dim // CHUNK)

    @property
    def k_steps(self) -> int:
        """16-wide steps over the head dimension in Q K^T."""
        return -(-self.head_dim // 16)

    @property
    def d_tiles(self) -> int:
        """8-column accumulator tiles of the output."""
        return self.head_dim // 8

    @property
    def n_tiles(self) -> int:
        """8-column accumulator tiles of the scores."""
        return self.tile_n // 8

    @property
    def warps(self) -> int:
        """Consumer warps; the loader warp comes on top."""
        return self.tile_m // ROWS_PER_WARP

    @property
    def threads(self) -> int:
        """Threads of a CTA: consumers and one loader warp."""
        return (self.warps + 1) * WARP

    @property
    def q_bytes(self) -> int:
        """Bytes of the Q tile in shared memory, zero-filled columns included."""
        return self.tile_m * self.chunks * CHUNK * 2

    @property
    def kv_bytes(self) -> int:
        """Bytes of one K or V stage, zero-filled columns included."""
        return self.tile_n * self.chunks * CHUNK * 2

    @property
    def smem_bytes(self) -> int:
        """Upper bound of the CTA's shared memory, barriers and record included."""
        return self.q_bytes + 2 * self.stages * self.kv_bytes + 256
