"""st.async and red.async between the CTAs of a cluster."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_case import Case

from sidestream.harness.exec.machine import Options

DECLARE = ".shared .align 16 .b8 tile[512];\n.shared .align 8 .b8 bar[8];"
PEER = """mov.u32 %r5, tile; mov.u32 %r6, bar; mov.u32 %r7, %cluster_ctarank;
xor.b32 %r8, %r5, 0x01000000; xor.b32 %r9, %r6, 0x01000000;
setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [bar], 1;
@%p1 st.shared.u32 [tile], 1000;
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], {bytes};
barrier.cluster.arrive; barrier.cluster.wait;
{send}
spin: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra spin;
{read}
barrier.cluster.arrive; barrier.cluster.wait;"""


@pytest.mark.parametrize("seed", range(4))
def test_stores_arrive_with_their_bytes(seed: int) -> None:
    out = np.zeros((2, 32, 4), np.uint32)
    send = """shl.b32 %r20, %r0, 4; add.u32 %r8, %r8, %r20; add.u32 %r21, %r7, 5;
    st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32
    [%r8], {%r0, %r21, %r20, %r21}, [%r9];"""
    read = """add.u32 %r5, %r5, %r20; ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r5];
    mad.lo.u32 %r22, %r7, 32, %r0; mul.wide.u32 %rd4, %r22, 16;
    add.s64 %rd4, %rd4, %rd0; st.global.v4.u32 [%rd4], {%r10, %r11, %r12, %r13};"""
    body = PEER.format(bytes=512, send=send, read=read)
    options = Options(seed=seed, quantum=3)
    Case(body, declare=DECLARE, grid=2, cluster=2, options=options).clean(out)
    lanes = np.arange(32)
    for rank in (0, 1):
        np.testing.assert_array_equal(out[rank, :, 0], lanes)
        np.testing.assert_array_equal(out[rank, :, 1:4:2], 5 + (1 - rank))
        np.testing.assert_array_equal(out[rank, :, 2], lanes * 16)


@pytest.mark.parametrize(
    ("op", "want"), [("add.u32", 1496), ("min.s32", 0), ("max.u32", 1000)]
)
def test_reductions(op: str, want: int) -> None:
    out = np.zeros(2, np.uint32)
    words = "relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes"
    send = f"red.async.{words}.{op} [%r8], %r0, [%r9];"
    read = """ld.shared.u32 %r10, [tile]; mul.wide.u32 %rd4, %r7, 4;
    add.s64 %rd4, %rd4, %rd0; st.global.u32 [%rd4], %r10;"""
    body = PEER.format(bytes=128, send=send, read=read)
    Case(body, declare=DECLARE, grid=2, cluster=2).clean(out)
    assert out.tolist() == [want, want]


def test_b128() -> None:
    out = np.zeros((2, 4), np.uint64)
    send = """mov.u64 %rd10, 7; mov.u64 %rd11, 9; mov.b128 %q1, {%rd10, %rd11};
    @%p1 st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b128
    [%r8+16], %q1, [%r9];"""
    read = """ld.shared.v2.u64 {%rd12, %rd13}, [tile+16]; mul.wide.u32 %rd4, %r7, 16;
    add.s64 %rd4, %rd4, %rd0; st.global.v2.u64 [%rd4], {%rd12, %rd13};"""
    body = PEER.format(bytes=16, send=send, read=read)
    Case(body, declare=DECLARE, grid=2, cluster=2).clean(out)
    assert out.ravel()[:4].tolist() == [7, 9, 7, 9]


def test_misuse() -> None:
    words = "relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes"
    own = f"""mov.u32 %r5, tile; mov.u32 %r6, bar;
    red.async.{words}.add.u32 [%r5], 1, [%r6];"""
    Case(own, declare=DECLARE, grid=2, cluster=2).faulty("cluster")
    store = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32"
    body = f"mov.u32 %r5, tile; mov.u32 %r6, bar; {store} [%r5], 1, [%r6];"
    Case(body, declare=DECLARE).faulty("cluster")
    apart = f"""mov.u32 %r5, tile; mov.u32 %r6, bar; xor.b32 %r6, %r6, 0x01000000;
    {store} [%r5], 1, [%r6]; barrier.cluster.arrive; barrier.cluster.wait;"""
    Case(apart, declare=DECLARE, grid=2, cluster=2).faulty("cluster")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("space", ["", ".global"])
def test_global_stores_are_complete_when_the_cta_is(seed: int, space: str) -> None:
    out = np.zeros((64, 2), np.uint64)
    body = f"""mul.wide.u32 %rd4, %r0, 16; add.s64 %rd4, %rd4, %rd0;
    cvt.u64.u32 %rd5, %r0; shl.b64 %rd5, %rd5, 33; mov.b16 %h1, 0x1234;
    st.async.release.gpu{space}.b64 [%rd4], %rd5;
    st.async.mmio.release.sys{space}.u16 [%rd4+8], %h1;"""
    options = Options(seed=seed, quantum=2)
    Case(body, threads=64, target="sm_100a", options=options).clean(out)
    np.testing.assert_array_equal(out[:, 0], np.arange(64, dtype=np.uint64) << 33)
    assert (out[:, 1] == 0x1234).all()


def test_global_stores_are_asynchronous() -> None:
    seen = set()
    for seed in range(1, 12):
        out = np.zeros(2, np.uint32)
        body = """st.async.release.gpu.global.u32 [%rd0], 7;
        ld.global.u32 %r5, [%rd0]; st.global.u32 [%rd0+4], %r5;"""
        options = Options(seed=seed, quantum=1)
        Case(body, threads=1, target="sm_100a", options=options).clean(out)
        assert out[0] == 7
        seen.add(int(out[1]))
    assert seen == {0, 7}


@pytest.mark.parametrize(
    ("kind", "start", "add", "want"),
    [
        ("u32", 2**32 - 5, 3, (2**32 - 5 + 96) % 2**32),
        ("s32", 7, -2, 7 - 64),
        ("u64", 2**63, 2**40, (2**63 + 32 * 2**40) % 2**64),
        ("s64", 5, -(2**35), 5 - 32 * 2**35),
    ],
)
def test_global_reductions(kind: str, start: int, add: int, want: int) -> None:
    dtype = np.dtype(kind.replace("u", "uint").replace("s", "int"))
    out = np.array([start], dtype)
    register = "%rd5" if kind.endswith("64") else "%r5"
    move = f"mov.b{kind[1:]} {register}, {add};"
    body = f"{move} red.async.release.gpu.global.add.{kind} [%rd0], {register};"
    for seed in (0, 4):
        out[0] = start
        options = Options(seed=seed)
        Case(body, target="sm_100a", options=options).clean(out)
        assert out[0] == want


def test_global_addresses_are_checked() -> None:
    out = np.zeros(4, np.uint32)
    store = "st.async.release.gpu.u32 "
    Case(f"{store} [%rd0+16], %r0;").faulty("oob-write", out)
    Case(f"{store} [%rd0+2], %r0;").faulty("misaligned", out)
    shared = "mov.u64 %rd5, tile; cvta.shared.u64 %rd5, %rd5;"
    Case(f"{shared} {store} [%rd5], %r0;", declare=DECLARE).faulty("illegal", out)
    assert not out.any()


@pytest.mark.parametrize(
    "access",
    [
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 "
        "[%r5], %r0, [%r6+{}]",
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
        ".b128 [%r5], [%r6+{}]",
        "cp.async.ca.shared.global [%r5], [%rd0+{}], 4",
    ],
)
def test_offsets_that_no_address_has_are_named(access: str) -> None:
    body = "mov.u32 %r5, tile; mov.u32 %r6, bar;" + access + ";"
    for offset, wanted in ((8, ""), (1 << 40, "address offset")):
        case = Case(body.format(offset), declare=DECLARE, target="sm_100a")
        assert wanted in case.unsupported()
        assert bool(wanted) == bool(case.unsupported())
