"""NVlabs/cuda-oxide#1066: the mailbox of the scheduler is reused before all read it."""

from __future__ import annotations

from sidestream.scenarios.bugs.kernels.kernel_bug import Kernel, KernelBug
from sidestream.scenarios.bugs.kernels.parts import TRY, arrive
from sidestream.scenarios.litmus.statements import wait
from sidestream.scenarios.litmus.twin import fault, smem

_READERS, _TILES = 5, 3
_LD, _ST = "ld.shared.v4.b32", "st.shared.v4.b32"


def _scheduler(tile: int) -> str:
    free = wait((tile - 1) & 1, "%bar+8") if tile else ""
    return free + f"@%one {_ST} [%x], {{{tile}, 0, 0, 1}};\n" + arrive("%bar")


def _reader(reader: int, tile: int, *, fixed: bool) -> str:
    release = arrive("%bar+8") if fixed or not reader else ""
    return (
        wait(tile & 1)
        + f"{_LD} {{%r2, %r3, %r4, %r5}}, [%x];\n{release}"
        + f"st.global.b32 [%gl+{128 * reader}], %r2;\n"
    )


def _kernel(*, fixed: bool) -> Kernel:
    tiles = range(_TILES)
    readers = tuple(
        "".join(_reader(reader, tile, fixed=fixed) for tile in tiles)
        for reader in range(_READERS)
    )
    return Kernel(
        warps=("".join(_scheduler(tile) for tile in tiles), *readers),
        bars=(1, _READERS if fixed else 1),
    )


MAILBOX_REUSED_EARLY = KernelBug(
    name="mailbox-reused-early",
    issue="NVlabs/cuda-oxide#1066",
    bug_class="scheduler",
    wrong="the scheduler warp writes the next tile as soon as one of five readers has "
    "copied this one: the others may take the wrong tile, or half of two, or never see "
    "the phase that has gone by.",
    fix="every reader releases the mailbox.",
    kernel=_kernel,
    found=smem(_LD, _ST),
    also=fault("deadlock", "progress", TRY),
)
