"""What the compiled SM100 code may contain, and that the assembler accepts it."""

import re
from dataclasses import replace
from itertools import pairwise, product

import pytest
from artifact import EVERYTHING, LITTLE, MOST_REGISTERS, REGISTER_FILE, assemble

from sidestream.kernels.sm100 import barriers as bar
from sidestream.kernels.sm100 import config as facts
from sidestream.kernels.sm100 import scales, shape
from sidestream.kernels.sm100 import tensor_memory as tmem
from sidestream.kernels.sm100.config import KernelConfig

WIDE = KernelConfig(**EVERYTHING)
NARROW = KernelConfig(**LITTLE)


def of_dims(config, head_dim, head_dim_v):
    return replace(config, head_dim=head_dim, head_dim_v=head_dim_v)


SHAPES = {
    "d64": of_dims(WIDE, 64, 64),
    "d128": WIDE,
    "d192x128": of_dims(WIDE, 192, 128),
    "d256": of_dims(WIDE, 256, 256),
    "d512": of_dims(WIDE, 512, 512),
    "narrow": NARROW,
    "e4m3": replace(WIDE, dtype="float8_e4m3fn"),
    "e4m3-d64": replace(of_dims(WIDE, 64, 64), dtype="float8_e4m3fn"),
    "mxfp8": replace(WIDE, dtype="float8_e4m3fn", block_scaled=True),
    "e5m2-out": replace(WIDE, dtype="float8_e5m2", out_dtype="float8_e5m2"),
}
OTHER_TYPE = {
    f"{name}-float16": replace(SHAPES[name], dtype="float16", out_dtype="float16")
    for name in ("d128", "d192x128", "d256", "d512")
}
OTHER_TYPE["mxfp8-e5m2"] = replace(SHAPES["mxfp8"], dtype="float8_e5m2")
ASSEMBLED = SHAPES | OTHER_TYPE
"""Types differ in a conversion, which the assembler may take registers for."""
CONVERSIONS = {
    "float16": "cvt.rn.f16x2.f32",
    "bfloat16": "cvt.rn.bf16x2.f32",
    "float8_e4m3fn": "cvt.rn.satfinite.e4m3x2.f32",
    "float8_e5m2": "cvt.rn.satfinite.e5m2x2.f32",
}
EVERY = pytest.mark.parametrize("config", SHAPES.values(), ids=SHAPES)


@pytest.fixture(scope="module")
def ptx(build):
    return lambda config: build(config, "sm_100a").ptx


def forward_lines(text):
    body = text[text.index(".entry sidestream_sm100_forward") :]
    return [line.strip() for line in body.splitlines()]


def opcodes(lines):
    found = (re.match(r"(?:@%?\w+\s+|@!%?\w+\s+)?([a-z][\w.:]*)", x) for x in lines)
    return [m.group(1) for m in found if m]


@EVERY
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
    steps = config.k_steps + config.tile_n // config.k_width
    assert len(products) == config.sub_tiles * steps
    format_kind = "f8f6f4" if config.narrow else "f16"
    if config.block_scaled:
        format_kind = "mxf8f6f4.block_scale.block32"
    assert all(f".cta_group::1.kind::{format_kind}." in c + "." for c in products)
    loads = [c for c in codes if c.startswith("cp.async.bulk.tensor")]
    shared = [c for c in loads if ".multicast::cluster" in c]
    values = config.v_slices * config.chunks_v
    own = config.sub_tiles * 2 * config.chunks + config.split_values * values
    assert len(loads) - len(shared) == own
    assert len(shared) == config.chunks + (not config.split_values) * values
    assert {c for c in codes if c.startswith("tcgen05.ld")} == {
        "tcgen05.ld.sync.aligned.32x32b.x32.b32"
    }
    for needed in ("tcgen05.alloc", "tcgen05.relinquish", "tcgen05.dealloc"):
        assert sum(c.startswith(needed) for c in codes) == 1
    for dtype in (config.dtype, config.out_dtype):
        assert CONVERSIONS[dtype] in codes
    for packed in ("fma.rn.f32x2", "add.rn.f32x2", "mul.rn.f32x2"):
        assert packed in codes


