"""What every text of our SM120 kernel takes of the chip, off the compiled artifact."""

from dataclasses import replace

import pytest
from artifact import (
    EVERYTHING,
    MOST_REGISTERS,
    REGISTER_FILE,
    assemble,
    dynamic_smem,
)
from cutlass import cute
from cutlass.base_dsl.compiler import DumpDir

from sidestream.kernels.plan import compile_forward
from sidestream.kernels.sm120.config import (
    LOADER_REGISTERS,
    NARROW_SHAPES,
    SHAPES,
    SMEM_LIMIT,
    WARP,
    WARPS_PER_GROUP,
    KernelConfig,
)

FULL = KernelConfig(**EVERYTHING, tile_m=128)
DIMS = {"d64": (64, 64), "d128": (128, 128), "d192x128": (192, 128), "d256": (256, 256)}
TEXTS = {
    f"{name}-{rows}-rows": replace(
        FULL, head_dim=dims[0], head_dim_v=dims[1], tile_m=rows
    )
    for name, dims in DIMS.items()
    for rows in (128, 64, 16)
}
NARROW = replace(FULL, dtype="float8_e4m3fn", out_dtype="bfloat16")
TEXTS |= {
    f"fp8-{name}-{rows}-rows": replace(
        NARROW, head_dim=dims[0], head_dim_v=dims[1], tile_m=rows
    )
    for name, dims in DIMS.items()
    for rows in (128, 64, 16)
}
TEXTS |= {
    f"fp8-{name}-to-fp8": replace(
        NARROW, head_dim=dims[0], head_dim_v=dims[1], out_dtype="float8_e5m2"
    )
    for name, dims in DIMS.items()
}
SPILLED = {
    "d128-128-rows": 80,
    "d192x128-128-rows": 80,
    "fp8-d128-128-rows": 64,
    "fp8-d192x128-128-rows": 80,
    "fp8-d128-to-fp8": 64,
    "fp8-d192x128-to-fp8": 80,
}
"""Bytes a thread; docs/kernels.md says why. Nothing else spills."""


def test_every_shape_is_among_them():
    shapes = {config.shape for config in TEXTS.values()}
    assert shapes == {*SHAPES, *NARROW_SHAPES}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_fits_the_chip_and_spills_nothing(name, tmp_path):
    config = TEXTS[name]
    keep = (cute.KeepPTX(True), DumpDir(str(tmp_path)))
    compiled = compile_forward(config, "sm_120a", *keep)

    usages = assemble(compiled.artifacts.PTX, "sm_120a", tmp_path)
    (worklist,) = (u for name, u in usages.items() if "worklist" in name)
    (forward,) = (u for name, u in usages.items() if "forward" in name)
    assert len(usages) == 2
    assert worklist.spilled == 0
    assert forward.spilled == SPILLED.get(name, 0)

    # All CTAs that the launch promises the assembler, and then each role's own.
    assert forward.registers <= MOST_REGISTERS
    at_entry = forward.registers * config.threads
    assert at_entry * config.ctas_per_sm <= REGISTER_FILE
    if config.moves_registers:
        consumers = config.warps * WARP * config.shape.registers
        loader = WARPS_PER_GROUP * WARP * LOADER_REGISTERS
        assert consumers + loader <= at_entry

    (_, asked) = dynamic_smem(compiled)
    assert forward.static_smem == 0
    assert config.smem_bytes - 256 <= asked <= config.smem_bytes <= SMEM_LIMIT
