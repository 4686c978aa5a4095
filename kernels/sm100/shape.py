"""How a range of head dimensions is cut: query tiles, slices of K and V, buffers.

docs/kernels.md has the memory maps that these numbers make.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How a range of head dimensions is cut.

    Attributes:
        largest: Largest head dimension of queries and keys, and of values.
        sub_tiles: Query tiles of 128 rows that a CTA works on at a time. A single one
            uses both places for scores, so that products run while it is weighed.
        stage_blocks: Column blocks of 128 rows that a stage of the ring holds.
        stages: Depth of the ring that slices of K and V share.
        out_buffers: Column blocks of finished rows per query tile on their way out.
        split_values: Whether both CTAs of the pair work on the same rows, each with
            half of the columns of V and O.
        registers: Of softmax, correction and other threads after `setmaxnreg`.
    """

    largest: tuple[int, int]
    sub_tiles: int
    stage_blocks: int
    stages: int
    out_buffers: int
    split_values: bool
    registers: tuple[int, int, int]


_TWO_TILES = (192, 88, 40)
"""256*192 + 128*88 + 128*40 fill the register file."""
_ONE_TILE = (240, 168, 96)
"""The three warpgroups start with 168 each."""

SHAPES = (
    Shape(
        largest=(64, 64),
        sub_tiles=2,
        stage_blocks=1,
        stages=6,
        out_buffers=1,
        split_values=False,
        registers=_TWO_TILES,
    ),
    Shape(
        largest=(128, 128),
        sub_tiles=2,
        stage_blocks=2,
        stages=3,
        out_buffers=2,
        split_values=False,
        registers=_TWO_TILES,
    ),
    Shape(
        largest=(192, 128),
        sub_tiles=2,
        stage_blocks=1,
        stages=6,
        out_buffers=1,
        split_values=False,
        registers=_TWO_TILES,
    ),
    Shape(
        largest=(256, 256),
        sub_tiles=1,
        stage_blocks=2,
        stages=4,
        out_buffers=2,
        split_values=False,
        registers=_ONE_TILE,
    ),
    Shape(
        largest=(512, 512),
        sub_tiles=1,
        stage_blocks=1,
        stages=4,
        out_buffers=2,
        split_values=True,
        registers=_ONE_TILE,
    ),
)
"""By size; the first one that holds both head dimensions is used."""

NARROW_SHAPES = (
    Shape(
        largest=(128, 128),
        sub_tiles=2,
        stage_blocks=1,
        stages=6,
        out_buffers=2,
        split_values=False,
        registers=_TWO_TILES,
    ),
)
"""Of one-byte elements; a column block has 128 of them."""

SCALED_SHAPES = (
    Shape(
        largest=(128, 128),
        sub_tiles=1,
        stage_blocks=1,
        stages=6,
        out_buffers=2,
        split_values=False,
        registers=_ONE_TILE,
    ),
)
"""Of one-byte elements with scales, which take columns of tensor memory that a second
query tile would leave none of."""
