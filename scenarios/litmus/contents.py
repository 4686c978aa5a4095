"""Reads of shared memory and of registers: something has to have written them.

Every kind of access that writes shared memory is here as the one that has, and every
kind that reads it as the one that needs it. The broken kernel writes other bytes.
"""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import (
    AFTER,
    TMEM_LOAD,
    WAIT_LOAD,
    bulk_load,
    bulk_store,
    commit,
    expect,
    lead,
    mma,
    wait,
)
from sidestream.scenarios.litmus.twin import Twin, fault

_TITLE = "Shared State Space"
_JOIN = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
_OUT = "st.global.b32 [%gl], %r1;\n"
_LOAD = "ld.shared.b32"
_READ = f"{_LOAD} %r1, [%xl];\n" + _OUT
_WRITE = "st.shared.b32 [%xl+<op>], %lane;\nbar.warp.sync -1;\n"
_WRITE_WIDE = (
    "mad.lo.u32 %r4, %lane, 8, %x;\nst.shared.v2.b32 [%r4+<op>], {%lane, %tid};\n"
    "bar.warp.sync -1;\n"
)
_PROXY = "fence.proxy.async.shared::cta;\nbar.warp.sync -1;\n"
_CLEAR = (
    "mov.b64 %rd1, <op>;\n@%one st.bulk.weak.shared::cta [%x], %rd1, 0;\n"
    "mov.b64 %rd1, 512;\n@%one st.bulk.weak.shared::cta [%y], %rd1, 0;\n"
)
_DRAIN = "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"
_ROWS = "and.b32 %r4, %lane, 7;\nmad.lo.u32 %r4, %r4, 16, %x;\n"

_TENSOR_IN = (
    "cp.async.bulk.tensor.1d.shared::{}.global.tile.mbarrier::complete_tx::bytes"
)
_BOX_IN = _TENSOR_IN.format("cta")
_TENSOR_OUT = "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group"
_DSMEM_COPY = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
_REDUCE_OUT = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"
_REDUCE_TO_PEER = (
    "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
    ".add.u32"
)
_ST_ASYNC = "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32"
_MATRIX = "ldmatrix.sync.aligned.m8n8.x1.shared.b16"
_MMA = "tcgen05.mma.cta_group::1.kind::f16"
_CP = "tcgen05.cp.cta_group::1.128x256b"
_ASK = (
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
    ".b128"
)
_MAP_COPY = (
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync"
    ".aligned"
)
_PRODUCT_OUT = wait() + AFTER + TMEM_LOAD + WAIT_LOAD + "st.global.b32 [%gl], %r2;\n"


def _twin(
    name: str,
    warp: str,
    reader: str = _LOAD,
    *,
    op: str = "0",
    broken: str = "128",
    peer: str = "",
    bars: tuple[int, ...] = (),
    tensor: int = 0,
) -> Twin:
    """One warp, or with `peer` one of each of two CTAs, whose values go out."""
    return Twin(
        name=name,
        rule="U1",
        title=_TITLE,
        warps=(warp,),
        peers=(peer,) if peer else (),
        ctas=2 if peer else 1,
        cluster=2 if peer else 1,
        op=op,
        broken=broken,
        bars=bars,
        tensor=tensor,
        contents=True,
        found=fault("uninit-read", "smem.init", reader),
    )


def _register(
    name: str,
    statements: str,
    reader: str,
    *,
    op: str = "mov.b32 %r9, 5;\n",
    broken: str = "",
    setup: str = "",
    warps: int = 1,
) -> Twin:
    """Warps that all do the same."""
    return Twin(
        name=name,
        rule="U2",
        title="Register State Space",
        warps=("",) * warps,
        setup=setup + statements,
        op=op,
        broken=broken,
        contents=True,
        found=fault("uninit-read", "register.init", reader),
    )


