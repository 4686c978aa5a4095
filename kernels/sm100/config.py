"""Compile-time facts of one SM100 forward artifact and the sizes they imply.

Every head dimension is served by the same code. What differs is how the work is cut:
a `Shape` (`shape.py`) says how many query tiles a CTA holds, in which slices K and V
pass through shared memory, and whether the pair of CTAs shares the columns of V.
"""

from __future__ import annotations

from dataclasses import dataclass

from sidestream.kernels.common.config import (
    ATOM_BYTES,
    ROW_BYTES,
    Boxes,
    Each,
    ForwardContract,
)
from sidestream.kernels.sm100.shape import NARROW_SHAPES, SCALED_SHAPES, SHAPES, Shape

WARP = 32
GROUP = 128
"""Threads of a warpgroup: one per lane of tensor memory, so one per row of a tile."""

CLUSTER = 2
"""CTAs of a cluster. They work on one unit and need the same keys."""

SLOTS = 2
"""Places for a tile of scores in tensor memory: one for each query tile of a CTA, or
two that a single query tile uses in turn."""

EPILOGUE_WARPS = 2

SMEM_LIMIT = 232_448
"""Shared memory one CTA may use on compute capability 10.0 (227 KiB)."""

BLOCK_BYTES = 128 * ROW_BYTES
"""Bytes of 128 rows of one column block: 64 columns of two bytes, 128 of one."""


