"""NVIDIA/cudnn-frontend#652: the epilogue releases its stage before the last load."""

from __future__ import annotations

from sidestream.scenarios.bugs.kernels.kernel_bug import Kernel, KernelBug
from sidestream.scenarios.bugs.kernels.parts import (
    MMA,
    arrive,
    fill_operands,
    product,
    tensor_load,
    tensor_load_name,
)
from sidestream.scenarios.litmus.statements import AFTER, BEFORE, WAIT_LOAD, wait
from sidestream.scenarios.litmus.twin import tmem

_TILES = 3


def _epilogue(tile: int, *, fixed: bool) -> str:
    release = BEFORE + arrive("%bar+8")
    return (
        wait(tile & 1)
        + f"{AFTER}mov.b32 %r15, %tq;\n{tensor_load(8)}{WAIT_LOAD}"
        + ("" if fixed else release)
        + f"add.u32 %r15, %tq, 8;\n{tensor_load(8)}{WAIT_LOAD}"
        + (release if fixed else "")
    )


def _kernel(*, fixed: bool) -> Kernel:
    multiply = fill_operands() + "".join(
        (wait((tile - 1) & 1, "%bar+8") + AFTER if tile else "")
        + product("%tm", "%bar")
        for tile in range(_TILES)
    )
    epilogue = "".join(_epilogue(tile, fixed=fixed) for tile in range(_TILES))
    return Kernel(warps=(epilogue, multiply), bars=(1, 1), tensor=32)


STAGE_RELEASED_EARLY = KernelBug(
    name="stage-released-early",
    issue="NVIDIA/cudnn-frontend#652",
    bug_class="tmem",
    wrong="the epilogue of a grouped GEMM hands the overlapping accumulator stage back "
    "and issues one more load from it; the next tile's products are already let go.",
    fix="the release stands behind the last load and its wait.",
    kernel=_kernel,
    found=tmem(tensor_load_name(8), MMA),
)
