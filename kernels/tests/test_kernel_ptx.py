"""What the compiled code may contain, for every target it must run on."""

import re

import pytest
from cutlass import cute
from cutlass.base_dsl.compiler import DumpDir

from sidestream.kernels.sm120.config import KernelConfig
from sidestream.kernels.sm120.launch import compile_forward

WIDE = KernelConfig(
    dtype="bfloat16",
    out_dtype="bfloat16",
    head_dim=128,
    head_dim_v=128,
    tile_m=128,
    anchor="bottom_right",
    has_left=True,
    has_right=True,
    has_sinks=True,
    lse="head_major",
    prefix_q=True,
    prefix_kv=False,
    negative_scale=True,
)
NARROW = KernelConfig(
    dtype="float16",
    out_dtype="float16",
    head_dim=40,
    head_dim_v=40,
    tile_m=16,
    anchor="top_left",
    has_left=False,
    has_right=False,
    has_sinks=False,
    lse="none",
    prefix_q=False,
    prefix_kv=True,
    negative_scale=False,
)


@pytest.mark.parametrize("arch", ["sm_120a", "sm_90a"])
@pytest.mark.parametrize("config", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_code_runs_on_both_targets(config, arch, tmp_path):
    keep = (cute.KeepPTX(True), DumpDir(str(tmp_path)))
    ptx = compile_forward(config, arch, *keep).artifacts.PTX
    assert f".target {arch}" in ptx
    entries = re.findall(r"\.entry (\w+)", ptx)
    assert len(entries) == 2
    assert entries[0].startswith("sidestream_worklist")
    assert entries[1].startswith("sidestream_sm120_forward")
    # Packed f32x2 arithmetic and everything with tensor memory or clusters is missing
    # on one target or the other; local memory would mean dynamic register indexing.
    for absent in (".f32x2", "tcgen05", "wgmma", ".multicast", ".local", "call.uni"):
        assert absent not in ptx
    kind = "bf16" if config.dtype == "bfloat16" else "f16"
    assert f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32" in ptx
    assert "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" in ptx
    assert ".mbarrier::complete_tx::bytes" in ptx
    assert "st.global.v4.b32" in ptx
    stores = set(re.findall(r"\s(st\.global\S*)", ptx))
    assert stores <= {"st.global.b32", "st.global.v4.b32"}
