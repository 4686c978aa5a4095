"""ggml-org/llama.cpp#26385: a block reduction reuses its scratch for the next one."""

from __future__ import annotations

from sidestream.scenarios.bugs.kernels.kernel_bug import Kernel, KernelBug
from sidestream.scenarios.litmus.twin import smem

_WARPS = 4


def _reduce() -> str:
    """Maximum of `%r2` over the CTA: by warp, then over one word a warp."""
    steps = "".join(
        f"shfl.sync.bfly.b32 %r3, %r2, {k}, 31, -1;\nmax.u32 %r2, %r2, %r3;\n"
        for k in (16, 8, 4, 2, 1)
    )
    return (
        steps + "mad.lo.u32 %r4, %warp, 4, %x;\n"
        "@%one st.shared.b32 [%r4], %r2;\n"
        "bar.sync 0;\n"
        f"and.b32 %r5, %lane, {_WARPS - 1};\nmad.lo.u32 %r5, %r5, 4, %x;\n"
        "ld.shared.b32 %r2, [%r5];\n"
        "shfl.sync.bfly.b32 %r3, %r2, 2, 31, -1;\nmax.u32 %r2, %r2, %r3;\n"
        "shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;\nmax.u32 %r2, %r2, %r3;\n"
    )


def _kernel(*, fixed: bool) -> Kernel:
    row = (
        "mov.u32 %r2, %tid;\n"
        + _reduce()
        + ("bar.sync 0;\n" if fixed else "")
        + "sub.u32 %r2, %r2, %tid;\n"
        + _reduce()
        + "st.global.b32 [%gl], %r2;\n"
    )
    # Every warp stores its results to words of its own.
    row = "mad.wide.u32 %gl, %tid, 4, %g;\n" + row
    return Kernel(warps=(row,) * _WARPS)


REDUCTION_SCRATCH_REUSED = KernelBug(
    name="reduction-scratch-reused",
    issue="ggml-org/llama.cpp#26385",
    bug_class="smem-race",
    wrong="softmax reduces a row twice through one scratch, and a warp stores its part "
    "of the second result while others still read the first.",
    fix="a barrier between the two reductions.",
    kernel=_kernel,
    # The others are other warps, and the lanes beside the one that stores.
    found=(
        *smem("ld.shared.b32", "st.shared.b32"),
        *smem("ld.shared.b32", "st.shared.b32", "B3"),
    ),
)
