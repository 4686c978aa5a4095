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
