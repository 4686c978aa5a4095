"""Tensor loads into the CTAs of a cluster: whose memory, and whose mbarrier.

PTX ISA, "cp.async.bulk.tensor": .cta_group, .multicast::cluster. Destinations and
signals are counted here rank by rank in Python.
"""

import numpy as np
import pytest
from cluster_case import RANK, SYNC, barriers, expect, only_rank, wait
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_case import Kernel, copy_tile, only_thread, plane, random_bytes
from test_exec_tma import expected_tile

from sidestream.harness.exec.machine import Options

TILE = 1024
LOAD = "cp.async.bulk.tensor.2d.shared::{}.global.tile.mbarrier::complete_tx::bytes{}"
TENSOR = plane("f16", 32, 1)
BYTES = TENSOR.box_bytes()


def run(issue, size, signals, *, seed=0, threads=32):
    """Run a cluster: tiles, mbarrier words and result after all ranks have waited.

    `signals[r]` is how many loads rank r's mbarrier is told of.
    """
    body = (
        RANK
        + ".reg .b64 %row, %word;\n.reg .b16 %mask;\n"
        + barriers(1)
        + "shl.b32 %n, %rank, 2;\ncvt.u64.u32 %row, %n;\nadd.u64 %row, %g2, %row;\n"
        + "ld.global.u32 %n, [%row];\n"
        + only_thread(0, expect(0, "%n"), "TOLD")
        + SYNC
        + issue
        + wait(0, 0, "WAIT")
        + SYNC
        + "ld.shared.b64 %word, [%bar];\nmul.wide.u32 %row, %rank, 8;\n"
        + "add.u64 %row, %g3, %row;\nst.global.b64 [%row], %word;\n"
        + f"mul.wide.u32 %row, %rank, {TILE};\nadd.u64 %g1, %g1, %row;\n"
        + copy_tile("out", 1, TILE)
        + SYNC
    )
    source = random_bytes(1 << 16, 1)
    told = (np.array(signals, np.uint32) * BYTES).view(np.uint8)
    ran = Kernel(
        body=body,
        buffers=[
            *(source, np.zeros(TILE * size, np.uint8), told),
            np.zeros(8 * size, np.uint8),
        ],
        maps=[(TENSOR, 0)],
        smem=TILE,
        threads=threads,
        grid=size,
        cluster=size,
        target="sm_100a",
        options=Options(seed=seed, smem_fill=0xA5A5A5A5, budget=400_000),
    ).run()
    assert not ran.program.unsupported
    tiles = ran.buffers[1].reshape(size, TILE)
    return source, tiles, ran.buffers[3].view(np.uint64), ran.result


def check(issue, size, tiles_of, signals, *, seed=0):
    """`tiles_of[r]`: the box coordinates that rank r's tile holds, None for none."""
    source, tiles, words, result = run(issue, size, signals, seed=seed)
    assert not result.faults, result.faults
    assert result.status == "done", result
    for rank, coords in enumerate(tiles_of):
        want = np.full(TILE, 0xA5, np.uint8)
        if coords is not None:
            want = expected_tile(TENSOR, coords, source)[:TILE]
        assert (tiles[rank] == want).all(), rank
    # one phase over, and no byte too many or too few on the next
    assert len(set(words.tolist())) == 1


def multicast(rank, mask, parity, *, group="", label="SENT"):
    """Rank `rank` loads once for all ranks of `mask`."""
    op = LOAD.format("cluster", ".multicast::cluster" + group)
    return only_rank(
        rank,
        f"mov.b16 %mask, {mask};\nmapa.shared::cluster.u32 %there, %bar, {parity};\n"
        f"{op} [%s], [%m0, {{8, 1}}], [%there], %mask;",
        label,
    )