@EVERY
def test_nothing_dynamic_is_indexed_or_called(config, ptx):
    text = ptx(config)
    for absent in (".local", "call.uni", "mma.sync", "wgmma", "st.global.v2"):
        assert absent not in text
    stores = set(re.findall(r"\s(st\.global\S*)", text))
    assert stores <= {"st.global.b32", "st.global.v4.b32"}


@EVERY
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


DIMS = [(d, d) for d in range(8, 513, 8)]
DIMS += [(192, 128), (136, 8), (8, 136), (256, 64), (64, 512), (512, 64), (264, 40)]


@pytest.mark.parametrize(("head_dim", "head_dim_v"), DIMS)
def test_memories_hold_what_the_head_dims_need(head_dim, head_dim_v):
    config = of_dims(NARROW, head_dim, head_dim_v)
    assert config.smem_bytes <= facts.SMEM_LIMIT
    assert config.width >= head_dim
    both = 2 if config.split_values else 1
    assert both * config.width_v >= head_dim_v
    # Columns of O follow those of the scores, and sub-tiles follow each other.
    assert tmem.O_COLUMN[0] >= facts.SLOTS * tmem.SLOT_COLUMNS
    ends = [tmem.O_COLUMN[s] + config.width_v for s in range(config.sub_tiles)]
    assert ends[-1] <= tmem.COLUMNS
    assert config.sub_tiles == 1 or ends[0] <= tmem.O_COLUMN[1]
    # Slices make up a tile and fill stages; V of a tile can wait to be cleared.
    assert config.v_slices * config.v_keys == config.tile_n
    assert config.v_keys * config.width_v * 2 == config.stage_bytes
    assert (
        sum(config.k_slice_steps(p) for p in range(config.k_slices)) == config.k_steps
    )
    assert sum(config.k_blocks(p) for p in range(config.k_slices)) == config.chunks
    assert config.v_slices <= config.stages <= bar.MOST_STAGES
    if config.sub_tiles > 1:
        # Both sub-tiles use K and V of a step before the last gives them back.
        assert config.k_slices + config.v_slices <= config.stages


