"""Compile-time facts of one SM100 forward artifact and the sizes they imply."""

from __future__ import annotations

from dataclasses import dataclass

from sidestream.kernels.common.config import CHUNK, ForwardContract

WARP = 32
GROUP = 128
"""Threads of a warpgroup: one per lane of tensor memory, so one per row of a tile."""

SUB_TILES = 2
"""Query tiles that a CTA works on at a time, each with softmax warps of its own."""

CLUSTER = 2
"""CTAs of a cluster. Each loads half of a K or V tile and sends it to both."""

SOFTMAX_WARP = 0
CORRECTION_WARP = 8
MATMUL_WARP = 12
LOADER_WARP = 13
EPILOGUE_WARP = 14
"""First warp of each role. Softmax and epilogue have one set per sub-tile; softmax and
correction start at a multiple of four, because warp w reaches lanes 32*(w mod 4) of
tensor memory (PTX ISA, "Access restrictions" of `tcgen05.ld` and `tcgen05.st`)."""

THREADS = 512

SOFTMAX_REGISTERS = 192
CORRECTION_REGISTERS = 88
OTHER_REGISTERS = 40
"""Registers a thread after `setmaxnreg`: 256*192 + 128*88 + 128*40 fill the file."""

SMEM_LIMIT = 232_448
"""Shared memory one CTA may use on compute capability 10.0 (227 KiB)."""


@dataclass(frozen=True, kw_only=True)
class KernelConfig(ForwardContract):
    """What the generated code depends on; every field is a plan-time fact."""

    @property
    def ctas_per_sm(self) -> int:
        """CTAs that run together on a multiprocessor."""
        return 1

    @property
    def tile_m(self) -> int:
        """Query rows of a sub-tile: M of the matrix instruction."""
        return 128

    @property
    def tile_n(self) -> int:
        """Keys of one K/V tile."""
        return 128

    @property
    def cta_rows(self) -> int:
        """Query rows of one head that a CTA works on at a time."""
        return SUB_TILES * self.tile_m

    @property
    def cluster(self) -> int:
        """CTAs of a cluster; they share every K and V tile."""
        return CLUSTER

    def unit_shape(self, heads_q: int, heads_kv: int) -> tuple[int, int]:
        """Query rows of a unit of the work list, and units per run of rows.

        The pair shares the keys of a unit: two query heads of one group where groups
        are even, else twice as many rows of one head.
        """
        if heads_q // heads_kv % CLUSTER == 0:
            return self.cta_rows, heads_q // CLUSTER
        return CLUSTER * self.cta_rows, heads_q

    @property
    def width(self) -> int:
        """Head dimension in shared and tensor memory, zero columns included."""
        return self.chunks * CHUNK

    @property
    def stages(self) -> int:
        """Depth of the ring that K and V tiles share."""
        return 3 if self.width > CHUNK else 6

    @property
    def box(self) -> int:
        """Rows of one TMA load: half a tile of Q, K or V."""
        return 64

    @property
    def q_bytes(self) -> int:
        """Bytes of one sub-tile of Q, zero-filled columns included; O has as many."""
        return self.tile_m * self.width * 2

    @property
    def kv_bytes(self) -> int:
        """Bytes of one K or V tile, zero-filled columns included."""
        return self.tile_n * self.width * 2

    @property
    def smem_bytes(self) -> int:
        """Upper bound of the CTA's shared memory, messages and barriers included."""
        messages = SUB_TILES * self.tile_m * 2 * 4
        return (
            2 * SUB_TILES * self.q_bytes + self.stages * self.kv_bytes + messages + 512
        )
