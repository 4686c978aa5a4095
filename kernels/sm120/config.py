"""Compile-time facts of one SM120 forward artifact and the sizes they imply."""

from __future__ import annotations

from dataclasses import dataclass

from sidestream.kernels.common.config import CHUNK, ForwardContract

WARP = 32
BAND = 16
"""Rows of one `mma.sync.m16n8k16`."""

WARPS_PER_GROUP = 4
CONSUMER_REGISTERS = 232
LOADER_REGISTERS = 24
"""What `setmaxnreg` leaves a thread of either warpgroup of a 128-row tile: together
two CTAs then fit into the 65,536 registers of a multiprocessor."""

SMEM_LIMIT = 101_376
"""Shared memory one CTA may use on compute capability 12.0 (99 KiB)."""


@dataclass(frozen=True, kw_only=True)
class KernelConfig(ForwardContract):
    """What the generated code depends on; every field is a plan-time fact."""

    tile_m: int

    @property
    def cluster(self) -> int:
        """CTAs of a cluster."""
        return 1

    def unit_shape(self, heads_q: int, heads_kv: int) -> tuple[int, int]:
        """Query rows of a unit of the work list, and units per run of rows."""
        return self.tile_m, heads_q

    @property
    def tile_n(self) -> int:
        """Keys of one K/V tile."""
        return 64

    @property
    def stages(self) -> int:
        """Depth of the K ring and of the V ring; a power of two."""
        return 2

    @property
    def d_tiles(self) -> int:
        """8-column accumulator tiles of the output."""
        return self.head_dim // 8

    @property
    def n_tiles(self) -> int:
        """8-column accumulator tiles of the scores."""
        return self.tile_n // 8

    @property
    def bands(self) -> int:
        """Bands of 16 query rows that a consumer warp owns.

        Two where there are rows enough: every K and V fragment that `ldmatrix` brings
        then serves two products. With one, reading shared memory takes longer than the
        products do.
        """
        return 2 if self.tile_m == 128 else 1

    @property
    def rows_per_warp(self) -> int:
        """Query rows of a consumer warp."""
        return BAND * self.bands

    @property
    def warps(self) -> int:
        """Consumer warps; the loader warp comes on top."""
        return self.tile_m // self.rows_per_warp

    @property
    def moves_registers(self) -> bool:
        """Whether the loader's warpgroup hands registers to the consumers'."""
        return self.bands == 2

    @property
    def threads(self) -> int:
        """Threads of a CTA: consumers and one loader warp.

        Registers move between whole warpgroups only, so that the loader then has three
        idle warps beside it.
        """
        loader = WARPS_PER_GROUP if self.moves_registers else 1
        return (self.warps + loader) * WARP

    @property
    def ctas_per_sm(self) -> int:
        """CTAs that run together on a multiprocessor whose shared memory has room."""
        return 2

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
