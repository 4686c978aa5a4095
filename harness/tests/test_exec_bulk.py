"""Bulk copies without a map, and bulk groups as a state machine."""

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_case import Kernel, copy_tile, only_thread, random_bytes

from sidestream.harness.exec.build import load
from sidestream.harness.exec.machine import Options

SIZE = 4096
ISSUE, COMMIT, WAIT = range(3)
WAIT_PHASE = (
    "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%bar], 0;\n@!%p2 bra WAIT;\n"
)


# --- groups --------------------------------------------------------------------------


def _step(committed, op, arg=0, group=0):
    function = load().lib.ss_bulk_group_step
    function.restype = ctypes.c_uint64
    packed = function(*(ctypes.c_uint32(v) for v in (committed, op, arg, group)))
    return packed & 0xFFFFFFFF, packed >> 32


@settings(max_examples=200)
@given(st.lists(st.sampled_from(["issue", "commit"])), st.integers(0, 6))
def test_groups_are_lists_of_operations(history, n):
    """Against a model that keeps the groups: the N newest may be pending."""
    groups, current, number, joined = [], [], 0, {}
    committed = 0
    for event in history:
        if event == "issue":
            current.append(number)
            joined[number] = _step(committed, ISSUE)[1]
            number += 1
        else:
            groups.append(current)
            current = []
            committed, closed = _step(committed, COMMIT)
            assert closed == len(groups) - 1
    assert committed == len(groups)
    waited = {op for group in groups[: max(len(groups) - n, 0)] for op in group}
    for op, group in joined.items():
        assert _step(committed, WAIT, n, group) == (committed, op in waited)


def test_group_numbers_do_not_overflow():
    top = 2**32 - 1
    assert _step(3, WAIT, top, top) == (3, 0)
    assert _step(3, WAIT, top, 2) == (3, 0)
    assert _step(top, WAIT, 0, top - 1) == (top, 1)


def _groups(waits, *, seed):
    """Store three words in a group each, wait, and count what has been written.

    Other warps are absent, so what a wait leaves pending stays so under some seeds.
    """
    body = "st.shared.v4.b32 [%s], {7, 7, 7, 7};\nfence.proxy.async.shared::cta;\n"
    for k in range(3):
        body += f"add.u64 %x0, %g0, {64 * k};\n"
        body += "cp.async.bulk.global.shared::cta.bulk_group [%x0], [%s], 16;\n"
        body += "cp.async.bulk.commit_group;\n"
    body += waits
    for k in range(3):
        body += (
            f"ld.global.b32 %r1, [%g0+{64 * k}];\nst.global.b32 [%g1+{4 * k}], %r1;\n"
        )
    ran = Kernel(
        body=body,
        buffers=[np.zeros(256, np.uint8), np.zeros(12, np.uint8)],
        threads=1,
        options=Options(seed=seed, quantum=4),
    ).run()
    assert ran.result.status == "done"
    assert (ran.buffers[0].view(np.uint32)[::16][:3] == 7).all()  # all land in the end
    return ran.buffers[1].view(np.uint32) == 7


def test_a_wait_covers_all_but_the_newest_groups():
    seen = [_groups("cp.async.bulk.wait_group 1;", seed=s) for s in range(1, 60)]
    assert all(written[:2].all() for written in seen)
    assert not all(written[2] for written in seen)


def test_a_read_wait_promises_nothing_about_the_destination():
    seen = [_groups("cp.async.bulk.wait_group.read 0;", seed=s) for s in range(1, 60)]
    assert not all(written.all() for written in seen)
    full = [_groups("cp.async.bulk.wait_group 0;", seed=s) for s in range(1, 60)]
    assert all(written.all() for written in full)


def test_a_read_wait_lets_the_source_be_reused():
    body = (
        "st.shared.v4.b32 [%s], {7, 7, 7, 7};\nfence.proxy.async.shared::cta;\n"
        "cp.async.bulk.global.shared::cta.bulk_group [%g0], [%s], 16;\n"
        "cp.async.bulk.commit_group;\n{wait}\n"
        "st.shared.v4.b32 [%s], {9, 9, 9, 9};\n"
    )
    stale = 0
    for seed in range(1, 60):
        for wait in ("cp.async.bulk.wait_group.read 0;", ""):
            ran = Kernel(
                body=body.replace("{wait}", wait),
                buffers=[np.zeros(16, np.uint8)],
                threads=1,
                options=Options(seed=seed, quantum=3),
            ).run()
            value = int(ran.buffers[0].view(np.uint32)[0])
            assert value == 7 or not wait
            stale += value == 9
    assert stale


