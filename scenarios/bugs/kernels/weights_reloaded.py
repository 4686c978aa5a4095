"""NVIDIA/cudnn-frontend#426: weights in shared memory are reloaded unordered."""

from __future__ import annotations

from sidestream.scenarios.bugs.kernels.kernel_bug import Kernel, KernelBug
from sidestream.scenarios.litmus.twin import smem

_WARPS, _TILES = 4, 3


def _tile(tile: int, *, fixed: bool) -> str:
    """Weights to sW at `%x`; gradients of other rows' weights to sGradSignal."""
    return (
        f"ld.global.b32 %r2, [%gl+{512 * tile}];\n"
        "st.shared.b32 [%r10], %r2;\n"
        "bar.sync 0;\n"
        # A row of the gradient takes the weight that another warp loaded.
        "ld.shared.b32 %r3, [%r11];\n"
        "add.u32 %r3, %r3, %r2;\n"
        "st.shared.b32 [%r10+1024], %r3;\n"
        "bar.warp.sync -1;\n"
        "ld.shared.b32 %r4, [%r12+1024];\n"
        "add.u32 %r5, %r5, %r4;\n"
        + ("bar.sync 0;\n" if fixed else "bar.warp.sync -1;\n")
    )


def _kernel(*, fixed: bool) -> Kernel:
    warp = (
        "mad.wide.u32 %gl, %tid, 4, %g;\nmov.u32 %r5, 0;\n"
        "mad.lo.u32 %r10, %tid, 4, %x;\n"
        f"add.u32 %r11, %tid, 32;\nand.b32 %r11, %r11, {32 * _WARPS - 1};\n"
        "mad.lo.u32 %r11, %r11, 4, %x;\n"
        "xor.b32 %r12, %tid, 1;\nmad.lo.u32 %r12, %r12, 4, %x;\n"
        + "".join(_tile(tile, fixed=fixed) for tile in range(_TILES))
        + "st.global.b32 [%gl+2048], %r5;\n"
    )
    return Kernel(warps=(warp,) * _WARPS)


WEIGHTS_RELOADED = KernelBug(
    name="weights-reloaded",
    issue="NVIDIA/cudnn-frontend#426",
    bug_class="smem-race",
    wrong="the indexer's backward pass stores the weights of its next tile to shared "
    "memory while other warps still take those of this one.",
    fix="a barrier at the end of a tile.",
    kernel=_kernel,
    found=smem("ld.shared.b32", "st.shared.b32"),
)
