"""What the compiled SM100 code may contain, and that the assembler accepts it."""

import re
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from cutlass import cute
from cutlass.base_dsl.compiler import DumpDir

from sidestream.kernels.sm100 import barriers as bar
from sidestream.kernels.sm100 import config as facts
from sidestream.kernels.sm100.config import KernelConfig
from sidestream.kernels.sm100.launch import compile_forward

WIDE = KernelConfig(
    dtype="bfloat16",
    head_dim=128,
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
    head_dim=40,
    anchor="top_left",
    has_left=False,
    has_right=False,
    has_sinks=False,
    lse="none",
    prefix_q=False,
    prefix_kv=True,
    negative_scale=False,
)
BOTH = pytest.mark.parametrize("config", [WIDE, NARROW], ids=["wide", "narrow"])


@pytest.fixture(scope="module")
def ptx(tmp_path_factory):
    @cache
    def build(config):
        keep = (cute.KeepPTX(True), DumpDir(str(tmp_path_factory.mktemp("ptx"))))
        return compile_forward(config, "sm_100a", *keep).artifacts.PTX

    return build


def forward_lines(text):
    body = text[text.index(".entry sidestream_sm100_forward") :]
    return [line.strip() for line in body.splitlines()]


def opcodes(lines):
    found = (re.match(r"(?:@%?\w+\s+|@!%?\w+\s+)?([a-z][\w.:]*)", x) for x in lines)
    return [m.group(1) for m in found if m]


@BOTH
def test_products_and_copies_are_those_of_the_chip(config, ptx):
    text = ptx(config)
    assert ".target sm_100a" in text
    entries = re.findall(r"\.entry (\w+)", text)
    assert [name.rpartition("_")[0] for name in entries] == [
        "sidestream_worklist",
        "sidestream_sm100_forward",
    ]
    codes = opcodes(forward_lines(text))
    products = [c for c in codes if c.startswith("tcgen05.mma")]
    # Per sub-tile: Q K^T over the columns there are, P V over a tile's keys.
    steps = config.k_steps + config.tile_n // 16
    assert len(products) == facts.SUB_TILES * steps
    assert all(".cta_group::1.kind::f16" in c for c in products)
    loads = [c for c in codes if c.startswith("cp.async.bulk.tensor")]
    shared = [c for c in loads if ".multicast::cluster" in c]
    assert len(shared) == 2 * config.chunks
    assert len(loads) - len(shared) == facts.SUB_TILES * 2 * config.chunks
    assert {c for c in codes if c.startswith("tcgen05.ld")} == {
        "tcgen05.ld.sync.aligned.32x32b.x32.b32"
    }
    for needed in ("tcgen05.alloc", "tcgen05.relinquish", "tcgen05.dealloc"):
        assert sum(c.startswith(needed) for c in codes) == 1
    kind = "bf16x2" if config.dtype == "bfloat16" else "f16x2"
    assert f"cvt.rn.{kind}.f32" in codes
    for packed in ("fma.rn.f32x2", "add.rn.f32x2", "mul.rn.f32x2"):
        assert packed in codes


@BOTH
def test_nothing_dynamic_is_indexed_or_called(config, ptx):
    text = ptx(config)
    for absent in (".local", "call.uni", "mma.sync", "wgmma", "st.global.v2"):
        assert absent not in text
    stores = set(re.findall(r"\s(st\.global\S*)", text))
    assert stores <= {"st.global.b32", "st.global.v4.b32"}


@BOTH
def test_loads_are_waited_for_and_stores_too_before_a_handover(config, ptx):
    """No pending access is handed over, and no cells of a pending load are written.

    Registers need no wait (PTX ISA, "Register dependencies, same thread"), so that a
    wait behind which nothing is written or handed over would be for nothing.
    """
    pending_loads = pending_stores = idle_waits = 0
    for code in opcodes(forward_lines(ptx(config))):
        if code.startswith("tcgen05.ld"):
            assert not idle_waits
            pending_loads += 1
        elif code.startswith("tcgen05.wait::ld"):
            assert pending_loads
            pending_loads, idle_waits = 0, 1
        elif code.startswith("tcgen05.st"):
            assert not pending_loads
            pending_stores += 1
            idle_waits = 0
        elif code.startswith("tcgen05.wait::st"):
            assert pending_stores
            pending_stores = 0
        elif code.startswith(("mbarrier.arrive", "tcgen05.fence::before")):
            assert not pending_loads
            assert not pending_stores
            idle_waits = 0
    assert not pending_loads
    assert not pending_stores
    assert not idle_waits


@pytest.mark.parametrize("head_dim", range(8, 129, 8))
def test_shared_memory_fits(head_dim):
    config = KernelConfig(**{**vars(NARROW), "head_dim": head_dim})
    assert config.smem_bytes <= facts.SMEM_LIMIT
    assert config.width in (64, 128)
    # One tile of V in use, one of K, and one on its way.
    assert config.stages >= 3


def test_registers_of_the_roles_fill_the_file():
    groups = (2, facts.SOFTMAX_REGISTERS), (1, facts.CORRECTION_REGISTERS)
    total = sum(n * 128 * registers for n, registers in groups)
    total += 128 * facts.OTHER_REGISTERS
    assert total <= 65536
    assert facts.THREADS * 128 == 65536


@pytest.mark.parametrize("stages", [3, 6])
def test_every_barrier_has_its_arrivals(stages):
    counts = bar.arrivals(stages)
    assert len(counts) == bar.barrier_count(stages)
    assert counts[bar.RECORD_EMPTY] == 15
    assert counts[bar.P_READY : bar.P_READY + 2] == [256, 256]
    assert counts[bar.TILE_FULL : bar.tile_empty(stages)] == [1] * stages
    assert counts[bar.tile_empty(stages) :] == [facts.CLUSTER] * stages


def assembler():
    found = shutil.which("ptxas")
    places = [Path(found)] if found else []
    spec = find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        places += Path(root).glob("*/bin/ptxas")
    for place in places:
        done = subprocess.run([place, "--version"], capture_output=True, text=True)
        release = re.search(r"release (\d+)\.(\d+)", done.stdout)
        if release and int(release[1]) >= 13:
            return place
    pytest.skip("no ptxas of CUDA 13 (pip install nvidia-cuda-nvcc)")


def test_the_assembler_honours_register_counts_and_spills_nothing(ptx, tmp_path):
    place = assembler()
    source = tmp_path / "wide.ptx"
    # Older assemblers refuse the version that the DSL writes, not what is in the text.
    source.write_text(re.sub(r"^\.version .*", ".version 9.0", ptx(WIDE), flags=re.M))
    done = subprocess.run(
        [place, "-arch=sm_100a", "-v", source, "-o", tmp_path / "wide.cubin"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "setmaxnreg' ignored" not in done.stderr
    spills = re.findall(r"(\d+) bytes spill", done.stderr)
    assert spills
    assert set(spills) == {"0"}
