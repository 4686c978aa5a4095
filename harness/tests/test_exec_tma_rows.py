"""Tensor copies that name four rows: .tile::gather4 and .tile::scatter4.

PTX ISA, ".tile::scatter4 and .tile::gather4 modes": four boxes of one row each make a
tile of four rows, and the reverse.
"""

import numpy as np
import pytest
from cluster_case import RANK, SYNC, barriers, expect, only_rank, wait
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_case import (
    FILL,
    Kernel,
    Tensor,
    braces,
    copy_tile,
    only_thread,
    plane,
    random_bytes,
)

from sidestream.harness.exec.machine import Options

TILE = 1024
SPACE = 1 << 14
GATHER = "cp.async.bulk.tensor.2d.shared::{}.global.tile::gather4"
GATHER += ".mbarrier::complete_tx::bytes{}"
SCATTER = "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group"


def rows_of(dtype, swizzle, **more):
    """A plane of 37 rows whose box is one row of the swizzle's span, or 48 bytes."""
    inner = 16 << swizzle if swizzle else 48
    size = Tensor(dtype=dtype, dims=(1,), strides=(), box=(1,)).size
    return plane(dtype, inner, swizzle, **({"box": (inner // size, 1)} | more))


def row_bytes(tensor):
    return tensor.box[0] * tensor.size


def gather(tensor, coords, *, seed=0):
    op = GATHER.format("cta", "")
    body = copy_tile("in", 1, TILE) + only_thread(
        0,
        "mbarrier.init.shared.b64 [%bar], 1;\n"
        + expect(0, 4 * row_bytes(tensor))
        + f"{op} [%s+128], [%m0, {braces(coords)}], [%bar];",
        "ISSUED",
    )
    body += wait(0, 0, "WAIT") + copy_tile("out", 2, TILE)
    source = random_bytes(SPACE, 1)
    ran = Kernel(
        body=body,
        buffers=[source, np.full(TILE, FILL, np.uint8), np.zeros(TILE, np.uint8)],
        maps=[(tensor, 0)],
        smem=TILE,
        target="sm_100a",
        options=Options(seed=seed, budget=100_000),
    ).run()
    assert not ran.program.unsupported
    return source, ran


def gathered(tensor, coords, source, at=128):
    """The tile that four rows make, chunk by chunk."""
    tile = np.full(TILE, FILL, np.uint8)
    nan = np.tile(np.array([0xF7, 0x7F], np.uint8), 4)[: tensor.size]
    outside = nan if tensor.nan_fill else np.zeros(tensor.size, np.uint8)
    for number, row in enumerate(coords[1:]):
        for x in range(tensor.box[0]):
            where = (coords[0] + x, row)
            inside = all(0 <= c < n for c, n in zip(where, tensor.dims, strict=True))
            start = tensor.place(where) if inside else 0
            value = source[start : start + tensor.size] if inside else outside
            to = tensor.chunk(at, number, x)
            tile[to : to + tensor.size] = value
    return tile


ROW = st.one_of(st.integers(-3, 40), st.integers(-(2**31), 2**31 - 1))


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(("u8", "f16", "bf16", "f32", "u64")),
    st.integers(0, 3),
    st.booleans(),
    st.integers(-6, 14),
    st.tuples(*[ROW] * 4),
    st.integers(0, 3),
)
def test_four_rows_come_together(dtype, swizzle, nan, chunk, rows, seed):
    tensor = rows_of(dtype, swizzle, nan_fill=nan and dtype in ("f16", "bf16", "f32"))
    coords = (chunk * 16 // tensor.size, *rows)
    source, ran = gather(tensor, coords, seed=seed)
    assert ran.result.status == "done", ran.result
    assert not ran.result.faults
    assert ran.result.tma_bytes == 4 * row_bytes(tensor)
    assert (ran.buffers[2] == gathered(tensor, coords, source)).all()


def scatter(tensor, coords, *, seed=0):
    body = copy_tile("in", 0, TILE)
    body += only_thread(
        0,
        f"{SCATTER} [%m0, {braces(coords)}], [%s+128];\n"
        "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;",
        "STORED",
    )
    source, target = random_bytes(TILE, 3), random_bytes(SPACE, 4)
    ran = Kernel(
        body=body,
        buffers=[source, target],
        maps=[(tensor, 1)],
        smem=TILE,
        target="sm_100a",
        options=Options(seed=seed, budget=100_000),
    ).run()
    assert not ran.program.unsupported
    return source, target, ran


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(("u8", "f16", "f32", "u64")),
    st.integers(0, 3),
    st.integers(0, 14),
    st.lists(st.integers(0, 50), min_size=4, max_size=4, unique=True),
    st.integers(0, 3),
)
def test_a_tile_goes_to_four_rows(dtype, swizzle, chunk, rows, seed):
    tensor = rows_of(dtype, swizzle)
    coords = (chunk * 16 // tensor.size, *rows)
    source, target, ran = scatter(tensor, coords, seed=seed)
    assert ran.result.status == "done", ran.result
    assert not ran.result.faults
    want = target.copy()
    for number, row in enumerate(rows):
        if row >= tensor.dims[1]:
            continue
        left = tensor.dims[0] * tensor.size - chunk * 16
        # the chunk of the last element inside is written whole
        for byte in range(0, min(row_bytes(tensor), max(left, 0)), 16):
            x = byte // tensor.size
            to = tensor.place((coords[0] + x, row))
            here = tensor.chunk(128, number, x)
            want[to : to + 16] = source[here : here + 16]
    assert (ran.buffers[1] == want).all()


@pytest.mark.parametrize("group", ["", ".cta_group::2"])
def test_a_gather_reaches_the_ctas_of_a_mask(group):
    tensor, coords, size = rows_of("f16", 3), (8, 5, 36, 0, 5), 4
    body = (
        RANK
        + ".reg .b64 %to64;\n.reg .b16 %mask;\n"
        + barriers(1)
        + "mov.u32 %n, "
        + str(4 * row_bytes(tensor))
        + ";\n"
        + ("and.b32 %there, %rank, 1;\nxor.b32 %there, %there, 1;\n" if group else
           "mov.u32 %there, 1;\n")
        + "mul.lo.u32 %n, %n, %there;\n"
        + ("shl.b32 %n, %n, 1;\n" if group else "")
        + only_thread(0, expect(0, "%n"), "TOLD")
        + SYNC
        + only_rank(
            0,
            "mov.b16 %mask, 15;\n"
            + GATHER.format("cluster", ".multicast::cluster" + group)
            + f" [%s+128], [%m0, {braces(coords)}], [%bar], %mask;",
            "SENT",
        )
        + wait(0, 0, "WAIT")
        + SYNC
        + f"mul.wide.u32 %to64, %rank, {TILE};\nadd.u64 %g1, %g1, %to64;\n"
        + copy_tile("out", 1, TILE)
        + SYNC
    )  # fmt: skip
    source = random_bytes(SPACE, 1)
    ran = Kernel(
        body=body,
        buffers=[source, np.zeros(TILE * size, np.uint8)],
        maps=[(tensor, 0)],
        smem=TILE,
        grid=size,
        cluster=size,
        target="sm_100a",
        options=Options(seed=2, budget=200_000, smem_fill=FILL * 0x01010101),
    ).run()
    assert ran.result.status == "done", ran.result
    assert not ran.result.faults
    want = gathered(tensor, coords, source)
    for tile in ran.buffers[1].reshape(size, TILE):
        assert (tile == want).all()


@pytest.mark.parametrize(
    ("change", "coords", "info"),
    [
        ({"box": (16, 2)}, (0, 1, 2, 3, 4), 12),
        ({"box": (16, 4), "steps": (1, 4)}, (0, 1, 2, 3, 4), 12),
        ({"dims": (32, 5, 4), "strides": (224, 4480), "box": (16, 1, 1)},
         (0, 1, 2, 3, 4), 9),
        ({}, (3, 1, 2, 3, 4), 10),
    ],
)  # fmt: skip
def test_maps_and_coordinates_that_four_rows_cannot_have(change, coords, info):
    tensor = rows_of("f16", 1, **change)
    _, _, stored = scatter(tensor, coords)
    assert [(f.kind, f.info) for f in stored.result.faults] == [("tensormap", info)]
    # A load that is refused never signals.
    _, loaded = gather(tensor, coords)
    assert [(f.kind, f.info) for f in loaded.result.faults] == [("tensormap", info)]
    assert loaded.result.status == "deadlock"


@pytest.mark.parametrize("place", range(1, 5))
def test_a_scatter_takes_no_negative_row(place):
    coords = [0, 1, 2, 3, 4]
    coords[place] = -1
    _, target, ran = scatter(rows_of("f16", 1), tuple(coords))
    assert [(f.kind, f.info) for f in ran.result.faults] == [("tensormap", 11)]
    assert (ran.buffers[1] == target).all()


def test_a_prefetch_of_four_rows_reads_the_map_alone():
    text = "cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4 "
    for box, faults in (((16, 1), []), ((16, 3), [("tensormap", 12)])):
        ran = Kernel(
            body=text + "[%m0, {0, 900, -5, 3, 3}];\n",
            buffers=[random_bytes(64)],
            maps=[(rows_of("f16", 1, box=box), 0)],
            threads=1,
            target="sm_100a",
        ).run()
        assert not ran.program.unsupported
        assert [(f.kind, f.info) for f in ran.result.faults] == faults