@pytest.mark.parametrize("out_dtype", CONVERSIONS)
@pytest.mark.parametrize("head_dim_v", [16, 64, 80, 128])
def test_columns_that_fill_a_stage_are_not_staged(head_dim_v, out_dtype):
    """Values of one byte fill 128 columns; O has the blocks that its rows need."""
    narrow = replace(NARROW, dtype="float8_e4m3fn", out_dtype=out_dtype)
    config = of_dims(narrow, 64, head_dim_v)
    assert config.width_v == 128
    assert config.out_blocks == -(-head_dim_v // config.out_chunk)
    assert config.out_blocks % config.out_buffers == 0


@pytest.mark.parametrize(("head_dim", "head_dim_v"), DIMS)
def test_blocks_of_o_cover_its_rows(head_dim, head_dim_v):
    config = of_dims(NARROW, head_dim, head_dim_v)
    own = -(-head_dim_v // 2) if config.split_values else head_dim_v
    assert config.out_blocks * config.out_chunk >= own
    assert config.out_blocks * config.out_chunk <= config.width_v
    assert config.out_blocks % config.out_buffers == 0


@EVERY
def test_registers_of_the_roles_fit_the_file(config):
    softmax, correction, others = config.shape.registers
    total = config.sub_tiles * softmax + correction + others
    # What the threads start with is a multiple of eight.
    start = 65536 // config.threads // 8 * 8
    assert facts.GROUP * total <= start * config.threads <= 65536


@EVERY
def test_every_barrier_has_its_arrivals(config):
    counts = bar.arrivals(config)
    assert len(counts) == bar.COUNT
    groups = config.sub_tiles + 1
    assert counts[bar.RECORD_EMPTY] == 4 * groups + 3
    assert counts[bar.P_READY : bar.P_READY + 2] == [256, 256]
    unused = [0] * (bar.MOST_STAGES - config.stages)
    assert counts[bar.TILE_FULL : bar.TILE_EMPTY] == [1] * config.stages + unused
    assert counts[bar.TILE_EMPTY :] == [facts.CLUSTER] * config.stages + unused


@EVERY
def test_the_code_initialises_them(config, ptx):
    codes = opcodes(forward_lines(ptx(config)))
    used = [count for count in bar.arrivals(config) if count]
    assert sum(c.startswith("mbarrier.init") for c in codes) == len(used)


@EVERY
def test_the_artifact_asks_for_no_more_than_the_chip_has(config, ptx):
    text = ptx(config)
    lines = forward_lines(text)
    (threads,) = {int(n) for x in lines for n in re.findall(r"reqntid (\d+)", x)}
    assert threads == config.threads
    (allocation,) = (x for x in lines if x.startswith("tcgen05.alloc"))
    register = allocation.rstrip(";").split(", ")[-1]
    assert f"mov.b32 \t{register}, {tmem.COLUMNS};" in lines
    counts = [n for x in lines for n in re.findall(r"setmaxnreg\S+ \t?(\d+)", x)]
    assert tuple(map(int, counts)) == config.shape.registers


@pytest.mark.parametrize("config", ASSEMBLED.values(), ids=ASSEMBLED)
def test_the_assembler_honours_register_counts_and_spills_nothing(
    config, build, tmp_path
):
    artifact = build(config, "sm_100a")
    worklist, forward = assemble(artifact, tmp_path)
    assert [worklist.spilled, forward.spilled] == [0, 0]
    softmax, correction, others = config.shape.registers
    roles = facts.GROUP * (config.sub_tiles * softmax + correction + others)
    assert roles <= forward.registers * config.threads <= REGISTER_FILE
    assert max(*config.shape.registers, forward.registers) <= MOST_REGISTERS

    (_, asked) = artifact.dynamic_smem
    assert [worklist.static_smem, forward.static_smem] == [0, 0]
    assert config.smem_bytes - 512 <= asked <= config.smem_bytes <= facts.SMEM_LIMIT


def test_every_shape_is_among_them():
    held = {config.shape for config in SHAPES.values()}
    assert held == {*shape.SHAPES, *shape.NARROW_SHAPES, *shape.SCALED_SHAPES}


def test_scales_have_columns_and_memory_of_their_own():
    config = SHAPES["mxfp8"]
    columns = [scales.Q_COLUMN, scales.P_COLUMN, scales.V_COLUMN]
    columns += [scales.K_COLUMN + slot * scales.COLUMNS for slot in range(facts.SLOTS)]
    assert min(columns) >= tmem.O_COLUMN[0] + config.width_v
    assert [b - a for a, b in pairwise(columns)] == [scales.COLUMNS] * 4
    assert scales.END_COLUMN == columns[-1] + scales.COLUMNS <= tmem.COLUMNS
    # A stage holds a tile of K, or of V, so that an atom goes with each.
    assert config.k_slices == config.v_slices == config.sub_tiles == 1
    assert config.atoms == config.stages + 1


def test_an_atom_is_copied_for_each_operand_that_has_one(ptx):
    """Q once a unit, K and V once a tile; P has its scale from threads."""
    codes = opcodes(forward_lines(ptx(SHAPES["mxfp8"])))
    placed = [c for c in codes if c.startswith("tcgen05.cp")]
    assert placed == ["tcgen05.cp.cta_group::1.32x128b.warpx4"] * 3
    loads = [c for c in codes if re.match(r"cp\.async\.bulk\.shared", c)]
    assert len(loads) == 3
    codes = opcodes(forward_lines(ptx(SHAPES["e4m3"])))
    assert not [c for c in codes if c.startswith("tcgen05.cp")]


def test_every_type_at_every_shape_is_assembled():
    """As the plans serve them: two of two bytes, and two of one."""
    held = {(config.shape, config.dtype) for config in ASSEMBLED.values()}
    wide = product(shape.SHAPES, ("float16", "bfloat16"))
    narrow = product(
        (*shape.NARROW_SHAPES, *shape.SCALED_SHAPES), ("float8_e4m3fn", "float8_e5m2")
    )
    assert held == {*wide, *narrow}
