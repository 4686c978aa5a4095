"""The CTAs of a cluster: barrier, distributed shared memory, exits, residency.

PTX ISA, "barrier.cluster", "mapa", "Shared State Space", "cp.async.bulk".
"""

import ctypes

import numpy as np
import pytest
from cluster_case import RANK, SYNC, barriers, expect, only_rank, wait
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_case import Kernel, copy_tile, plane, random_bytes

from sidestream.harness.exec.build import load
from sidestream.harness.exec.machine import Options

ARRIVE, EXIT, EXIT_ARRIVED = range(3)
SIZES = (1, 2, 4, 8, 16)
TILE = 1024


def run(
    body, size, buffers, *, grid=None, seed=0, sms=4, threads=32, maps=(), smem=TILE
):
    ran = Kernel(
        body=".reg .b64 %w<6>;\n.reg .b32 %v<8>;\n.reg .pred %q<4>;\n" + RANK + body,
        buffers=list(buffers),
        maps=list(maps),
        smem=smem,
        threads=threads,
        grid=grid or size,
        cluster=size,
        target="sm_100a",
        options=Options(seed=seed, sms=sms, budget=2_000_000),
    ).run()
    assert not ran.program.unsupported, ran.program.unsupported
    return ran


def clean(*args, **how):
    ran = run(*args, **how)
    assert ran.result.status == "done", ran.result
    assert not ran.result.faults, ran.result.faults
    return [b.view(np.uint32) for b in ran.buffers]


def faults(*args, **how):
    result = run(*args, **how).result
    assert result.status == "done", result
    return [(f.kind, f.info) for f in result.faults]


ROOM = (np.zeros(64, np.uint8),)


# --- the barrier --------------------------------------------------------------------
@settings(max_examples=300, deadline=None)
@given(st.integers(1, 6), st.lists(st.integers(0, 99), max_size=40))
def test_a_phase_ends_when_all_that_live_have_arrived(threads, events):
    function = load().lib.ss_cluster_barrier_step
    function.restype = ctypes.c_uint32
    function.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32]
    live, arrived, phase = set(range(threads)), set(), 0
    state = np.array([threads, 0, 0], np.uint64)
    for event in events:
        thread = event % threads
        if thread not in live:
            continue
        leaves = event // threads % 3 == 0
        if leaves:
            op = EXIT_ARRIVED if thread in arrived else EXIT
            live -= {thread}
            arrived -= {thread}
        elif thread in arrived:
            continue
        else:
            op = ARRIVE
            arrived |= {thread}
        ended = bool(live) and arrived == live
        if ended:
            arrived, phase = set(), phase + 1
        assert function(state.ctypes.data, op, 1) == ended
        assert state.tolist() == [len(live), len(arrived), phase]


@pytest.mark.parametrize("form", ["", ".aligned"])
@pytest.mark.parametrize("order", ["", ".release", ".relaxed"])
@pytest.mark.parametrize("size", SIZES)
def test_what_all_did_before_is_seen_by_all_after(size, form, order):
    # Everyone adds to one counter a round; after each barrier it must have its sum.
    threads, rounds = 64, 3
    body = (
        f"mov.u32 %v0, 0;\nROUND:\nred.global.add.u32 [%g0], 1;\n"
        f"barrier.cluster.arrive{order}{form};\nbarrier.cluster.wait{form};\n"
        f"ld.global.u32 %v1, [%g0];\nadd.u32 %v0, %v0, 1;\n"
        f"mul.lo.u32 %v2, %v0, {threads * size};\nsetp.ne.u32 %q0, %v1, %v2;\n"
        f"@%q0 red.global.add.u32 [%g0+4], 1;\n"
        f"barrier.cluster.arrive{order}{form};\n"
        f"barrier.cluster.wait.acquire{form};\n"
        f"setp.lt.u32 %q1, %v0, {rounds};\n@%q1 bra ROUND;\n"
    )
    for seed in range(4):
        (got,) = clean(body, size, [np.zeros(8, np.uint8)], seed=seed, threads=threads)
        assert got.tolist() == [threads * size * rounds, 0]


def test_divergent_lanes_may_arrive_one_after_another():
    body = (
        "setp.ge.u32 %q0, %t, 20;\n@%q0 bra FEW;\nbarrier.cluster.arrive;\nbra ON;\n"
        "FEW: barrier.cluster.arrive;\nON: barrier.cluster.wait;\n"
        "red.global.add.u32 [%g0], 1;\n"
    )
    (got,) = clean(body, 2, [np.zeros(8, np.uint8)], threads=32)
    assert got[0] == 64


