"""Dao-AILab/flash-attention#2761: some roles unpack the split index, some do not."""

from __future__ import annotations

from sidestream.scenarios.bugs.kernels.kernel_bug import Kernel, KernelBug
from sidestream.scenarios.bugs.kernels.parts import TRY
from sidestream.scenarios.litmus.statements import bulk_load, expect, lead, wait
from sidestream.scenarios.litmus.twin import fault

_SPLITS = 4
_PACKED = 1 << 16 | 2
"""Split 2, with the number of splits in the upper half, as the scheduler writes it."""


def _unless_empty(body: str, *, unpacked: bool) -> str:
    return (
        "ld.global.b32 %r2, [%g];\n"
        + ("and.b32 %r2, %r2, 0xffff;\n" if unpacked else "")
        + f"setp.ge.u32 %p3, %r2, {_SPLITS};\n@%p3 bra $EMPTY;\n{body}$EMPTY:\n"
    )


def _kernel(*, fixed: bool) -> Kernel:
    load = _unless_empty(
        lead(expect(128, "%bar") + bulk_load(size=128)), unpacked=fixed
    )
    multiply = _unless_empty(
        wait(0, "%bar") + "ld.shared.b32 %r3, [%xl];\nst.shared.b32 [%xl+2048], %r3;\n"
        "bar.warp.sync -1;\n@%one mbarrier.arrive.shared.b64 _, [%bar+8];\n",
        unpacked=fixed,
    )
    softmax = _unless_empty(
        wait(0, "%bar+8") + "ld.shared.b32 %r3, [%xl+2048];\n"
        "st.global.b32 [%gl+1024], %r3;\n",
        unpacked=True,
    )
    return Kernel(warps=(load, multiply, softmax), bars=(1, 1), memory=(_PACKED,))


ROLES_DISAGREE_ON_EMPTY = KernelBug(
    name="roles-disagree-on-empty",
    issue="Dao-AILab/flash-attention#2761",
    bug_class="mbarrier/deadlock",
    wrong="the scheduler packs two numbers into the split index; softmax unpacks it, "
    "load and MMA take the whole word, find the tile empty and send nothing.",
    fix="every role unpacks it.",
    kernel=_kernel,
    spared=(2,),
    found=fault("deadlock", "progress", TRY),
)
