"""NVIDIA/cudnn-frontend#569: a barrier of one half, over a buffer that both use."""

from __future__ import annotations

from sidestream.scenarios.bugs.kernels.kernel_bug import Kernel, KernelBug
from sidestream.scenarios.litmus.twin import smem

_WARPS, _TILES = 4, 2
_HALF = 32 * _WARPS // 2


def _tile(half: int, *, fixed: bool) -> str:
    """Exchange scores with the other half, then reduce over the own half."""
    readers = f"1, {2 * _HALF}" if fixed else f"{2 + half}, {_HALF}"
    return (
        "st.shared.b32 [%r10], %r2;\n"
        "bar.sync 0;\n"
        "ld.shared.b32 %r3, [%r11];\n"
        "max.u32 %r2, %r2, %r3;\n"
        # The scratch of the reduction is the buffer of the exchange.
        f"bar.sync {readers};\n"
        "@%one st.shared.b32 [%r12], %r2;\n"
        f"bar.sync {4 + half}, {_HALF};\n"
        "ld.shared.b32 %r3, [%r13];\n"
        "max.u32 %r2, %r2, %r3;\n"
        "bar.sync 0;\n"
    )


def _warp(half: int, *, fixed: bool) -> str:
    return (
        "mov.u32 %r2, %tid;\n"
        "mad.lo.u32 %r10, %tid, 4, %x;\n"
        f"xor.b32 %r11, %tid, {_HALF};\nmad.lo.u32 %r11, %r11, 4, %x;\n"
        "mad.lo.u32 %r12, %warp, 4, %x;\n"
        f"and.b32 %r13, %lane, 1;\nadd.u32 %r13, %r13, {2 * half};\n"
        "mad.lo.u32 %r13, %r13, 4, %x;\n"
        + "".join(_tile(half, fixed=fixed) for _ in range(_TILES))
    )


def _kernel(*, fixed: bool) -> Kernel:
    return Kernel(warps=tuple(_warp(warp // 2, fixed=fixed) for warp in range(_WARPS)))


HALF_COVERED_BARRIER = KernelBug(
    name="half-covered-barrier",
    issue="NVIDIA/cudnn-frontend#569",
    bug_class="smem-race",
    wrong="the scratch of the row maximum lies over the scores that the two halves of "
    "the CTA exchange; each half waits for its own readers and not for the other's.",
    fix="one barrier of both halves between the exchange and the reduction.",
    kernel=_kernel,
    found=smem("ld.shared.b32", "st.shared.b32"),
)