@dataclass(frozen=True, kw_only=True)
class KernelConfig(ForwardContract):
    """What the generated code depends on; every field is a plan-time fact."""

    @property
    def shape(self) -> Shape:
        """How the head dimensions are cut."""
        if self.block_scaled:
            return self.first_of(SCALED_SHAPES)
        return self.first_of(NARROW_SHAPES if self.narrow else SHAPES)

    @property
    def lag(self) -> float:
        """Growth of a row's maximum, in log2 units, that its reference may lag behind.

        Weights reach 2^(lag + bias): 2^8, which every format holds.
        """
        return 4.0 if self.narrow else 8.0

    @property
    def bias(self) -> float:
        """Log2 of the factor on all weights of a row.

        One byte holds few weights far below a row's largest: E4M3 rounds what is under
        2^-10 to nothing. The factor takes it to 2^-14.
        """
        return 4.0 if self.narrow else 0.0

    @property
    def f32x2(self) -> bool:
        """Whether every target has `fma.f32x2`."""
        return True

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
    def sub_tiles(self) -> int:
        """Query tiles that a CTA works on at a time."""
        return self.shape.sub_tiles

    @property
    def lead(self) -> int:
        """Tiles by which Q K^T runs ahead of P V, as many as a sub-tile has slots."""
        return SLOTS // self.sub_tiles

    @property
    def cta_rows(self) -> int:
        """Query rows of one head that a CTA works on at a time."""
        return self.sub_tiles * self.tile_m

    @property
    def cluster(self) -> int:
        """CTAs of a cluster; they share every K and V tile."""
        return CLUSTER

    @property
    def boxes(self) -> Each:
        """How Q, K and V are loaded: halves of tiles, and shares of slices of V."""
        return Each(
            Boxes(self.box, (2, self.chunks, self.sub_tiles)),
            Boxes(self.box, (CLUSTER, self.stage_blocks, self.stages), multicast=True),
            Boxes(
                self.box_v,
                (self.v_sharers, self.chunks_v, self.stages),
                multicast=self.v_sharers > 1,
            ),
        )

    def unit_shape(self, heads_q: int, heads_kv: int) -> tuple[int, int]:
        """Query rows of a unit of the work list, and units per run of rows.

        The pair shares the keys of a unit: the same rows with half of the values
        each, or two query heads of one group where groups are even, else twice as
        many rows of one head.
        """
        if self.split_values:
            return self.cta_rows, heads_q
        if heads_q // heads_kv % CLUSTER == 0:
            return self.cta_rows, heads_q // CLUSTER
        return CLUSTER * self.cta_rows, heads_q

    @property
    def split_values(self) -> bool:
        """Whether each CTA of the pair has half of the columns of V and O."""
        return self.shape.split_values

    @property
    def correction_warp(self) -> int:
        """First correction warp; the softmax warps of every sub-tile come before.

        Softmax and correction start at a multiple of four, because warp w reaches
        lanes 32*(w mod 4) of tensor memory (PTX ISA, "Access restrictions" of
        `tcgen05.ld` and `tcgen05.st`).
        """
        return self.sub_tiles * (GROUP // WARP)

    @property
    def matmul_warp(self) -> int:
        """The warp that issues matrix products."""
        return self.correction_warp + GROUP // WARP

    @property
    def loader_warp(self) -> int:
        """The warp that claims units and loads."""
        return self.matmul_warp + 1

    @property
    def epilogue_warp(self) -> int:
        """First of the epilogue warps."""
        return self.loader_warp + 1

    @property
    def threads(self) -> int:
        """Threads of a CTA, a warpgroup of single warps included."""
        return (self.sub_tiles + 2) * GROUP

    @property
    def width(self) -> int:
        """Head dimension of Q and K in shared memory, zero columns included."""
        return self.chunks * self.chunk

    @property
    def width_v(self) -> int:
        """Columns of V and O that a CTA works on, zero columns included.

        A power of two, so that a whole number of keys fills a stage.
        """
        own = self.head_dim_v
        if self.split_values:
            own = -(-own // 2)
        width = self.stage_bytes // (self.element_bytes * self.tile_n)
        while width < own:
            width *= 2
        return width

    @property
    def chunks_v(self) -> int:
        """Column blocks of V that a CTA works on."""
        return self.width_v // self.chunk

    @property
    def out_blocks(self) -> int:
        """Column blocks of O that a CTA stages, as many for each of its buffers.

        Columns that are there to fill a stage of V make no block.
        """
        if self.split_values:
            return self.width_v // self.out_chunk
        needed = -(-self.head_dim_v // self.out_chunk)
        buffers = min(self.shape.out_buffers, needed)
        return -(-needed // buffers) * buffers

    @property
    def stage_blocks(self) -> int:
        """Column blocks of K in one slice."""
        return self.shape.stage_blocks

    @property
    def stage_bytes(self) -> int:
        """Bytes of one stage of the ring."""
        return self.stage_blocks * BLOCK_BYTES

    @property
    def stages(self) -> int:
        """Depth of the ring that slices of K and V tiles share."""
        return self.shape.stages

    @property
    def k_slices(self) -> int:
        """Slices of a K tile, each of all keys and some columns."""
        return -(-self.chunks // self.stage_blocks)

    def k_blocks(self, part: int) -> int:
        """Column blocks that slice `part` of a K tile has."""
        return min(self.stage_blocks, self.chunks - part * self.stage_blocks)

    def k_slice_steps(self, part: int) -> int:
        """`k_width`-wide steps over the head dimension in slice `part` of a K tile."""
        per_slice = self.stage_blocks * self.chunk // self.k_width
        return min(per_slice, self.k_steps - part * per_slice)

    @property
    def v_keys(self) -> int:
        """Keys of one slice of a V tile, which has all of the CTA's columns."""
        return self.stage_bytes // (self.element_bytes * self.width_v)

    @property
    def v_slices(self) -> int:
        """Slices of a V tile."""
        return self.tile_n // self.v_keys

    @property
    def box(self) -> int:
        """Rows of one TMA load of Q, and of K: half a tile."""
        return 64

    @property
    def v_sharers(self) -> int:
        """CTAs that load a slice of V together and all receive it."""
        return 1 if self.split_values else CLUSTER

    @property
    def box_v(self) -> int:
        """Rows of one TMA load of V: a CTA's share of a slice."""
        return self.v_keys // self.v_sharers

    @property
    def out_buffers(self) -> int:
        """Column blocks of finished rows per sub-tile on their way out."""
        return min(self.shape.out_buffers, self.out_blocks)

    @property
    def q_bytes(self) -> int:
        """Bytes of one sub-tile of Q, zero-filled columns included."""
        return self.chunks * BLOCK_BYTES

    @property
    def atoms(self) -> int:
        """Atoms of scales in shared memory: one for every stage, then one for Q."""
        return self.stages + 1 if self.block_scaled else 0

    @property
    def smem_bytes(self) -> int:
        """Upper bound of the CTA's shared memory, messages and barriers included."""
        messages = self.sub_tiles * self.tile_m * 2 * 4
        out = self.sub_tiles * self.out_buffers * BLOCK_BYTES
        ring = self.stages * self.stage_bytes
        scales = self.atoms * ATOM_BYTES
        return self.sub_tiles * self.q_bytes + ring + out + messages + scales + 512
