"""What the compiled code may contain, for every target it must run on."""

import re
from dataclasses import replace

import pytest
from artifact import EVERYTHING, LITTLE

from sidestream.kernels.sm120.config import KernelConfig

WIDE = KernelConfig(**EVERYTHING, tile_m=128)
NARROW = KernelConfig(**LITTLE, tile_m=16)


E4M3 = replace(WIDE, dtype="float8_e4m3fn")
E5M2 = replace(
    NARROW, dtype="float8_e5m2", out_dtype="float8_e4m3fn", head_dim=48, head_dim_v=144
)
KINDS = {"float16": "f16", "bfloat16": "bf16"}
KINDS |= {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}


@pytest.mark.parametrize("arch", ["sm_120a", "sm_90a"])
@pytest.mark.parametrize(
    "config", [WIDE, NARROW, E4M3, E5M2], ids=["wide", "narrow", "e4m3", "e5m2"]
)
def test_the_code_runs_on_both_targets(config, arch, build):
    ptx = build(config, arch).ptx
    assert f".target {arch}" in ptx
    entries = re.findall(r"\.entry (\w+)", ptx)
    assert len(entries) == 2
    assert entries[0].startswith("sidestream_worklist")
    assert entries[1].startswith("sidestream_sm120_forward")
    # Packed f32x2 arithmetic and everything with tensor memory or clusters is missing
    # on one target or the other; local memory would mean dynamic register indexing.
    for absent in (".f32x2", "tcgen05", "wgmma", ".multicast", ".local", "call.uni"):
        assert absent not in ptx
    kind = KINDS[config.dtype]
    product = f"mma.sync.aligned.m16n8k{config.k_width}.row.col.f32.{kind}.{kind}.f32"
    assert set(re.findall(r"mma\.sync\S*", ptx)) == {product}
    # Both bytes of a cell of values, and a factor for nobody but one-byte inputs.
    assert ("prmt.b32" in ptx) == config.narrow
    assert ("atom.global.max" in ptx) == config.narrow
    assert "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" in ptx
    assert ".mbarrier::complete_tx::bytes" in ptx
    assert "st.global.v4.b32" in ptx
    stores = set(re.findall(r"\s(st\.global\S*)", ptx))
    assert stores <= {"st.global.b32", "st.global.v4.b32"}
