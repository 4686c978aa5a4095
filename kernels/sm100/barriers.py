"""Barriers of a CTA: who arrives and who waits (`common/phases.py` tells of parities).

A sub-tile without work has no events: nobody arrives and nobody waits for it.

    name           arrivals                      event
    RECORD_FULL    1 loader lane                 a unit record is written
    RECORD_EMPTY   1 per reading warp            a unit record has been copied
    Q_FULL[s]      1 loader lane + bytes         Q of sub-tile s has landed
    Q_EMPTY[s]     1 commit                      its last Q K^T has read it
    TILE_FULL[i]   1 loader lane + bytes         a slice of a K or V tile has landed
    TILE_EMPTY[i]  1 commit of each CTA          its last product in each has read it
    V_LANDED       1 matrix lane                 V of a unit's first tile has landed
    S_FULL[p]      1 commit                      scores are in slot p
    P_READY[p]     128 softmax, 128 correction   P is in place of S; O may be added to
    STATS_FULL[s]  128 softmax                   a message of the softmax is written
    STATS_EMPTY[s] 128 correction                and has been read
    O_FULL[s]      1 commit                      the last P V of a unit is complete;
                                                 with one sub-tile, any P V is
    STAGED[b]      128 correction                a block of finished rows is staged
    DRAINED[b]     1 epilogue lane               and has been stored
    CLAIM_FULL     1 loader lane + bytes         the pair's next unit is known (rank 1)
    CLAIM_EMPTY    1 loader lane of rank 1       and has been read (rank 0)

K and V go to both CTAs of the pair: a stage is free when both have read theirs, and
full when both halves have landed. Everything else stays within a CTA.

With two sub-tiles s, the slot p of the scores is the sub-tile's. A single one uses the
slots in turn, so that the slot follows from the count of its tiles.

Only roles that follow every phase of a stage may wait for it: a parity tells two phases
apart and no more. The correction warps, which touch V once a unit, are told by the
matrix warp.
"""

import cutlass
from cutlass import Boolean, Int32, cute
from cutlass._mlir.dialects import nvvm

from sidestream.kernels.sm100.config import (
    CLUSTER,
    EPILOGUE_WARPS,
    GROUP,
    SLOTS,
    WARP,
    KernelConfig,
)

RECORDS = 2
"""Depth of the ring of unit records."""

SUB_TILES = 2
"""Sub-tiles that there are barriers for; a shape may use one."""

MOST_STAGES = 6
"""Stages of the ring that there are barriers for."""

OUT_BLOCKS = 4
"""Output buffers that there are barriers for, those of all sub-tiles."""

RECORD_FULL = 0
RECORD_EMPTY = RECORD_FULL + RECORDS
Q_FULL = RECORD_EMPTY + RECORDS
Q_EMPTY = Q_FULL + SUB_TILES
S_FULL = Q_EMPTY + SUB_TILES
P_READY = S_FULL + SLOTS
STATS_FULL = P_READY + SLOTS
STATS_EMPTY = STATS_FULL + SUB_TILES
O_FULL = STATS_EMPTY + SUB_TILES
STAGED = O_FULL + SUB_TILES
DRAINED = STAGED + OUT_BLOCKS
CLAIM_FULL = DRAINED + OUT_BLOCKS
CLAIM_EMPTY = CLAIM_FULL + 1
V_LANDED = CLAIM_EMPTY + 1
TILE_FULL = V_LANDED + 1
TILE_EMPTY = TILE_FULL + MOST_STAGES
COUNT = TILE_EMPTY + MOST_STAGES


def record_readers(config: KernelConfig) -> int:
    """Warps that read every record: softmax, correction, matrix and epilogue warps."""
    groups = config.sub_tiles + 1
    return groups * (GROUP // WARP) + 1 + EPILOGUE_WARPS


def arrivals(config: KernelConfig) -> list[int]:
    """Arrivals that complete a phase, by barrier; 0 for one that is not used."""
    subs, blocks = config.sub_tiles, config.sub_tiles * config.out_buffers
    groups = (
        (RECORDS, RECORDS, 1),  # RECORD_FULL
        (RECORDS, RECORDS, record_readers(config)),  # RECORD_EMPTY
        (SUB_TILES, subs, 1),  # Q_FULL
        (SUB_TILES, subs, 1),  # Q_EMPTY
        (SLOTS, SLOTS, 1),  # S_FULL
        (SLOTS, SLOTS, 2 * GROUP),  # P_READY
        (SUB_TILES, subs, GROUP),  # STATS_FULL
        (SUB_TILES, subs, GROUP),  # STATS_EMPTY
        (SUB_TILES, subs, 1),  # O_FULL
        (OUT_BLOCKS, blocks, GROUP),  # STAGED
        (OUT_BLOCKS, blocks, 1),  # DRAINED
        (1, 1, 1),  # CLAIM_FULL
        (1, 1, 1),  # CLAIM_EMPTY
        (1, 1, 1),  # V_LANDED
        (MOST_STAGES, config.stages, 1),  # TILE_FULL
        (MOST_STAGES, config.stages, CLUSTER),  # TILE_EMPTY
    )
    counts: list[int] = []
    for places, used, count in groups:
        counts += [count] * used + [0] * (places - used)
    return counts


@cute.jit
def slot_and_count(
    config: cutlass.Constexpr[KernelConfig], sub: Int32, tiles: Int32
) -> tuple[Int32, Int32]:
    """Slot of a sub-tile's tile number `tiles`, and its number among the slot's."""
    slot, count = Int32(sub), tiles
    if cutlass.const_expr(config.sub_tiles == 1):
        slot = tiles % SLOTS
        count = tiles // SLOTS
    return slot, count


@cute.jit
def wait_pair(barrier: cute.Pointer, parity: Int32) -> None:
    """Wait for arrivals of the other CTA too: acquire at the scope they release at.

    The default scope of a wait is the CTA, and then nothing that the other CTA did
    before would be ordered before this (PTX ISA, "mbarrier.test_wait, try_wait").
    """
    done = Boolean(False)  # noqa: FBT003 - a literal of the DSL
    while not done:
        done = Boolean(
            nvvm.mbarrier_wait_parity(
                barrier.to_llvm_ptr(),
                parity.ir_value(),
                nvvm.MBarrierWaitKind.TRY,
                scope=nvvm.MemScopeKind.CLUSTER,
            )
        )
