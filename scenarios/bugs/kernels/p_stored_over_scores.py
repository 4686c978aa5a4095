"""NVIDIA/cudnn-frontend#985: P goes over scores that were not loaded yet."""

from __future__ import annotations

from sidestream.scenarios.bugs.kernels.kernel_bug import Kernel, KernelBug
from sidestream.scenarios.bugs.kernels.parts import (
    arrive,
    fill_operands,
    product,
    tensor_load,
    tensor_load_name,
)
from sidestream.scenarios.litmus.statements import (
    AFTER,
    BEFORE,
    WAIT_LOAD,
    WAIT_STORE,
    wait,
)
from sidestream.scenarios.litmus.twin import tmem

_TILES = 2
_ST = "tcgen05.st.sync.aligned.32x32b.x4.b32"


def _softmax(group: int, tile: int, *, fixed: bool) -> str:
    """Half of the score columns to each group; P of group 0 over the other half."""
    p = (
        f"add.u32 %r15, %tq, 8;\n{_ST} [%r15], {{%r0, %r1, %r2, %r3}};\n{WAIT_STORE}"
        if group == 0
        else ""
    )
    return (
        wait(tile & 1)
        + AFTER
        + f"add.u32 %r15, %tq, {8 * group};\n"
        + tensor_load(8)
        + WAIT_LOAD
        + (f"{BEFORE}bar.sync 1, 64;\n{AFTER}" if fixed else "")
        + p
        + BEFORE
        + arrive("%bar+8")
    )


def _kernel(*, fixed: bool) -> Kernel:
    tiles = range(_TILES)
    multiply = fill_operands() + "".join(
        (wait((tile - 1) & 1, "%bar+8") + AFTER if tile else "")
        + product("%tm", "%bar")
        for tile in tiles
    )
    # Warps 0 and 4 see the same lanes.
    groups = ["".join(_softmax(g, t, fixed=fixed) for t in tiles) for g in (0, 1)]
    return Kernel(
        warps=(groups[0], multiply, "", "", groups[1]), bars=(1, 2), tensor=32
    )


P_STORED_OVER_SCORES = KernelBug(
    name="p-stored-over-scores",
    issue="NVIDIA/cudnn-frontend#985",
    bug_class="tmem",
    wrong="one warpgroup stores P into columns whose scores the other one has still to "
    "load: keys 96 to 111 of a block come out wrong.",
    fix="a barrier of both warpgroups between the loads and the store.",
    kernel=_kernel,
    found=tmem(tensor_load_name(8), _ST),
)
