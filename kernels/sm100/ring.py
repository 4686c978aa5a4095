"""The loader's side of the ring that slices of K and V pass through.

A stage is claimed when both CTAs have given it back. Each CTA of the pair loads its
half of a slice and sends it to both, so that a stage is full when both halves have
landed; where the pair splits the columns of V, each loads its own. Halves that hold
nothing of the sequence are left out, and no bytes are expected of them.
"""

import cutlass
from cutlass import Int16, Int32, cute

from sidestream.kernels.common import phases
from sidestream.kernels.common.config import ATOM_BYTES
from sidestream.kernels.sm100 import barriers as bar
from sidestream.kernels.sm100.config import BLOCK_BYTES, CLUSTER, KernelConfig
from sidestream.kernels.sm100.scales import Atoms, load_atom

BOTH = (1 << CLUSTER) - 1
"""Multicast mask of the pair."""


@cute.jit
def claim_stage(
    config: cutlass.Constexpr[KernelConfig], barriers: cute.Pointer, count: Int32
) -> tuple[Int32, cute.Pointer]:
    """Stage of slice `count`, free in both CTAs, and the barrier that hears of it."""
    stages = config.stages
    stage, parity = phases.stage_and_parity(count, stages)
    bar.wait_pair(barriers + (bar.TILE_EMPTY + stage), parity ^ 1)
    return stage, barriers + (bar.TILE_FULL + stage)


@cute.jit
def fill_stage(
    atom: cute.CopyAtom,
    shared: cute.Tensor,
    tokens: cute.Tensor,
    stage: Int32,
    full: cute.Pointer,
    share: Int32,
    sharers: cutlass.Constexpr[int],
    row: Int32,
    column: Int32,
    blocks: cutlass.Constexpr[int],
    expected: Int32,
    keys: Int32,
    first: Int32,
) -> None:
    """Load this CTA's share of a slice for every sharer, unless it has no `keys` left.

    It is box `row` of the tokens, from key `first` of the tile on, and `blocks` column
    blocks from `column` on. The barrier waits for the `expected` bytes of all shares.
    """
    with cute.arch.elect_one():
        phases.expect_bytes(full, expected)
    if keys > first:
        for block in cutlass.range_constexpr(blocks):
            source = tokens[None, row, column + block]
            target = shared[None, share, block, stage]
            if cutlass.const_expr(sharers == 1):
                cute.copy(atom, source, target, tma_bar_ptr=full)
            else:
                cute.copy(
                    atom, source, target, tma_bar_ptr=full, mcast_mask=Int16(BOTH)
                )


@cute.jit
def load_keys(
    config: cutlass.Constexpr[KernelConfig],
    atom: cute.CopyAtom,
    shared: cute.Tensor,
    tokens: cute.Tensor,
    tile: Int32,
    keys: Int32,
    count: Int32,
    rank: Int32,
    barriers: cute.Pointer,
    atoms: cute.Pointer,
    found: Atoms,
) -> None:
    """Load this CTA's half of a K tile, for both; `count` is its first slice.

    A half without any of the `keys` that are left is not loaded: its scores are
    masked, whatever lies there.
    """
    for part in cutlass.range_constexpr(config.k_slices):
        blocks = config.k_blocks(part)
        stage, full = claim_stage(config, barriers, count + part)
        expected = Int32(blocks * BLOCK_BYTES)
        if keys <= config.box:
            expected = Int32(blocks * BLOCK_BYTES // CLUSTER)
        if cutlass.const_expr(config.block_scaled):
            expected = expected + ATOM_BYTES
        fill_stage(
            atom,
            shared,
            tokens,
            stage,
            full,
            rank,
            CLUSTER,
            CLUSTER * tile + rank,
            part * config.stage_blocks,
            blocks,
            expected,
            keys,
            rank * config.box,
        )
        if cutlass.const_expr(config.block_scaled):
            place = atoms + stage * ATOM_BYTES
            load_atom(found.scales, found.head, found.first + tile, place, full)


@cute.jit
def load_values(
    config: cutlass.Constexpr[KernelConfig],
    atom: cute.CopyAtom,
    shared: cute.Tensor,
    tokens: cute.Tensor,
    tile: Int32,
    keys: Int32,
    count: Int32,
    rank: Int32,
    barriers: cute.Pointer,
    atoms: cute.Pointer,
    found: Atoms,
) -> None:
    """Load this CTA's share of a V tile; `count` is its first slice.

    As `load_keys`: what is not loaded is cleared before it is used. Where the pair
    splits the columns, the share is every row of the CTA's own.
    """
    box = config.box_v
    share, column = rank, Int32(0)
    if cutlass.const_expr(config.split_values):
        share, column = Int32(0), rank * config.chunks_v
    for part in cutlass.range_constexpr(config.v_slices):
        stage, full = claim_stage(config, barriers, count + part)
        expected = Int32(0)
        for other in cutlass.range_constexpr(config.v_sharers):
            if keys > part * config.v_keys + other * box:
                expected = Int32((other + 1) * config.stage_bytes // config.v_sharers)
        if cutlass.const_expr(config.block_scaled):
            expected = expected + ATOM_BYTES
        fill_stage(
            atom,
            shared,
            tokens,
            stage,
            full,
            share,
            config.v_sharers,
            (config.v_slices * tile + part) * config.v_sharers + share,
            column,
            config.chunks_v,
            expected,
            keys,
            part * config.v_keys + share * box,
        )
        if cutlass.const_expr(config.block_scaled):
            place = atoms + stage * ATOM_BYTES
            load_atom(found.scales, found.head, found.first + tile, place, full)
