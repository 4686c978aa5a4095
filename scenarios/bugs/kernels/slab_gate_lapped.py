"""NVIDIA/cudnn-frontend#575: the gate of a shared Q/O slab has no way back."""

from __future__ import annotations

from sidestream.scenarios.bugs.kernels.kernel_bug import MANY, Kernel, KernelBug
from sidestream.scenarios.bugs.kernels.parts import (
    PROXY,
    SENT,
    TRY,
    arrive,
    only_if,
    wait_lap,
)
from sidestream.scenarios.litmus.statements import (
    bulk_load,
    bulk_store,
    expect,
    lead,
    wait,
)
from sidestream.scenarios.litmus.twin import fault

_LENGTHS = (1, 0, 0, 0, 1)
"""KV tiles of each sequence: a run of empty ones between two that are not."""
_GATE, _Q_FULL, _O_FULL, _BACK = "%bar", "%bar+8", "%bar+16", "%bar+24"
_NEXT = "xor.b32 %r8, %r8, 1;\n"
"""`%r8` is the parity of the next tile that is not empty, at full barriers."""


def _roles(tile: int, *, fixed: bool) -> tuple[str, str, str]:
    """Load, compute and store of one tile; `%r4` is not 0 if it has keys."""
    length = f"ld.global.b32 %r4, [%g+{4 * tile}];\n"
    last = (tile - 1) & 1
    load = length
    if tile:
        # O of the tile before has left the slab.
        load += wait(last, _GATE) + (arrive(_BACK) if fixed else "")
    load += only_if(
        "%r4", lead(expect(128, _Q_FULL) + bulk_load(size=128, bar=_Q_FULL))
    )
    compute = length + only_if(
        "%r4",
        wait_lap("%r8", _Q_FULL)
        + "ld.shared.b32 %r2, [%xl];\nadd.u32 %r2, %r2, 1;\n"
        + f"st.shared.b32 [%xl], %r2;\n{PROXY}"
        + arrive(_O_FULL)
        + _NEXT,
    )
    store = length + only_if(
        "%r4",
        wait_lap("%r8", _O_FULL)
        + lead(bulk_store(size=128, to=f"%g+{1024 + 128 * tile}") + SENT)
        + _NEXT,
    )
    if tile and fixed:
        store += wait(last, _BACK)
    return load, compute, store + arrive(_GATE)


def _kernel(*, fixed: bool) -> Kernel:
    roles = [_roles(tile, fixed=fixed) for tile in range(len(_LENGTHS))]
    return Kernel(
        warps=tuple(
            "mov.u32 %r8, 0;\n" + "".join(role) for role in zip(*roles, strict=True)
        ),
        bars=(1, 1, 1, 1),
        memory=_LENGTHS,
    )


SLAB_GATE_LAPPED = KernelBug(
    name="slab-gate-lapped",
    issue="NVIDIA/cudnn-frontend#575",
    bug_class="mbarrier/deadlock",
    wrong="the store warp opens the slab's gate once a tile and never waits for the "
    "load warp to see it. Over a run of empty tiles it gets two phases ahead, and the "
    "load warp waits for a parity that has come and gone.",
    fix="the load warp answers each gate, and the store warp waits for the answer.",
    kernel=_kernel,
    spared=(1,) * len(_LENGTHS),
    found=fault("deadlock", "progress", TRY),
    schedules=MANY,
)
