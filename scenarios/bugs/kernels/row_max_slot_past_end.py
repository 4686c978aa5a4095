"""Dao-AILab/flash-attention#2229: a slot's offset assumes two stages of Q."""

from __future__ import annotations

from sidestream.scenarios.bugs.kernels.kernel_bug import Kernel, KernelBug
from sidestream.scenarios.bugs.kernels.parts import arrive
from sidestream.scenarios.litmus.statements import wait
from sidestream.scenarios.litmus.twin import smem

_STAGES = 1
_ROWS = 32
_SCALES = 2 * _STAGES * _ROWS * 4
"""Bytes of the scale buffer: a row sum and a row maximum for each stage."""


def _kernel(*, fixed: bool) -> Kernel:
    maxima = (_STAGES if fixed else 2) * _ROWS * 4
    # Softmax: row sums, then row maxima that the log-sum-exp needs.
    softmax = (
        "st.shared.b32 [%xl], %lane;\n"
        f"st.shared.b32 [%xl+{maxima}], %lane;\n" + arrive("%bar")
    )
    correction = (
        wait() + "ld.shared.b32 %r2, [%xl];\n"
        f"ld.shared.b32 %r3, [%xl+{maxima}];\n"
        "add.u32 %r2, %r2, %r3;\nst.global.b32 [%gl], %r2;\n"
    )
    # The buffer behind it: sinks of the heads, loaded and used by the epilogue.
    epilogue = (
        f"st.shared.b32 [%xl+{_SCALES}], 7;\n"
        "bar.warp.sync -1;\n"
        f"ld.shared.b32 %r2, [%xl+{_SCALES}];\nst.global.b32 [%gl+128], %r2;\n"
    )
    return Kernel(warps=(softmax, correction, epilogue), bars=(1,))


ROW_MAX_SLOT_PAST_END = KernelBug(
    name="row-max-slot-past-end",
    issue="Dao-AILab/flash-attention#2229",
    bug_class="smem-race",
    wrong="row maxima are stored two stages behind the row sums, whatever the number "
    "of stages; with one they go into the buffer that follows.",
    fix="the offset counts the stages there are.",
    kernel=_kernel,
    found=(
        *smem("st.shared.b32", "st.shared.b32"),
        *smem("st.shared.b32", "ld.shared.b32"),
    ),
)
