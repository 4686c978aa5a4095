"""NVIDIA/cutlass#3653: row statistics are announced before their store is over."""

from __future__ import annotations

from sidestream.scenarios.bugs.kernels.kernel_bug import Kernel, KernelBug
from sidestream.scenarios.bugs.kernels.parts import arrive
from sidestream.scenarios.litmus.statements import (
    AFTER,
    BEFORE,
    WAIT_LOAD,
    WAIT_STORE,
    wait,
)
from sidestream.scenarios.litmus.twin import tmem

_TILES = 3
_ST = "tcgen05.st.sync.aligned.32x32b.x2.b32"
_LD = "tcgen05.ld.sync.aligned.32x32b.x2.b32"


def _softmax(tile: int, *, fixed: bool) -> str:
    free = wait((tile - 1) & 1, "%bar+8") + AFTER if tile else ""
    return (
        f"{free}{_ST} [%tq], {{%r2, %r3}};\n"
        + (WAIT_STORE if fixed else "")
        + BEFORE
        + arrive("%bar")
    )


def _correction(tile: int) -> str:
    return (
        wait(tile & 1)
        + f"{AFTER}{_LD} {{%r2, %r3}}, [%tq];\n{WAIT_LOAD}{BEFORE}"
        + arrive("%bar+8")
    )


def _kernel(*, fixed: bool) -> Kernel:
    tiles = range(_TILES)
    softmax = "mov.u32 %r2, 0;\nmov.u32 %r3, 0;\n" + "".join(
        _softmax(tile, fixed=fixed) for tile in tiles
    )
    correction = "".join(_correction(tile) for tile in tiles)
    # Warps 0 and 4 see the same lanes; what is deallocated must be over.
    return Kernel(
        warps=(softmax + WAIT_STORE, "", "", "", correction), bars=(1, 1), tensor=32
    )


STATISTICS_PUBLISHED_UNWAITED = KernelBug(
    name="statistics-published-unwaited",
    issue="NVIDIA/cutlass#3653",
    bug_class="tmem",
    wrong="softmax stores maximum and sum of a row to tensor memory and arrives for "
    "the correction warps without tcgen05.wait::st: the arrival does not cover the "
    "store.",
    fix="tcgen05.wait::st before the arrival.",
    kernel=_kernel,
    found=(*tmem(_ST, _LD, "T5"), *tmem(_ST, _ST, "T5")),
)
