"""Barriers of a CTA: who arrives, who waits, and the parity that a count implies.

Every barrier is passed once per event, and both sides count the same events, so stage
and parity follow from a count and no state is shared. A sub-tile without work has no
events: nobody arrives and nobody waits for it.

    name           arrivals                      event
    RECORD_FULL    1 loader lane                 a unit record is written
    RECORD_EMPTY   1 per reading warp            a unit record has been copied
    Q_FULL[s]      1 loader lane + bytes         Q of sub-tile s has landed
    Q_EMPTY[s]     1 commit                      its last Q K^T has read it
    TILE_FULL[i]   1 loader lane + bytes         a K or V tile has landed
    TILE_EMPTY[i]  1 commit of each CTA          its last product in each has read it
    S_FULL[s]      1 commit                      scores are in tensor memory
    P_READY[s]     128 softmax, 128 correction   P is in place of S; O may be added to
    STATS_FULL[s]  128 softmax                   a message of the softmax is written
    STATS_EMPTY[s] 128 correction                and has been read
    O_FULL[s]      1 commit                      the last P V of a unit is complete
    STAGED[s]      128 correction                finished rows lie in shared memory
    DRAINED[s]     1 epilogue lane               and have been stored
    CLAIM_FULL     1 loader lane + bytes         the pair's next unit is known (rank 1)
    CLAIM_EMPTY    1 loader lane of rank 1       and has been read (rank 0)

K and V tiles go to both CTAs of the pair: a stage is free when both have read theirs,
and full when both halves have landed. Everything else stays within a CTA.
"""

import cutlass
from cutlass import Boolean, Int32, cute
from cutlass._mlir.dialects import nvvm

from sidestream.kernels.sm100.config import CLUSTER, GROUP, SUB_TILES, KernelConfig

RECORDS = 2
"""Depth of the ring of unit records."""

RECORD_READERS = 2 * (GROUP // 32) + GROUP // 32 + 1 + SUB_TILES
"""Warps that read every record: softmax, correction, matrix and epilogue warps."""

RECORD_FULL = 0
RECORD_EMPTY = RECORD_FULL + RECORDS
Q_FULL = RECORD_EMPTY + RECORDS
Q_EMPTY = Q_FULL + SUB_TILES
S_FULL = Q_EMPTY + SUB_TILES
P_READY = S_FULL + SUB_TILES
STATS_FULL = P_READY + SUB_TILES
STATS_EMPTY = STATS_FULL + SUB_TILES
O_FULL = STATS_EMPTY + SUB_TILES
STAGED = O_FULL + SUB_TILES
DRAINED = STAGED + SUB_TILES
CLAIM_FULL = DRAINED + SUB_TILES
CLAIM_EMPTY = CLAIM_FULL + 1
TILE_FULL = CLAIM_EMPTY + 1


def tile_empty(stages: int) -> int:
    """Index of the first TILE_EMPTY barrier."""
    return TILE_FULL + stages


def barrier_count(stages: int) -> int:
    """Mbarriers of a CTA."""
    return TILE_FULL + 2 * stages


def arrivals(stages: int) -> list[int]:
    """Arrivals that complete a phase, by barrier."""
    per_sub_tile = (
        1,  # Q_FULL
        1,  # Q_EMPTY
        1,  # S_FULL
        2 * GROUP,  # P_READY
        GROUP,  # STATS_FULL
        GROUP,  # STATS_EMPTY
        1,  # O_FULL
        GROUP,  # STAGED
        1,  # DRAINED
    )
    counts = [1] * RECORDS + [RECORD_READERS] * RECORDS
    for count in per_sub_tile:
        counts += [count] * SUB_TILES
    counts += [1, 1]  # CLAIM_FULL, CLAIM_EMPTY
    return counts + [1] * stages + [CLUSTER] * stages


@cute.jit
def init_barriers(
    config: cutlass.Constexpr[KernelConfig], barriers: cute.Pointer
) -> None:
    """Initialise every barrier; one thread calls, the CTA synchronises afterwards."""
    counts = arrivals(config.stages)
    for index in cutlass.range_constexpr(len(counts)):
        cute.arch.mbarrier_init(barriers + index, counts[index])


@cute.jit
def stage_and_parity(
    count: Int32, stages: cutlass.Constexpr[int]
) -> tuple[Int32, Int32]:
    """Stage of the `count`-th item and the parity of the phase that fills it.

    The consumer waits on FULL with this parity; the producer waits on EMPTY with the
    opposite one, which a fresh barrier passes at once.
    """
    return count % stages, (count // stages) & 1


@cute.jit
def wait_full(barrier: cute.Pointer, count: Int32) -> None:
    """Wait for event number `count` (from 0) of a barrier with one stage."""
    cute.arch.mbarrier_wait(barrier, count & 1)


@cute.jit
def wait_empty(barrier: cute.Pointer, count: Int32) -> None:
    """Wait until the place of event number `count` is free; the first one is."""
    cute.arch.mbarrier_wait(barrier, (count & 1) ^ 1)


@cute.jit
def arrive_warp(barrier: cute.Pointer) -> None:
    """One arrival for the calling warp, after all its lanes are done."""
    cute.arch.sync_warp()
    if cute.arch.lane_idx() == 0:
        cute.arch.mbarrier_arrive(barrier)


@cute.jit
def expect_bytes(barrier: cute.Pointer, count: Int32) -> None:
    """Arrive for one thread, and let the phase wait for `count` bytes.

    Relaxed: the thread has written nothing that a waiter reads, and what completes
    the bytes orders them (PTX ISA, "mbarrier.arrive", "cp.async.bulk.tensor").
    """
    cute.arch.mbarrier_arrive_and_expect_tx(barrier, count, relaxed=True)


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
