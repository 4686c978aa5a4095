"""Pipeline states: stage and parity from a running count, waits and arrivals.

Every barrier is passed once per event, and both sides count the same events, so that
stage and parity follow from a count and no state is shared. Which barriers a CTA has,
who arrives and who waits, is told in `barriers.py` of each target.
"""

import cutlass
from cutlass import Int32, cute


@cute.jit
def init_barriers(
    arrivals: cutlass.Constexpr[list[int]], barriers: cute.Pointer
) -> None:
    """Initialise barriers by the arrivals that complete a phase, 0 for one not used.

    One thread calls, and the CTA synchronises afterwards.
    """
    for index in cutlass.range_constexpr(len(arrivals)):
        if cutlass.const_expr(arrivals[index] > 0):
            cute.arch.mbarrier_init(barriers + index, arrivals[index])


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