def test_threads_that_exit_are_not_waited_for():
    # Half of the threads leave: some before they arrive, some between arrive and wait.
    body = (
        "rem.u32 %v0, %t, 4;\nsetp.eq.u32 %q0, %v0, 0;\n@%q0 exit;\n"
        "barrier.cluster.arrive;\nsetp.eq.u32 %q0, %v0, 1;\n@%q0 exit;\n"
        "barrier.cluster.wait;\nred.global.add.u32 [%g0], 1;\n" + SYNC
    )
    for seed in range(6):
        (got,) = clean(body, 4, [np.zeros(8, np.uint8)], seed=seed, threads=64)
        assert got[0] == 4 * 32


@pytest.mark.parametrize(
    ("body", "info"),
    [
        (
            "setp.lt.u32 %q0, %t, 7;\n@%q0 barrier.cluster.arrive.aligned;\n"
            "@!%q0 barrier.cluster.arrive;\nbarrier.cluster.wait;\n",
            6,
        ),
        (
            "barrier.cluster.arrive;\nsetp.lt.u32 %q0, %t, 7;\n"
            "@%q0 barrier.cluster.wait.aligned;\n@!%q0 barrier.cluster.wait;\n",
            6,
        ),
        ("barrier.cluster.arrive;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;", 16),
        ("barrier.cluster.wait;\n" + SYNC, 17),
    ],
)
def test_misuse_of_the_barrier(body, info):
    assert faults(body, 2, [np.zeros(8, np.uint8)]) == [("named-barrier", info)]


def test_an_aligned_barrier_waits_for_the_warp_that_never_comes():
    body = (
        "setp.lt.u32 %q0, %t, 7;\n@%q0 bra AWAY;\nbarrier.cluster.arrive.aligned;\n"
        "bra ON;\nAWAY: barrier.cluster.arrive.aligned;\nON: barrier.cluster.wait;\n"
    )
    assert run(body, 2, [np.zeros(8, np.uint8)]).result.status in (
        "deadlock",
        "divergent-sync",
    )


# --- residency ----------------------------------------------------------------------
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", [0, 1])
def test_clusters_are_resident_together_however_few_fit(size, seed):
    (got,) = clean(
        SYNC + "red.global.add.u32 [%g0], 1;\n" + SYNC,
        *(size, [np.zeros(8, np.uint8)]),
        grid=5 * size,
        seed=seed,
        sms=1,
    )
    assert got[0] == 5 * size * 32


# --- distributed shared memory ------------------------------------------------------
def peers(statements):
    """For every rank `%v0` of the cluster: `%to` is the tile there."""
    return (
        "mov.u32 %n, %cluster_nctarank;\nmov.u32 %v0, 0;\nEACH:\n"
        f"mapa.shared::cluster.u32 %to, %s, %v0;\n{statements}"
        "add.u32 %v0, %v0, 1;\nsetp.lt.u32 %q0, %v0, %n;\n@%q0 bra EACH;\n"
    )


def out(tile=TILE):
    """The tile of rank r goes to the r-th part of buffer 0."""
    at = f"mul.wide.u32 %w0, %rank, {tile};\nadd.u64 %g0, %g0, %w0;\n"
    return at + copy_tile("out", 0, tile)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("way", ["space", "generic", "vector", "bytes"])
def test_stores_reach_the_cta_they_name(size, way):
    # Thread t of rank r stores r * 1000 + t at a place of its own in every CTA.
    tile = 32 * 16 * size
    each = {
        "space": "st.shared::cluster.u32 [%v2], %v3;\n",
        "generic": "cvt.u64.u32 %w1, %v2;\ncvta.shared.u64 %w1, %w1;\n"
        "st.u32 [%w1], %v3;\n",
        "vector": "st.shared::cluster.v4.u32 [%v2], {%v3, %t, %rank, %v0};\n",
        "bytes": "st.shared::cluster.u16 [%v2], %v3;\n",
    }[way]
    body = (
        "mad.lo.u32 %v3, %rank, 1000, %t;\n"
        + SYNC
        + peers(
            "mad.lo.u32 %v1, %rank, 32, %t;\nmad.lo.u32 %v2, %v1, 16, %to;\n" + each
        )
        + SYNC
        + out(tile)
    )
    for seed in (0, 1):
        zeros = np.zeros(tile * size, np.uint8)
        (got,) = clean(body, size, [zeros], smem=tile, seed=seed)
        cells = got.reshape(size, -1, 4)
        for target in range(size):
            for place, cell in enumerate(cells[target].tolist()):
                rank, thread = divmod(place, 32)
                value = rank * 1000 + thread
                if way == "vector":
                    assert cell == [value, thread, rank, target]
                elif way == "bytes":
                    assert cell[0] & 0xFFFF == value
                else:
                    assert cell[0] == value


