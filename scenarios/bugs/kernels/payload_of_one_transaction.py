"""NVIDIA/cudnn-frontend#717: four words to a peer, and one transaction for them."""

from __future__ import annotations

from sidestream.scenarios.bugs.kernels.kernel_bug import Kernel, KernelBug
from sidestream.scenarios.litmus.statements import expect, wait
from sidestream.scenarios.litmus.twin import dsmem

_TILES, _WORDS = 2, 4
_COUNTED = "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32"
_PLAIN = "st.shared::cluster.b32"
_LD = "ld.shared.v4.b32"


def _send(tile: int, *, fixed: bool) -> str:
    """Coordinates and validity of a tile, a word each."""
    free = wait((tile - 1) & 1, "%bar+8", ".acquire.cluster") if tile else ""
    words = "".join(
        f"@%one {_COUNTED} [%px+{4 * k}], {tile + k}, [%pbar];\n"
        if fixed or k == _WORDS - 1
        else f"@%one {_PLAIN} [%px+{4 * k}], {tile + k};\n"
        for k in range(_WORDS)
    )
    return free + words


def _receive(tile: int, *, fixed: bool) -> str:
    return (
        "@%one "
        + expect(4 * _WORDS if fixed else 4)
        + wait(tile & 1, sem=".acquire.cluster")
        + f"{_LD} {{%r2, %r3, %r4, %r5}}, [%x];\n"
        + "st.global.b32 [%gl], %r2;\nbar.warp.sync -1;\n"
        + "@%one mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r10];\n"
    )


def _kernel(*, fixed: bool) -> Kernel:
    tiles = range(_TILES)
    return Kernel(
        warps=("".join(_send(tile, fixed=fixed) for tile in tiles),),
        peers=(
            "add.u32 %r10, %pbar, 8;\n"
            + "".join(_receive(tile, fixed=fixed) for tile in tiles),
        ),
        bars=(1, 1),
        ctas=2,
        cluster=2,
    )


PAYLOAD_OF_ONE_TRANSACTION = KernelBug(
    name="payload-of-one-transaction",
    issue="NVIDIA/cudnn-frontend#717",
    bug_class="scheduler",
    wrong="a persistent scheduler sends a tile to the CTAs of its cluster as four "
    "words. Where the mbarrier counts only one of them, the others may come later, and "
    "the tile is torn.",
    fix="every word completes its bytes at the receiver's mbarrier, which expects 16.",
    kernel=_kernel,
    found=dsmem(_PLAIN, _LD),
)