_READERS = (
    _twin("load", _WRITE + _READ),
    _twin(
        "load_through_a_generic_address",
        _WRITE + "cvt.u64.u32 %rd1, %xl;\ncvta.shared.u64 %rd1, %rd1;\n"
        "ld.b32 %r1, [%rd1];\n" + _OUT,
        "ld.b32",
    ),
    _twin(
        "every_byte_of_a_word",
        "mov.b16 %h0, 7;\n<op>\n" + _READ,
        op="st.shared.b32 [%xl], %lane;",
        broken="st.shared.b16 [%xl+2], %h0;",
    ),
    _twin(
        "every_lane_of_a_load",
        "setp.ne.u32 %p0, %lane, <op>;\n@%p0 st.shared.b32 [%xl], %lane;\n" + _READ,
        op="32",
        broken="31",
    ),
    _twin("matrix", _WRITE + _ROWS + f"{_MATRIX} {{%r1}}, [%r4];\n" + _OUT, _MATRIX),
    _twin(
        "reduction",
        _WRITE + "red.shared.add.u32 [%xl], 1;\n" + _READ,
        "red.shared.add.u32",
    ),
    _twin(
        "atomic_operation",
        _WRITE + "atom.shared.add.u32 %r1, [%xl], 1;\n" + _OUT,
        "atom.shared.add.u32",
    ),
    _twin(
        "load_from_a_peer",
        _JOIN + "ld.shared::cluster.b32 %r1, [%px];\n" + _OUT,
        "ld.shared::cluster.b32",
        peer=_WRITE + _JOIN,
    ),
    _twin(
        "source_of_a_bulk_store",
        _WRITE + _PROXY + lead(bulk_store(size=128) + _DRAIN),
        bulk_store().split(" ", maxsplit=1)[0],
    ),
    _twin(
        "source_of_a_bulk_reduction",
        _WRITE + _PROXY + lead(f"{_REDUCE_OUT} [%g], [%x], 128;\n" + _DRAIN),
        _REDUCE_OUT,
    ),
    _twin(
        "source_of_a_tensor_store",
        _WRITE_WIDE + _PROXY + lead(f"{_TENSOR_OUT} [%map, {{0}}], [%x];\n" + _DRAIN),
        _TENSOR_OUT,
    ),
    _twin(
        "source_of_a_copy_to_a_peer",
        _WRITE + _PROXY + lead(f"{_DSMEM_COPY} [%px], [%x], 128, [%pbar];\n") + _JOIN,
        _DSMEM_COPY,
        peer=lead(expect(128)) + wait() + _READ + _JOIN,
        bars=(1,),
    ),
    _twin(
        "destination_of_a_reduction_at_a_peer",
        "st.shared.b32 [%xl], %lane;\n"
        + _PROXY
        + _JOIN
        + lead(f"{_REDUCE_TO_PEER} [%px], [%x], 128, [%pbar];\n")
        + _JOIN,
        _REDUCE_TO_PEER,
        peer=_WRITE + _PROXY + lead(expect(128)) + _JOIN + wait() + _READ + _JOIN,
        bars=(1,),
    ),
    _twin(
        "first_operand_of_a_product",
        _CLEAR + _PROXY + lead(mma() + commit()) + _PRODUCT_OUT,
        _MMA,
        op="4096",
        broken="128",
        bars=(1,),
        tensor=32,
    ),
    _twin(
        "second_operand_of_a_product",
        _CLEAR.replace("<op>", "4096").replace("512", "<op>")
        + _PROXY
        + lead(mma() + commit())
        + _PRODUCT_OUT.replace("[%tq]", "[%tq+15]"),
        _MMA,
        op="512",
        broken="504",
        bars=(1,),
        tensor=32,
    ),
    _twin(
        "source_of_a_copy_to_tensor_memory",
        _CLEAR + _PROXY + lead(_CP + " [%tm], %ad;\n" + commit()) + _PRODUCT_OUT,
        _CP,
        op="4096",
        broken="128",
        bars=(1,),
        tensor=32,
    ),
    _twin(
        "tensor_map_that_is_copied",
        _WRITE + f"{_MAP_COPY} [%g], [%x], 128;\n",
        _MAP_COPY,
    ),
)
_WRITERS = (
    _twin(
        "store_through_a_generic_address",
        "cvt.u64.u32 %rd1, %xl;\ncvta.shared.u64 %rd1, %rd1;\n"
        "st.b32 [%rd1+<op>], 1;\n" + _READ,
    ),
    _twin(
        "store_of_a_matrix",
        _ROWS + "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r4+<op>], {%lane};\n"
        "bar.warp.sync -1;\n" + _READ,
    ),
    _twin(
        "store_into_a_peer",
        "mad.lo.u32 %r5, %lane, 4, %px;\nst.shared::cluster.b32 [%r5+<op>], 1;\n"
        + _JOIN,
        peer=_JOIN + _READ,
    ),
    _twin(
        "store_that_completes_at_an_mbarrier",
        f"@%one {_ST_ASYNC} [%px+<op>], 1, [%pbar];\n" + _JOIN,
        peer="@%one " + expect(4) + wait() + f"{_LOAD} %r1, [%x];\n" + _OUT + _JOIN,
        bars=(1,),
    ),
    _twin(
        "copy_by_a_thread",
        "cp.async.ca.shared.global [%xl+<op>], [%gl], 4;\ncp.async.wait_all;\n" + _READ,
    ),
    _twin(
        "zeros_of_a_copy_by_a_thread",
        "cp.async.ca.shared.global [%xl+<op>], [%gl], 4, 0;\ncp.async.wait_all;\n"
        + _READ,
    ),
    _twin(
        "bulk_load",
        lead(expect(128) + bulk_load("%x+<op>", 128)) + wait() + _READ,
        bars=(1,),
    ),
    _twin(
        "tensor_load",
        lead(expect(256) + f"{_BOX_IN} [%x+<op>], [%map, {{0}}], [%bar];\n")
        + wait()
        + _READ,
        broken="256",
        bars=(1,),
    ),
    _twin(
        "what_a_tensor_load_fills_beyond_the_tensor",
        lead(expect(256) + f"{_BOX_IN} [%x], [%map, {{224}}], [%bar];\n")
        + wait()
        + f"{_LOAD} %r1, [%xl+<op>];\n"
        + _OUT,
        op="128",
        broken="256",
        bars=(1,),
    ),
    _twin(
        "load_for_several_ctas",
        "mov.b16 %h0, 3;\n"
        + _JOIN
        + lead(
            expect(256) + f"{_TENSOR_IN.format('cluster')}.multicast::cluster "
            "[%x+<op>], [%map, {0}], [%bar], %h0;\n"
        )
        + wait()
        + _JOIN,
        broken="256",
        peer=lead(expect(256)) + _JOIN + wait() + _READ + _JOIN,
        bars=(1,),
    ),
    _twin(
        "response_of_launch_control",
        lead(expect(16) + f"{_ASK} [%x+<op>], [%bar];\n")
        + wait()
        + f"{_LOAD} %r1, [%x];\n"
        + _OUT,
        bars=(1,),
    ),
)
_GAIN = "setmaxnreg.dec.sync.aligned.u32 24;\nsetmaxnreg.inc.sync.aligned.u32 40;\n"
_REGISTERS = (
    _register("register", "<op>st.global.b32 [%gl], %r9;\n", "st.global.b32"),
    _register(
        "register_that_some_lanes_write",
        "@<op> mov.b32 %r9, 5;\nst.global.b32 [%gl], %r9;\n",
        "st.global.b32",
        op="%p3",
        broken="%one",
        setup="setp.eq.u32 %p3, %lane, %lane;\n",
    ),
    _register(
        "guard",
        "<op>@%p4 st.global.b32 [%gl], 1;\n",
        "st.global.b32",
        op="setp.eq.u32 %p4, %lane, 3;\n",
    ),
    _register(
        "register_gained",
        _GAIN + "<op>add.u32 %r1, %r9, 1;\n"
        "mad.wide.u32 %rd1, %tid, 4, %g;\nst.global.b32 [%rd1], %r1;\n",
        "add.u32",
        warps=4,
    ),
)
TWINS = (*_READERS, *_WRITERS, *_REGISTERS)
