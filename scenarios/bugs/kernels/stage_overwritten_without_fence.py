"""NVIDIA/TransformerEngine#2695: TMA refills a stage that was read, with no fence."""

from __future__ import annotations

from sidestream.scenarios.bugs.kernels.kernel_bug import Kernel, KernelBug
from sidestream.scenarios.bugs.kernels.parts import PROXY, arrive
from sidestream.scenarios.litmus.statements import expect, lead, wait
from sidestream.scenarios.litmus.twin import proxy

_STAGES, _TILES = 2, 4
_BOX = 256
_IN = "cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes"


def _bars(tile: int) -> tuple[str, str, int]:
    """Full and empty barrier of a tile's stage, and the parity of its lap."""
    stage = tile % _STAGES
    return f"%bar+{8 * stage}", f"%bar+{8 * (_STAGES + stage)}", tile // _STAGES & 1


def _load(tile: int) -> str:
    full, empty, lap = _bars(tile)
    free = wait(lap ^ 1, empty) if tile >= _STAGES else ""
    return free + lead(
        expect(_BOX, full)
        + f"{_IN} [%x+{_BOX * (tile % _STAGES)}], [%map, {{{64 * tile}}}], [{full}];\n"
    )


def _amax(tile: int, *, fixed: bool) -> str:
    full, empty, lap = _bars(tile)
    return (
        wait(lap, full)
        + f"ld.shared.b32 %r3, [%xl+{_BOX * (tile % _STAGES)}];\n"
        + "max.u32 %r2, %r2, %r3;\n"
        + (PROXY if fixed else "")
        + arrive(empty)
    )


def _kernel(*, fixed: bool) -> Kernel:
    tiles = range(_TILES)
    return Kernel(
        warps=(
            "".join(_load(tile) for tile in tiles),
            "mov.u32 %r2, 0;\n"
            + "".join(_amax(tile, fixed=fixed) for tile in tiles)
            + "st.global.b32 [%gl+2048], %r2;\n",
        ),
        bars=(1,) * (2 * _STAGES),
    )


STAGE_OVERWRITTEN_WITHOUT_FENCE = KernelBug(
    name="stage-overwritten-without-fence",
    issue="NVIDIA/TransformerEngine#2695",
    bug_class="async-proxy",
    wrong="a pipelined kernel reads a stage by ordinary loads and releases it by an "
    "mbarrier alone; the TMA load of the next lap is of another proxy. Most shipping "
    "pipelines do so: `practice` counts it, `isa` tells of it.",
    fix="fence.proxy.async between the last read and the release.",
    kernel=_kernel,
    found=proxy("ld.shared.b32", _IN),
    profiles=("isa",),
    relaxed="read-proxy",
)