@pytest.mark.parametrize("size", SIZES)
def test_loads_and_atomics_reach_the_cta_they_name(size):
    # Word t of rank p starts as 100 p + t; everyone adds 1 << rank there and then
    # sums what all CTAs hold.
    body = (
        "mad.lo.u32 %v3, %rank, 100, %t;\nshl.b32 %v1, %t, 2;\nadd.u32 %v2, %s, %v1;\n"
        "st.shared.u32 [%v2], %v3;\nmov.u32 %v4, 0;\nmov.u32 %v6, 1;\n"
        "shl.b32 %v6, %v6, %rank;\n"
        + SYNC
        + peers(
            "add.u32 %v2, %to, %v1;\natom.shared::cluster.add.u32 %v5, [%v2], %v6;\n"
        ).replace("EACH", "ADD")
        + SYNC
        + peers(
            "add.u32 %v2, %to, %v1;\nld.shared::cluster.u32 %v5, [%v2];\n"
            "add.u32 %v4, %v4, %v5;\n"
        )
        + "mad.lo.u32 %v1, %rank, 32, %t;\nmul.wide.u32 %w0, %v1, 4;\n"
        "add.u64 %w0, %w0, %g0;\nst.global.u32 [%w0], %v4;\n" + SYNC
    )
    (got,) = clean(body, size, [np.zeros(128 * size, np.uint8)], seed=size)
    tile = np.add.outer(100 * np.arange(size), np.arange(32)) + 2**size - 1
    assert (got.reshape(size, 32) == tile.sum(0)).all()


@pytest.mark.parametrize(
    "access",
    ["ld.shared.u32 %v1, [%to]", "ld.shared::cta.u32 %v1, [%to]",
     "st.shared::cta.u32 [%to], %v1", "atom.shared.add.u32 %v1, [%to], 1",
     "red.shared::cta.add.u32 [%to], 1"],
)  # fmt: skip
def test_the_cta_window_holds_only_its_own_memory(access):
    body = "xor.b32 %v0, %rank, 1;\nmapa.shared::cluster.u32 %to, %s, %v0;\n"
    assert faults(body + access + ";\n" + SYNC, 2, ROOM) == [("cluster", 2)]
    own = body.replace("xor.b32 %v0, %rank, 1", "mov.u32 %v0, %rank")
    assert faults(own + access + ";\n" + SYNC, 2, ROOM) == []


# --- exits --------------------------------------------------------------------------
BULK = "cp.async.bulk.shared::cluster.{}.mbarrier::complete_tx::bytes{}"
LATE = [
    "st.shared::cluster.u32 [%to], %v1;",
    "ld.shared::cluster.u32 %v1, [%to];",
    "cvt.u64.u32 %w1, %to;\ncvta.shared.u64 %w1, %w1;\nld.u32 %v1, [%w1];",
    "atom.shared::cluster.add.u32 %v1, [%to], 1;",
    "mbarrier.arrive.shared::cluster.b64 _, [%there];",
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%to], 5, [%there];",
    BULK.format("shared::cta", "") + " [%to], [%s], 64, [%there];",
    BULK.format("global", "") + " [%to], [%g0], 64, [%there];",
    BULK.format("global", ".multicast::cluster") + " [%s], [%g0], 64, [%bar], %mask;",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    ".multicast::cluster [%s], [%m0, {0, 0}], [%bar], %mask;",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    ".cta_group::2 [%s], [%m0, {0, 0}], [%there];",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    ".multicast::cluster.cta_group::2 [%s], [%m0, {0, 0}], [%bar], %odd;",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 "
    "[%to], 5, [%there];",
]


