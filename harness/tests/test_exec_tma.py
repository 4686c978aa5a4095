"""Tensor loads: boxes, swizzles, ranks, edges, steps and multicast."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_boxes import boxes
from tensor_case import (
    FILL,
    SMEM,
    TYPES,
    Kernel,
    Tensor,
    copy_tile,
    load_box,
    only_thread,
    plane,
    random_bytes,
)

from sidestream.harness.exec.machine import Options


def expected_tile(tensor, coords, source, *, at=0):
    # The tile lies on 1024 bytes, so its own addresses tell the swizzle.
    tile = np.full(SMEM, FILL, np.uint8)
    nan = np.tile(np.array([0xF7, 0x7F], np.uint8), 4)[: tensor.size]
    outside = nan if tensor.nan_fill else np.zeros(tensor.size, np.uint8)
    for (row, x), where in tensor.elements(coords):
        to = tensor.chunk(at, row, x)
        value = outside
        if where is not None:
            start = tensor.place(where)
            value = source[start : start + tensor.size]
        tile[to : to + tensor.size] = value
    return tile


def check_load(tensor, coords, *, at=0, options=None):
    source, ran = load_box(tensor, coords, at=at, options=options)
    assert ran.result.status == "done", ran.result
    assert not ran.result.faults
    assert ran.result.tma_bytes == tensor.box_bytes()
    want = expected_tile(tensor, coords, source, at=at)
    assert (ran.buffers[2] == want).all()


@pytest.mark.parametrize("swizzle", range(4))
@pytest.mark.parametrize("dtype", TYPES)
def test_every_swizzle_and_element(swizzle, dtype):
    tensor = plane(dtype, 16 << swizzle if swizzle else 80, swizzle)
    check_load(tensor, (32 // tensor.size, 5))


@pytest.mark.parametrize("swizzle", range(4))
@pytest.mark.parametrize("at", [0, 128, 384, 1024, 1920])
def test_the_pattern_hangs_on_the_address(swizzle, at):
    check_load(plane("f16", 16 << swizzle, swizzle), (8, 3), at=at)


@pytest.mark.parametrize("swizzle", [1, 2, 3])
def test_rows_shorter_than_the_swizzle_leave_gaps(swizzle):
    check_load(plane("u8", 16, swizzle), (16, 2))


@pytest.mark.parametrize("nan_fill", [False, True])
@pytest.mark.parametrize(
    "coords",
    [(-8, 0), (96, 0), (0, -4), (0, 35), (-16, -20), (104, 36), (2000, 0), (0, 2000)],
)
def test_edges_are_filled(coords, nan_fill):
    check_load(plane("bf16", 64, 2, nan_fill=nan_fill), coords)


def test_coordinates_at_the_ends_of_s32():
    for c in (2**31 - 16, -(2**31)):
        check_load(plane("f16", 64, 2), (c, c))


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("rank", range(1, 6))
def test_every_rank(rank, seed):
    dims, strides = (21, 4, 3, 3, 2), (48, 208, 640, 2048)
    box, coords = (16, 3, 2, 2, 2), (8, 2, -1, 2, 0)
    tensor = Tensor(
        dtype="f16",
        dims=dims[:rank],
        strides=strides[: rank - 1],
        box=box[:rank],
        swizzle=1,
    )
    check_load(tensor, coords[:rank], options=Options(seed=seed))


@pytest.mark.parametrize("steps", [(1, 2), (1, 3), (1, 8), (5, 1), (8, 7)])
def test_traversal_strides_skip_rows_and_ignore_the_inner_dimension(steps):
    check_load(plane("f16", 32, 1, steps=steps), (16, -3))
    check_load(plane("f16", 32, 1, steps=steps, dims=(100, 200)), (16, 2))


def test_rows_of_stride_0_repeat_and_still_end():
    tensor = Tensor(dtype="f16", dims=(64, 9), strides=(0,), box=(16, 4))
    for row in (-2, 0, 7):
        check_load(tensor, (8, row))


@settings(max_examples=150, deadline=None)
@given(boxes(), st.integers(0, 3))
def test_any_box_loads_what_it_covers(case, seed):
    tensor, coords, at = case
    check_load(tensor, coords, at=at, options=Options(seed=seed))


def test_multicast_reaches_every_cta_of_the_mask():
    tensor = plane("f16", 32, 1)
    body = (
        ".reg .b32 %rank;\n.reg .b64 %to;\nmov.u32 %rank, %cluster_ctarank;\n"
        + only_thread(
            0,
            "mbarrier.init.shared.b64 [%bar], 1;\n"
            "fence.mbarrier_init.release.cluster;\n"
            "mbarrier.arrive.expect_tx.shared.b64 _, [%bar], "
            f"{tensor.box_bytes()};",
            "READY",
        )
        + "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
        "setp.ne.u32 %p0, %rank, 1;\nsetp.ne.u32 %p1, %t, 0;\nor.pred %p0, %p0, %p1;\n"
        "@%p0 bra ISSUED;\n.reg .b16 %mask;\nmov.b16 %mask, 11;\n"
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx"
        "::bytes.multicast::cluster [%s], [%m0, {8, 1}], [%bar], %mask;\n"
        "ISSUED: setp.eq.u32 %p3, %rank, 2;\n@%p3 bra OUT;\n"
        "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%bar], 0;\n@!%p2 bra WAIT;\n"
        "OUT: mul.wide.u32 %to, %rank, 1024;\nadd.u64 %g1, %g1, %to;\n"
        + copy_tile("out", 1, 1024)
        + "barrier.cluster.arrive;\nbarrier.cluster.wait;"
    )
    source = random_bytes(1 << 16, 1)
    for seed in (0, 5):
        ran = Kernel(
            body=body,
            buffers=[source, np.zeros(4096, np.uint8)],
            maps=[(tensor, 0)],
            smem=1024,
            grid=4,
            cluster=4,
            options=Options(seed=seed, smem_fill=0xA5A5A5A5),
        ).run()
        assert ran.result.status == "done"
        assert not ran.result.faults
        want = expected_tile(tensor, (8, 1), source)[:1024]
        tiles = ran.buffers[1].reshape(4, 1024)
        for rank in (0, 1, 3):
            assert (tiles[rank] == want).all()
        assert (tiles[2] == 0xA5).all()