@pytest.mark.parametrize("other", [1, 32], ids=["lane", "warp"])
def test_groups_belong_to_threads(other):
    """A thread does not wait for what another one issued."""
    body = (
        "st.shared.v4.b32 [%s], {7, 7, 7, 7};\nbar.sync 0;\n"
        "fence.proxy.async.shared::cta;\nsetp.ne.u32 %p0, %t, 0;\n@%p0 bra OTHER;\n"
        "cp.async.bulk.global.shared::cta.bulk_group [%g0], [%s], 16;\n"
        "OTHER: cp.async.bulk.commit_group;\nbar.sync 0;\n"
        f"setp.ne.u32 %p1, %t, {other};\n@%p1 bra OUT;\n"
        "cp.async.bulk.wait_group 0;\nld.global.b32 %r1, [%g0];\n"
        "st.global.b32 [%g1], %r1;\nOUT:"
    )
    seen = set()
    for seed in range(1, 60):
        ran = Kernel(
            body=body,
            buffers=[np.zeros(16, np.uint8), np.zeros(4, np.uint8)],
            threads=64,
            options=Options(seed=seed, quantum=5),
        ).run()
        assert ran.result.status == "done"
        seen.add(int(ran.buffers[1].view(np.uint32)[0]))
    assert 0 in seen


# --- copies --------------------------------------------------------------------------