@pytest.mark.parametrize("late", LATE)
def test_a_cta_that_has_exited_has_no_shared_memory(late):
    tensor = plane("f16", 32, 1)
    rest = (
        ".reg .b16 %mask, %odd;\nmov.b16 %mask, 3;\nmov.b16 %odd, 2;\n"
        "mov.u32 %v0, 1;\n"
        "mapa.shared::cluster.u32 %to, %s, %v0;\n"
        "mapa.shared::cluster.u32 %there, %bar, %v0;\n"
    )
    told = expect(0, 64) if "bulk.s" in late else expect(0, tensor.box_bytes())
    body = (
        barriers(4)
        + "setp.eq.u32 %q1, %rank, 1;\n@@LEAVE@@"
        + rest
        + "SPIN: add.u32 %v2, %v2, 1;\nsetp.lt.u32 %q2, %v2, 3000;\n@%q2 bra SPIN;\n"
        + only_rank(0, told + late, "LATE")
        + "@@STAY@@"
    )
    spin = "mov.u32 %v2, 0;\n"
    buffers, maps = [random_bytes(1 << 16, 1)], [(tensor, 0)]
    body = spin + body
    gone = body.replace("@@LEAVE@@", "@%q1 exit;\n").replace("@@STAY@@", "")
    found = faults(gone, 2, buffers, maps=maps)
    assert found
    assert set(found) == {("cluster", 6)}
    stays = body.replace("@@LEAVE@@", "").replace("@@STAY@@", SYNC)
    # Rank 1 does not expect what comes, which is told of and no matter of memory.
    assert set(faults(stays, 2, buffers, maps=maps)) <= {("mbarrier", 11)}


# --- bulk copies --------------------------------------------------------------------
def test_a_bulk_multicast_writes_the_ctas_of_the_mask():
    size, mask, bytes_ = 8, 0b10110101, 256
    body = (
        ".reg .b16 %mask;\n"
        + barriers(1)
        + f"mov.b16 %mask, {mask};\nshr.u32 %v0, {mask}, %rank;\n"
        + "and.b32 %v0, %v0, 1;\n"
        + f"mul.lo.u32 %v0, %v0, {bytes_};\n"
        + "setp.ne.u32 %q0, %t, 0;\n@%q0 bra TOLD;\n"
        + expect(0, "%v0")
        + "TOLD:\n"
        + SYNC
        + only_rank(
            3,
            BULK.format("global", ".multicast::cluster")
            + f" [%s+128], [%g1], {bytes_}, [%bar], %mask;",
            "SENT",
        )
        + wait(0, 0, "WAIT")
        + SYNC
        + out()
    )
    source = random_bytes(bytes_, 2)
    for seed in range(3):
        got, _ = clean(body, size, [np.zeros(TILE * size, np.uint8), source], seed=seed)
        tiles = got.view(np.uint8).reshape(size, TILE)
        for rank in range(size):
            want = np.full(TILE, 0xFF, np.uint8)
            if mask >> rank & 1:
                want[128 : 128 + bytes_] = source
            assert (tiles[rank] == want).all()


@pytest.mark.parametrize(
    ("copy", "info"),
    [
        (BULK.format("shared::cta", "") + " [%there], [%to], 16, [%bar]", 2),
        (BULK.format("shared::cta", "") + " [%far], [%s], 16, [%bar]", 1),
        (BULK.format("shared::cta", "") + " [%to], [%far], 16, [%bar]", 1),
        (BULK.format("shared::cta", "") + " [%s], [%s], 16, [%bar]", 7),
        (BULK.format("global", "") + " [%far], [%g0], 16, [%bar]", 1),
        (BULK.format("global", "") + " [%s], [%g0], 16, [%far]", 1),
        (BULK.format("global", ".multicast::cluster")
         + " [%s], [%g0], 16, [%bar], %mask", 1),
        (BULK.format("global", "").replace("shared::cluster", "shared::cta")
         + " [%to], [%g0], 16, [%bar]", 2),
        ("cp.async.bulk.global.shared::cta.bulk_group [%g0], [%to], 16", 2),
    ],
)  # fmt: skip
def test_bulk_copies_to_ctas_that_they_may_not_reach(copy, info):
    body = (
        ".reg .b16 %mask;\n.reg .b32 %far;\nmov.b16 %mask, 5;\n"
        + barriers(1)
        + "or.b32 %far, %s, 0x9000000;\nmov.u32 %v0, 1;\n"
        "mapa.shared::cluster.u32 %to, %s, %v0;\nadd.u32 %there, %to, 64;\n"
        + only_rank(0, copy + ";\n", "SENT")
        + SYNC
    )
    assert faults(body, 2, [np.zeros(64, np.uint8)]) == [("cluster", info)]
