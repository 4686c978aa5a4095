"""Barriers of a CTA: who arrives and who waits (`common/phases.py` tells of parities).

All tiles that a CTA loads in its lifetime are counted; loader and consumers count
alike.

    Q_FULL            loader -> consumers: unit record and Q tile are in place
    Q_EMPTY           consumers -> loader: Q tile and output staging are free
    K_FULL, V_FULL    loader -> consumers, one per stage (1 arrival + bytes)
    K_EMPTY, V_EMPTY  consumers -> loader, one per stage (1 arrival per warp)
"""

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


def arrivals(config: KernelConfig) -> list[int]:
    """Arrivals that complete a phase, by barrier."""
    staged = [1] * config.stages + [config.warps] * config.stages
    return [1, config.warps, *staged, *staged]
