"""What every text of our SM120 kernel takes of the chip, off the compiled artifact."""

from dataclasses import replace
from itertools import product

import pytest
from artifact import EVERYTHING, MOST_REGISTERS, REGISTER_FILE, assemble

from sidestream.kernels.sm120.config import (
    LOADER_REGISTERS,
    NARROW_SHAPES,
    SHAPES,
    SMEM_LIMIT,
    WARP,
    WARPS_PER_GROUP,
    KernelConfig,
)

WIDE_TYPES = ("float16", "bfloat16")
ONE_BYTE = ("float8_e4m3fn", "float8_e5m2")
FULL = KernelConfig(**EVERYTHING, tile_m=128)
NARROW = replace(FULL, dtype="float8_e4m3fn")
DIMS = {"d64": (64, 64), "d128": (128, 128), "d192x128": (192, 128), "d256": (256, 256)}


def texts(name, base, rows):
    """One text for each pair of head dims."""
    return {
        name.format(dims): replace(base, head_dim=d, head_dim_v=dv, tile_m=rows)
        for dims, (d, dv) in DIMS.items()
    }


TEXTS = {
    **texts("{}-128-rows", FULL, 128),
    **texts("{}-64-rows", replace(FULL, dtype="float16", out_dtype="float16"), 64),
    **texts("{}-16-rows", FULL, 16),
    **texts("fp8-{}-128-rows", NARROW, 128),
    **texts("fp8-{}-64-rows", replace(NARROW, dtype="float8_e5m2"), 64),
    **texts("fp8-{}-16-rows", replace(NARROW, out_dtype="float16"), 16),
    **texts("fp8-{}-to-fp8", replace(NARROW, out_dtype="float8_e5m2"), 128),
}
ON_SM90 = [name for name in TEXTS if name.endswith("-128-rows")]
"""Texts that are assembled for sm_90a too: those that keep the most."""
SPILLED = {
    "sm_120a": {
        "d128-128-rows": 80,
        "d192x128-128-rows": 80,
        "fp8-d128-128-rows": 64,
        "fp8-d192x128-128-rows": 80,
        "fp8-d128-to-fp8": 64,
        "fp8-d192x128-to-fp8": 80,
    },
    "sm_90a": {
        "d128-128-rows": 144,
        "d192x128-128-rows": 144,
        "fp8-d64-128-rows": 132,
        "fp8-d128-128-rows": 2456,
        "fp8-d192x128-128-rows": 2712,
        "fp8-d256-128-rows": 216,
    },
}
"""Bytes a thread; docs/kernels.md says why. Nothing else spills."""


def test_every_type_at_every_shape_is_assembled():
    """Rows and head dims of every text, and both types of either width among them."""
    held = {(c.shape, c.tile_m) for c in TEXTS.values()}
    assert held == set(product((*SHAPES, *NARROW_SHAPES), (128, 64, 16)))
    for shapes, types in ((SHAPES, WIDE_TYPES), (NARROW_SHAPES, ONE_BYTE)):
        there = {(c.shape, c.dtype) for c in TEXTS.values() if c.shape in shapes}
        assert there == set(product(shapes, types))


@pytest.mark.parametrize(
    ("arch", "name"),
    [("sm_120a", name) for name in TEXTS] + [("sm_90a", name) for name in ON_SM90],
)
def test_a_text_fits_the_chip_and_spills_what_is_known(arch, name, build, tmp_path):
    config = TEXTS[name]
    artifact = build(config, arch)

    worklist, forward = assemble(artifact, tmp_path)
    assert worklist.spilled == 0
    assert forward.spilled == SPILLED[arch].get(name, 0)

    # All CTAs that the launch promises the assembler, and then each role's own.
    assert forward.registers <= MOST_REGISTERS
    at_entry = forward.registers * config.threads
    assert at_entry * config.ctas_per_sm <= REGISTER_FILE
    if config.moves_registers:
        consumers = config.warps * WARP * config.shape.registers
        loader = WARPS_PER_GROUP * WARP * LOADER_REGISTERS
        assert consumers + loader <= at_entry

    (_, asked) = artifact.dynamic_smem
    assert [worklist.static_smem, forward.static_smem] == [0, 0]
    assert config.smem_bytes - 256 <= asked <= config.smem_bytes <= SMEM_LIMIT
