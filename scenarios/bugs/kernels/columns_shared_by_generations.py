"""NVIDIA/cudnn-frontend#396: two accumulators share columns and not their barriers."""

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

_SLOTS, _COLUMNS, _GENERATIONS = 4, 2, 8
"""dKV0 to dKV3; 2 and 3 lie in the columns of 0 and 1."""


def _full(generation: int) -> str:
    return f"%bar+{8 * (generation % _SLOTS)}"


def _empty(generation: int) -> str:
    return f"%bar+{8 * (_SLOTS + generation % _SLOTS)}"


def _lap(generation: int) -> int:
    return generation // _SLOTS & 1


def _multiply(generation: int, *, fixed: bool) -> str:
    before = generation - (_COLUMNS if fixed else _SLOTS)
    free = wait(_lap(before), _empty(before)) + AFTER if before >= 0 else ""
    return (
        free
        + f"add.u32 %r14, %tm, {16 * (generation % _COLUMNS)};\n"
        + product("%r14", _full(generation))
    )


def _reduce(generation: int) -> str:
    return (
        wait(_lap(generation), _full(generation))
        + f"{AFTER}add.u32 %r15, %tq, {16 * (generation % _COLUMNS)};\n"
        + f"{tensor_load(8)}{WAIT_LOAD}{BEFORE}"
        + arrive(_empty(generation))
    )


def _kernel(*, fixed: bool) -> Kernel:
    generations = range(_GENERATIONS)
    return Kernel(
        warps=(
            "".join(_reduce(generation) for generation in generations),
            fill_operands() + "".join(_multiply(g, fixed=fixed) for g in generations),
        ),
        bars=(1,) * (2 * _SLOTS),
        tensor=32,
    )


COLUMNS_SHARED_BY_GENERATIONS = KernelBug(
    name="columns-shared-by-generations",
    issue="NVIDIA/cudnn-frontend#396",
    bug_class="tmem",
    wrong="for head dimension 576 dKV2 and dKV3 take the columns of dKV0 and dKV1, and "
    "the MMA warp waits until their own last use is over: two generations too early.",
    fix="it waits for the generation that used the columns last.",
    kernel=_kernel,
    found=tmem(tensor_load_name(8), MMA),
)
