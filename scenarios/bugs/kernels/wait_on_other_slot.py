"""NVIDIA/cudnn-frontend#1532: both warpgroups wait on the O slot of the first."""

from __future__ import annotations

from sidestream.scenarios.bugs.kernels.kernel_bug import MANY, Kernel, KernelBug
from sidestream.scenarios.bugs.kernels.parts import TRY, arrive, only_if, wait_lap
from sidestream.scenarios.litmus.statements import wait
from sidestream.scenarios.litmus.twin import fault, smem

_UNITS = (1, 0, 0, 1, 0, 0, 0, 1)
"""Whether a unit of work has keys."""


def _empty(slot: int) -> str:
    return f"%bar+{8 * slot}"


def _full(slot: int) -> str:
    return f"%bar+{16 + 8 * slot}"


def _p_ready(slot: int) -> str:
    return f"%bar+{32 + 8 * slot}"


def _softmax(group: int, unit: int, *, fixed: bool) -> str:
    """P to the MMA warp; in an empty unit zeros, straight to the O slot."""
    slot = group if fixed else 0
    return (
        f"ld.global.b32 %r4, [%g+{4 * unit}];\n"
        + wait(unit & 1 ^ 1, _empty(slot))
        + only_if("%r4", arrive(_p_ready(group)))
        + "xor.b32 %r4, %r4, 1;\n"
        + only_if(
            "%r4", f"st.shared.b32 [%xl+{2048 * group}], 0;\n" + arrive(_full(group))
        )
    )


def _multiply(unit: int) -> str:
    """The products of both groups into their slots, once both have their P."""
    both = "".join(wait_lap("%r8", _p_ready(group)) for group in (0, 1))
    slots = "".join(
        f"st.shared.b32 [%xl+{2048 * group}], 1;\n" + arrive(_full(group))
        for group in (0, 1)
    )
    return f"ld.global.b32 %r4, [%g+{4 * unit}];\n" + only_if(
        "%r4", both + slots + "xor.b32 %r8, %r8, 1;\n"
    )


def _epilogue(unit: int) -> str:
    return "".join(
        wait(unit & 1, _full(group))
        + f"ld.shared.b32 %r2, [%xl+{2048 * group}];\n"
        + f"st.global.b32 [%gl+{256 + 256 * unit + 128 * group}], %r2;\n"
        + arrive(_empty(group))
        for group in (0, 1)
    )


def _kernel(*, fixed: bool) -> Kernel:
    units = range(len(_UNITS))
    return Kernel(
        warps=(
            "".join(_softmax(0, unit, fixed=fixed) for unit in units),
            "".join(_softmax(1, unit, fixed=fixed) for unit in units),
            "mov.u32 %r8, 0;\n" + "".join(_multiply(unit) for unit in units),
            "".join(_epilogue(unit) for unit in units),
        ),
        bars=(1,) * 6,
        memory=_UNITS,
    )


WAIT_ON_OTHER_SLOT = KernelBug(
    name="wait-on-other-slot",
    issue="NVIDIA/cudnn-frontend#1532",
    bug_class="mbarrier/deadlock",
    wrong="both softmax warpgroups wait until O slot 0 is free. In a unit with keys "
    "the MMA warp keeps them together; in an empty one nothing of warpgroup 1 is "
    "needed to free slot 0 again, so a late warpgroup 1 finds the next phase complete "
    "and waits for ever.",
    fix="each warpgroup waits for its own slot.",
    kernel=_kernel,
    found=fault("deadlock", "progress", TRY),
    # What is free is slot 0, and what warpgroup 1 writes is slot 1.
    also=(
        *smem("ld.shared.b32", "st.shared.b32"),
        *smem("st.shared.b32", "st.shared.b32"),
    ),
    schedules=MANY,
    always=False,
)