def _bulk_load(dst, src, size, *, expect=None, seed=0, mbar=0):
    expect = size if expect is None else expect
    issue = (
        "mbarrier.init.shared.b64 [%bar], 1;\n"
        f"mbarrier.arrive.expect_tx.shared.b64 _, [%bar], {expect};\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        f"[%s+{dst}], [%g0+{src}], {size}, [%bar+{mbar}];"
    )
    body = copy_tile("in", 1, SIZE) + only_thread(0, issue, "ISSUED")
    body += WAIT_PHASE + copy_tile("out", 2, SIZE)
    buffers = [random_bytes(SIZE, 1), random_bytes(SIZE, 2), np.zeros(SIZE, np.uint8)]
    return buffers, Kernel(
        body=body,
        buffers=buffers,
        smem=SIZE,
        options=Options(seed=seed, budget=100_000),
    ).run()


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(0, 3))
def test_loads_copy_their_range(data, seed):
    size = 16 * data.draw(st.integers(0, SIZE // 16))
    dst = 16 * data.draw(st.integers(0, (SIZE - size) // 16))
    src = 16 * data.draw(st.integers(0, (SIZE - size) // 16))
    buffers, ran = _bulk_load(dst, src, size, seed=seed)
    assert ran.result.status == "done"
    assert not ran.result.faults
    assert ran.result.tma_bytes == size
    want = buffers[1].copy()
    want[dst : dst + size] = buffers[0][src : src + size]
    assert (ran.buffers[2] == want).all()


@pytest.mark.parametrize(
    ("dst", "src", "size", "kind", "info"),
    [
        (0, 0, 24, "bulk", 1),
        (8, 0, 32, "bulk", 2),
        (0, 8, 32, "bulk", 3),
        (SIZE + 16, 0, 32, "smem-oob", None),  # the barriers take 32 bytes
        (0, SIZE - 16, 32, "oob-read", None),
    ],
)
def test_loads_that_break_a_rule(dst, src, size, kind, info):
    _, ran = _bulk_load(dst, src, size, expect=0 if kind == "bulk" else size)
    assert [f.kind for f in ran.result.faults] == [kind]
    assert info is None or ran.result.faults[0].info == info


def _bulk_store(op, size, *, dst=0, src=0, lanes=1, more="", seed=0, target="sm_120a"):
    body = copy_tile("in", 0, SIZE)
    body += f"setp.ge.u32 %p1, %t, {lanes};\n@%p1 bra OUT;\n"
    body += f"{op} [%g1+{dst}], [%s+{src}], {size}{more};\n"
    body += "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nOUT:"
    buffers = [random_bytes(SIZE, 3), random_bytes(SIZE, 4)]
    return buffers, Kernel(
        body=body, buffers=buffers, smem=SIZE, options=Options(seed=seed), target=target
    ).run()


STORE = "cp.async.bulk.global.shared::cta.bulk_group"


@pytest.mark.parametrize("size", [0, 16, 48, 4096])
def test_stores_copy_their_range(size):
    buffers, ran = _bulk_store(STORE, size)
    want = buffers[1].copy()
    want[:size] = buffers[0][:size]
    assert (ran.buffers[1] == want).all()
    assert ran.result.tma_bytes == size


def test_a_byte_mask_chooses_bytes_of_every_16():
    buffers, ran = _bulk_store(STORE + ".cp_mask", 64, more=", 0x8421")
    assert not ran.result.faults
    want = buffers[1].copy()
    chosen = [k for k in range(64) if 0x8421 >> k % 16 & 1]
    want[chosen] = buffers[0][chosen]
    assert (ran.buffers[1] == want).all()


@pytest.mark.parametrize(
    ("dst", "src", "size", "kind"),
    [
        (8, 0, 16, "bulk"),
        (0, 4, 16, "bulk"),
        (0, 0, 17, "bulk"),
        (SIZE - 16, 0, 32, "oob-write"),
        (0, SIZE + 16, 32, "smem-oob"),
    ],
)
def test_stores_that_break_a_rule(dst, src, size, kind):
    buffers, ran = _bulk_store(STORE, size, dst=dst, src=src)
    assert [f.kind for f in ran.result.faults] == [kind]
    assert (ran.buffers[1] == buffers[1]).all()


_DTYPES = {"u32": "u4", "s32": "i4", "u64": "u8", "f16": "f2", "f32": "f4", "f64": "f8"}


@pytest.mark.parametrize("kind", _DTYPES)
@pytest.mark.parametrize("lanes", [1, 3])
def test_additions(kind, lanes):
    """Every lane's copy adds; small whole numbers make float sums exact."""
    dtype = np.dtype(_DTYPES[kind])
    noftz = ".noftz" if kind == "f16" else ""
    rng = np.random.default_rng(1)
    source, target = (
        rng.integers(0, 50, SIZE // dtype.itemsize).astype(dtype) for _ in range(2)
    )
    body = copy_tile("in", 0, SIZE)
    body += f"setp.ge.u32 %p1, %t, {lanes};\n@%p1 bra OUT;\n"
    body += "cp.reduce.async.bulk.global.shared::cta.bulk_group.add"
    body += f"{noftz}.{kind} [%g1], [%s], {SIZE};\nOUT:"
    ran = Kernel(
        body=body, buffers=[source.view(np.uint8), target.view(np.uint8)], smem=SIZE
    ).run()
    assert not ran.result.faults
    assert (ran.buffers[1].view(dtype) == target + lanes * source).all()


def _other_cta(statements, *, seed=0):
    """Two CTAs: rank 0 copies to rank 1, which waits and writes its tile out."""
    body = (
        ".reg .b32 %rank, %to, %there;\nmov.u32 %rank, %cluster_ctarank;\n"
        + only_thread(
            0,
            "mbarrier.init.shared.b64 [%bar], 1;\n"
            "fence.mbarrier_init.release.cluster;\n"
            "mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 64;",
            "READY",
        )
        + copy_tile("in", 0, 256)
        + "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
        "setp.ne.u32 %p0, %rank, 0;\nsetp.ne.u32 %p1, %t, 0;\nor.pred %p0, %p0, %p1;\n"
        "@%p0 bra SENT;\nmapa.shared::cluster.u32 %to, %s, 1;\n"
        f"mapa.shared::cluster.u32 %there, %bar, 1;\n{statements}\nSENT:\n"
        "setp.eq.u32 %p3, %rank, 0;\n@%p3 bra OUT;\n" + WAIT_PHASE
        + copy_tile("out", 1, 256) + "OUT: barrier.cluster.arrive;\n"
        "barrier.cluster.wait;"
    )  # fmt: skip
    buffers = [random_bytes(256, 3), np.zeros(256, np.uint8)]
    return buffers, Kernel(
        body=body,
        buffers=buffers,
        smem=1024,
        grid=2,
        cluster=2,
        options=Options(seed=seed, budget=100_000),
    ).run()


@pytest.mark.parametrize("seed", [0, 1, 9])
def test_copies_to_another_cta(seed):
    op = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
    buffers, ran = _other_cta(f"{op} [%to+32], [%s+128], 64, [%there];", seed=seed)
    assert ran.result.status == "done"
    assert not ran.result.faults
    want = buffers[0].copy()
    want[32:96] = buffers[0][128:192]
    assert (ran.buffers[1] == want).all()


def test_reductions_into_another_cta():
    op = "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
    buffers, ran = _other_cta(f"{op}.max.s32 [%to], [%s+128], 64, [%there];")
    assert not ran.result.faults
    want = buffers[0].copy().view(np.int32)
    want[:16] = np.maximum(want[:16], buffers[0].view(np.int32)[32:48])
    assert (ran.buffers[1] == want.view(np.uint8)).all()


@pytest.mark.parametrize(
    ("destination", "info"), [("[%s]", 7), ("[%far]", 1)], ids=["own", "absent"]
)
def test_the_destination_must_be_another_cta_of_the_cluster(destination, info):
    op = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
    ran = Kernel(
        body=".reg .b32 %far;\nor.b32 %far, %s, 0x5000000;\n"
        f"{op} {destination}, [%s], 16, [%bar];",
        buffers=[np.zeros(16, np.uint8)],
        threads=1,
    ).run()
    assert [(f.kind, f.info) for f in ran.result.faults] == [("cluster", info)]


@settings(max_examples=60, deadline=None)
@given(*(st.integers(0, 2**32 - 1) for _ in range(3)), st.booleans())
def test_no_operands_can_do_harm(shared, size, offset, aligned):
    mask = 0xFFFFFFF0 if aligned else 0xFFFFFFFF
    body = (
        f"mov.b32 %r1, {shared & mask};\nmov.b32 %r2, {size & mask};\n"
        f"mov.b64 %x0, {offset & mask};\nadd.u64 %x0, %x0, %g0;\n"
        "mbarrier.init.shared.b64 [%bar], 1;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        f"[%r1], [%x0], %r2, [%bar];\n{STORE} [%x0], [%r1], %r2;\n"
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 "
        "[%x0], [%r1], %r2;"
    )
    ran = Kernel(body=body, buffers=[np.zeros(64, np.uint8)], threads=1).run()
    assert ran.result.status == "done"


# --- .ignore_oob ----------------------------------------------------------------------


def _ignoring(left, right, *, size=64, at=0, length=64):
    """Load `size` bytes at `at` of a buffer of `length`, ends ignored."""
    body = copy_tile("in", 1, 256) + only_thread(
        0,
        "mbarrier.init.shared.b64 [%bar], 1;\n"
        f"mbarrier.arrive.expect_tx.shared.b64 _, [%bar], {size};\n"
        f"mov.u32 %r5, {left};\nadd.u64 %x1, %g0, {at};\n"
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob "
        f"[%s+32], [%x1], {size}, %r5, {right}, [%bar];",
        "ISSUED",
    )
    source = random_bytes(length, 7)
    ran = Kernel(
        body=body + WAIT_PHASE + copy_tile("out", 2, 256),
        buffers=[source, np.full(256, 0x11, np.uint8), np.zeros(256, np.uint8)],
        smem=256,
        target="sm_100a",
        options=Options(budget=100_000),
    ).run()
    assert not ran.program.unsupported
    return source, ran


@pytest.mark.parametrize(
    ("left", "right", "at", "length"),
    [(0, 0, 0, 64), (3, 0, 0, 64), (0, 15, 0, 49), (15, 15, 0, 64), (0, 9, 16, 71)],
)
def test_ignored_bytes_are_not_read_and_not_what_they_were(left, right, at, length):
    source, ran = _ignoring(left, right, at=at, length=length)
    assert ran.result.status == "done"
    assert not ran.result.faults
    tile = ran.buffers[2]
    assert (tile[32 + left : 96 - right] == source[at + left : at + 64 - right]).all()
    assert (tile[:32] == 0x11).all()
    assert (tile[96:] == 0x11).all()
    for ignored in (tile[32 : 32 + left], tile[96 - right : 96]):
        assert (ignored == 0xDB).all()


def test_bytes_that_are_not_ignored_must_exist():
    _, ran = _ignoring(0, 14, length=49)
    assert [(f.kind, f.size) for f in ran.result.faults] == [("oob-read", 50)]


@pytest.mark.parametrize(
    ("left", "right", "size"), [(16, 0, 64), (0, 16, 64), (9, 8, 16)]
)
def test_no_more_than_15_bytes_are_ignored(left, right, size):
    _, ran = _ignoring(left, right, size=size)
    assert [(f.kind, f.info) for f in ran.result.faults] == [("bulk", 5)]


@pytest.mark.parametrize(
    ("source", "size", "faults"),
    [
        ("[%g0+16]", 32, []),
        ("[%g0+8]", 32, [("bulk", 3)]),
        ("[%g0]", 24, [("bulk", 1)]),
    ],
)
def test_prefetches_keep_the_rules_of_copies(source, size, faults):
    ran = Kernel(
        body=f"cp.async.bulk.prefetch.L2.global {source}, {size};\n",
        buffers=[random_bytes(64)],
        threads=1,
    ).run()
    assert [(f.kind, f.info) for f in ran.result.faults] == faults
