"""NVIDIA/cudnn-frontend#892: a range of tiles leaves an arrival on a named barrier."""

from __future__ import annotations

from sidestream.scenarios.bugs.kernels.kernel_bug import MANY, Kernel, KernelBug
from sidestream.scenarios.bugs.kernels.parts import LOADED, PROXY, TRY
from sidestream.scenarios.litmus.statements import bulk_load, expect, lead, wait
from sidestream.scenarios.litmus.twin import fault, smem

_RANGES, _TILES = 2, 3
_EXPECT = "mbarrier.arrive.expect_tx.shared.b64"


def _kernel(*, fixed: bool) -> Kernel:
    producer = consumer = ""
    for number in range(_RANGES):
        for tile in range(_TILES):
            parity = (number * _TILES + tile) & 1
            # A range begins with an empty stage: nothing to wait for.
            producer += "bar.sync 1, 64;\n" if tile else ""
            producer += lead(expect(128) + bulk_load(size=128))
            consumer += wait(parity) + "ld.shared.b32 %r2, [%xl];\n"
            consumer += f"st.global.b32 [%gl+1024], %r2;\n{PROXY}"
            if tile < _TILES - 1 or not fixed:
                consumer += "bar.arrive 1, 64;\n"
        producer += "bar.sync 2, 64;\n"
        consumer += "bar.sync 2, 64;\n"
    return Kernel(warps=(producer, consumer), bars=(1,))


ARRIVAL_LEFT_OVER = KernelBug(
    name="arrival-left-over",
    issue="NVIDIA/cudnn-frontend#892",
    bug_class="mbarrier/deadlock",
    wrong="consumers release the stage after each tile, the producer waits before each "
    "but the first of a range. The arrival that is left completes the barrier of the "
    "next range early: the stage is refilled while it is read.",
    fix="no release after the last tile of a range.",
    kernel=_kernel,
    found=smem("ld.shared.b32", LOADED),
    also=(
        *smem("ld.shared.b32", LOADED, "P3"),
        # Two tiles of bytes in one phase.
        *smem(LOADED, LOADED, "P3"),
        *fault("mbarrier", "mbarrier.state", _EXPECT),
        # The consumer's next arrival may complete the barrier by itself.
        *fault("deadlock", "progress", "bar.sync", TRY),
    ),
    schedules=MANY,
    always=False,
)
