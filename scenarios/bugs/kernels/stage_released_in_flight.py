"""flashinfer-ai/flashinfer#5334: a stage is released while its load is in flight."""

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

_CHUNKS = 3


def _state(chunk: int, *, fixed: bool) -> str:
    release = BEFORE + arrive("%bar+8")
    load = f"mov.b32 %r15, %tq;\n{tensor_load(8)}"
    return (
        wait(chunk & 1)
        + AFTER
        + load
        + (WAIT_LOAD + release if fixed else release + WAIT_LOAD)
        + "st.global.b32 [%gl], %r0;\n"
    )


def _kernel(*, fixed: bool) -> Kernel:
    multiply = fill_operands() + "".join(
        (wait((chunk - 1) & 1, "%bar+8") + AFTER if chunk else "")
        + product("%tm", "%bar")
        for chunk in range(_CHUNKS)
    )
    states = "".join(_state(chunk, fixed=fixed) for chunk in range(_CHUNKS))
    return Kernel(warps=(states, multiply), bars=(1, 1), tensor=32)


STAGE_RELEASED_IN_FLIGHT = KernelBug(
    name="stage-released-in-flight",
    issue="flashinfer-ai/flashinfer#5334",
    bug_class="tmem",
    wrong="a stage of tensor memory goes back to the MMA warp between a tcgen05.ld and "
    "the wait for it, and before anything uses its registers.",
    fix="tcgen05.wait::ld before the release.",
    kernel=_kernel,
    found=tmem(tensor_load_name(8), MMA, "T5"),
)
