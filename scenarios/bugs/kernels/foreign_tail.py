"""flashinfer-ai/flashinfer#3581: a warpgroup drains a pipeline it never filled."""

from __future__ import annotations

from sidestream.scenarios.bugs.kernels.kernel_bug import MANY, Kernel, KernelBug
from sidestream.scenarios.bugs.kernels.parts import PROXY, SENT, TRY, arrive
from sidestream.scenarios.litmus.statements import bulk_store, lead, wait
from sidestream.scenarios.litmus.twin import fault

_STAGES, _TILES = 2, 3


def _full(tile: int) -> str:
    return f"%bar+{8 * (tile % _STAGES)}"


def _empty(tile: int) -> str:
    return f"%bar+{8 * (_STAGES + tile % _STAGES)}"


def _lap(tile: int) -> int:
    return tile // _STAGES & 1


def _tail(tile: int) -> str:
    """Wait until every stage is free, from the state of a producer at `tile`."""
    return "".join(wait(_lap(k) ^ 1, _empty(k)) for k in range(tile, tile + _STAGES))


def _kernel(*, fixed: bool) -> Kernel:
    producer = store = ""
    for tile in range(_TILES):
        stage = 256 * (tile % _STAGES)
        producer += (
            wait(_lap(tile) ^ 1, _empty(tile))
            + f"st.shared.b32 [%xl+{stage}], {tile};\n{PROXY}"
            + arrive(_full(tile))
        )
        store += (
            wait(_lap(tile), _full(tile))
            + lead(bulk_store(f"%x+{stage}", 128, f"%g+{256 * tile}") + SENT)
            + arrive(_empty(tile))
        )
    # The other warpgroup computes states, and stores no output tile.
    other = "st.global.b32 [%gl+2048], %lane;\n" + ("" if fixed else _tail(0))
    return Kernel(
        warps=(producer + _tail(_TILES), other, store), bars=(1,) * (2 * _STAGES)
    )


FOREIGN_TAIL = KernelBug(
    name="foreign-tail",
    issue="flashinfer-ai/flashinfer#3581",
    bug_class="mbarrier/deadlock",
    wrong="a warpgroup that stored nothing drains the output pipeline from the state "
    "of a producer that has not begun. If another warpgroup's tiles have moved the "
    "barriers on, it waits for a lap that never comes.",
    fix="only the warpgroup that fills the pipeline drains it.",
    kernel=_kernel,
    found=fault("deadlock", "progress", TRY),
    schedules=MANY,
    always=False,
)
