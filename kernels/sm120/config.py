"""Compile-time facts of one SM120 forward artifact and the sizes they imply.

Every head dimension is served by the same code. A `Shape` says how the work is cut:
how many keys a tile has and how many rows a warp owns. docs/kernels.md has the memory
maps.
"""

from __future__ import annotations

from dataclasses import dataclass

from sidestream.kernels.common.config import ROW_BYTES, Boxes, Each, ForwardContract

WARP = 32
BAND = 16
"""Rows of one `mma.sync.m16n8k16`."""

WARPS_PER_GROUP = 4
LOADER_REGISTERS = 24
"""What `setmaxnreg` leaves a thread of the loader's warpgroup of a 128-row tile."""

SMEM_LIMIT = 101_376
"""Shared memory one CTA may use on compute capability 12.0 (99 KiB)."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How a range of head dimensions is cut.

    Attributes:
        largest: Largest head dimension of queries and keys, and of values.
        tile_n: Keys of one K/V tile.
        bands: Bands of 16 query rows that a warp of a 128-row tile owns. With two,
            every K and V fragment that `ldmatrix` brings serves two products; with
            one, reading shared memory takes longer than the products do. A band's
            output takes a register of each thread for every two columns.
        ctas_per_sm: CTAs whose registers fit into the 65,536 of a multiprocessor.
        registers: What `setmaxnreg` leaves a consumer thread of a 128-row tile; with
            the loader's warpgroup as many as the CTA started with.
        lag: Growth of a row's maximum, in log2 units, that its reference may lag
            behind. Until then weights reach at most 2^lag, which float16 holds, and
            the output is not rescaled. Narrow tiles of keys see more maxima rise, and
            a wide output has more to rescale.
    """

    largest: tuple[int, int]
    tile_n: int
    bands: int
    ctas_per_sm: int
    registers: int
    lag: float


SHAPES = (
    Shape(
        largest=(192, 128), tile_n=64, bands=2, ctas_per_sm=2, registers=232, lag=0.0
    ),
    Shape(
        largest=(256, 256), tile_n=32, bands=1, ctas_per_sm=1, registers=240, lag=8.0
    ),
)
"""By size; the first one that holds both head dimensions is used."""

NARROW_SHAPES = (
    Shape(
        largest=(256, 128), tile_n=64, bands=2, ctas_per_sm=2, registers=232, lag=0.0
    ),
    Shape(
        largest=(256, 256), tile_n=64, bands=1, ctas_per_sm=1, registers=240, lag=4.0
    ),
)
"""Of one-byte elements. Registers are what they are of two; stages take half."""


@dataclass(frozen=True, kw_only=True)
class KernelConfig(ForwardContract):
    """What the generated code depends on; every field is a plan-time fact."""

    tile_m: int

    @property
    def cluster(self) -> int:
        """CTAs of a cluster."""
        return 1

    @property
    def boxes(self) -> Each:
        """How Q, K and V are loaded: a whole tile of rows at a time."""
        return Each(
            Boxes(self.tile_m, (self.row_chunks,)),
            Boxes(self.tile_n, (self.chunks, self.stages)),
            Boxes(self.tile_n, (self.chunks_v, self.stages)),
        )

    def unit_shape(self, heads_q: int, heads_kv: int) -> tuple[int, int]:
        """Query rows of a unit of the work list, and units per run of rows."""
        return self.tile_m, heads_q

    @property
    def shape(self) -> Shape:
        """How the head dimensions are cut."""
        return self.first_of(NARROW_SHAPES if self.narrow else SHAPES)

    @property
    def tile_n(self) -> int:
        """Keys of one K/V tile."""
        return self.shape.tile_n

    @property
    def stages(self) -> int:
        """Depth of the K ring and of the V ring: two where they fit, else one.

        With one, V of a tile arrives beside the scores, and K of the next beside P V.
        """
        return 2 if self.smem_of(2) <= SMEM_LIMIT else 1

    @property
    def d_tiles(self) -> int:
        """8-column accumulator tiles of the output."""
        return self.head_dim_v // 8

    @property
    def lag(self) -> float:
        """Growth of a row's maximum that its reference may lag behind, in log2."""
        return self.shape.lag

    @property
    def f32x2(self) -> bool:
        """Whether every target has `fma.f32x2`: sm_90a has not."""
        return False

    @property
    def bias(self) -> float:
        """Log2 of the factor on all weights of a row: they reach 2^8 with the lag.

        One byte holds few weights far below a row's largest: E4M3 rounds what is under
        2^-10 to nothing. It holds 448, so that a factor costs nothing.
        """
        return 8.0 - self.shape.lag if self.narrow else 0.0

    @property
    def n_tiles(self) -> int:
        """8-column accumulator tiles of the scores."""
        return self.tile_n // 8

    @property
    def bands(self) -> int:
        """Bands of 16 query rows that a consumer warp owns.

        As many as the shape allows where there are rows enough for it.
        """
        return self.shape.bands if self.tile_m == 128 else 1

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
        return self.tile_m == 128

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
        return self.shape.ctas_per_sm

    @property
    def q_bytes(self) -> int:
        """Bytes of the Q tile in shared memory, zero-filled columns included."""
        return self.tile_m * self.chunks * ROW_BYTES

    @property
    def row_chunks(self) -> int:
        """Column blocks that the Q tile has room for: of Q, and then of O.

        Q of one byte is narrower than O of two. Such an O takes turns, so that the
        keys of another CTA have room.
        """
        return self.chunks if self.narrow else max(self.chunks, self.out_blocks)

    @property
    def out_turns(self) -> int:
        """Turns in which O leaves through the Q tile."""
        return -(-self.out_blocks // self.row_chunks)

    @property
    def k_bytes(self) -> int:
        """Bytes of one K stage, zero-filled columns included."""
        return self.tile_n * self.chunks * ROW_BYTES

    @property
    def v_bytes(self) -> int:
        """Bytes of one V stage, zero-filled columns included."""
        return self.tile_n * self.chunks_v * ROW_BYTES

    def smem_of(self, stages: int) -> int:
        """Upper bound of the shared memory with `stages`, barriers and record too."""
        rows = self.tile_m * self.row_chunks * ROW_BYTES
        return rows + stages * (self.k_bytes + self.v_bytes) + 256

    @property
    def smem_bytes(self) -> int:
        """Upper bound of the CTA's shared memory, barriers and record included."""
        return self.smem_of(self.stages)