@settings(max_examples=60, deadline=None)
@given(st.sampled_from((2, 4, 8, 16)), st.data())
def test_a_pair_multicast_signals_by_the_parity_of_the_barrier(size, data):
    rank = data.draw(st.integers(0, size - 1))
    mask = data.draw(st.integers(1, 2**size - 1))
    bar = data.draw(st.integers(0, size - 1))
    signals = [0] * size
    for to in range(size):
        if mask >> to & 1:
            pair = {to, to ^ 1}
            (at,) = [r for r in pair if r % 2 == bar % 2]
            signals[at] += 1
    check(
        multicast(rank, mask, bar, group=".cta_group::2"),
        size,
        [(8, 1) if mask >> r & 1 else None for r in range(size)],
        signals,
        seed=data.draw(st.integers(0, 3)),
    )


@pytest.mark.parametrize("group", ["", ".cta_group::1"])
@pytest.mark.parametrize(("size", "mask"), [(2, 3), (4, 11), (8, 0xA5), (16, 0xFFFF)])
def test_a_multicast_signals_where_it_writes(size, mask, group):
    rank = size - 1
    inside = [mask >> r & 1 for r in range(size)]
    check(
        multicast(rank, mask, rank, group=group),
        size,
        [(8, 1) if on else None for on in inside],
        inside,
        seed=mask,
    )


@pytest.mark.parametrize("space", ["cta", "cluster"])
@pytest.mark.parametrize("seed", [0, 3, 4])
def test_both_ctas_of_a_pair_signal_the_even_one(space, seed):
    # As 2-CTA kernels do: bit 24 of the own address cleared names the even CTA.
    op = LOAD.format(space, ".cta_group::2")
    issue = only_thread(
        0,
        "and.b32 %there, %bar, 0xFEFFFFFF;\nmul.lo.u32 %n, %rank, 8;\n"
        f"{op} [%s], [%m0, {{%n, 1}}], [%there];",
        "SENT",
    )
    coords = [(8 * rank, 1) for rank in range(4)]
    check(issue, 4, coords, [2, 0, 2, 0], seed=seed)


def test_the_peer_may_load_for_this_cta():
    op = LOAD.format("cluster", ".cta_group::2")
    issue = only_rank(
        0,
        f"mapa.shared::cluster.u32 %to, %s, 1;\n{op} [%to], [%m0, {{8, 1}}], [%bar];",
        "SENT",
    )
    check(issue, 2, [None, (8, 1)], [1, 0])


def far(op, dst, bar, mask=""):
    """A load by rank 0 with the tile of rank `dst` and the mbarrier of rank `bar`."""
    return only_rank(
        0,
        f"or.b32 %to, %s, {dst << 24};\nor.b32 %there, %bar, {bar << 24};\n"
        + (f"mov.b16 %mask, {mask};\n" if mask else "")
        + f"{op} [%to], [%m0, {{8, 1}}], [%there]{', %mask' if mask else ''};",
        "SENT",
    )


@pytest.mark.parametrize(
    ("where", "dst", "bar", "mask", "size", "info"),
    [
        (("cluster", ""), 7, 7, "", 4, 1),
        (("cluster", ""), 0, 4, "", 4, 1),
        (("cluster", ".multicast::cluster"), 0, 0, 0x13, 4, 1),
        (("cluster", ".multicast::cluster.cta_group::2"), 0, 0, 0x8001, 8, 1),
        (("cta", ""), 1, 1, "", 2, 2),
        (("cta", ".cta_group::2"), 1, 1, "", 2, 2),
        (("cta", ""), 0, 1, "", 2, 3),
        (("cluster", ""), 0, 1, "", 2, 3),
        (("cluster", ".cta_group::1"), 0, 1, "", 2, 3),
        (("cluster", ".multicast::cluster"), 0, 1, 3, 2, 3),
        (("cluster", ".cta_group::2"), 0, 2, "", 4, 4),
        (("cluster", ".cta_group::2"), 1, 2, "", 4, 4),
        (("cluster", ".multicast::cluster.cta_group::2"), 0, 1, 4, 3, 5),
    ],
)
def test_loads_outside_the_rules(where, dst, bar, mask, size, info):
    issue = far(LOAD.format(*where), dst, bar, mask)
    _, tiles, _, result = run(issue, size, [0] * size)
    assert [(f.kind, f.info, f.count) for f in result.faults] == [("cluster", info, 1)]
    assert (tiles == 0xA5).all()
    assert result.status == "done"
