"""Barriers of a CTA and the stage and parity that a running count implies.

All tiles that a CTA loads in its lifetime are counted; loader and consumers count
alike, so stage and parity follow from the count and no state is shared.

    Q_FULL            loader -> consumers: unit record and Q tile are in place
    Q_EMPTY           consumers -> loader: Q tile and output staging are free
    K_FULL, V_FULL    loader -> consumers, one per stage (1 arrival + bytes)
    K_EMPTY, V_EMPTY  consumers -> loader, one per stage (1 arrival per warp)
"""

import cutlass
from cutlass import Int32, cute

from sidestream.kernels.sm120.config import KernelConfig

Q_FULL = 0
Q_EMPTY = 1
FIRST_STAGED = 2


def k_full(stages: int) -> int:
    """Index of the first K_FULL barrier."""
    return FIRST_STAGED


def k_empty(stages: int) -> int:
    """Index of the first K_EMPTY barrier."""
    return FIRST_STAGED + stages


def v_full(stages: int) -> int:
    """Index of the first V_FULL barrier."""
    return FIRST_STAGED + 2 * stages


def v_empty(stages: int) -> int:
    """Index of the first V_EMPTY barrier."""
    return FIRST_STAGED + 3 * stages


def barrier_count(stages: int) -> int:
    """Mbarriers of a CTA."""
    return FIRST_STAGED + 4 * stages


@cute.jit
def stage_and_parity(
    count: Int32, stages: cutlass.Constexpr[int]
) -> tuple[Int32, Int32]:
    """Stage of the `count`-th item and the parity of the phase that fills it.

    The consumer waits on FULL with this parity; the loader waits on EMPTY with the
    opposite one, which a fresh barrier passes at once.
    """
    return count % stages, (count // stages) & 1


@cute.jit
def init_barriers(
    config: cutlass.Constexpr[KernelConfig], barriers: cute.Pointer
) -> None:
    """Initialise every barrier; one thread calls, the CTA synchronises afterwards."""
    stages = config.stages
    cute.arch.mbarrier_init(barriers + Q_FULL, 1)
    cute.arch.mbarrier_init(barriers + Q_EMPTY, config.warps)
    for stage in cutlass.range_constexpr(stages):
        cute.arch.mbarrier_init(barriers + (k_full(stages) + stage), 1)
        cute.arch.mbarrier_init(barriers + (k_empty(stages) + stage), config.warps)
        cute.arch.mbarrier_init(barriers + (v_full(stages) + stage), 1)
        cute.arch.mbarrier_init(barriers + (v_empty(stages) + stage), config.warps)


@cute.jit
def release(barrier: cute.Pointer) -> None:
    """One arrival for the calling warp, after all its lanes are done."""
    cute.arch.sync_warp()
    if cute.arch.lane_idx() == 0:
        cute.arch.mbarrier_arrive(barrier)
