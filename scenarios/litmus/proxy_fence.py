"""The generic and the async proxy: fence.proxy.async between them."""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import bulk_load, bulk_store, expect, wait
from sidestream.scenarios.litmus.twin import Twin, proxy, race, smem

_TITLE = "Memory Consistency Model: Proxies"
_FENCE = "Parallel Synchronization and Communication Instructions: membar / fence"
_STORE = "st.shared.b32 [%xl], 1;\n"
_LOAD = "ld.shared.b32 %r1, [%xl];\n"
_IN = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
_OUT = "cp.async.bulk.global.shared::cta.bulk_group"
_END = "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"
_OP = "fence.proxy.async.shared::cta;\n"
_SEND = "@!%one bra $OVER;\n" + bulk_store(size=128) + _END + "$OVER:\n"
_FETCH = "@!%one bra $OVER;\n" + expect(128) + bulk_load(size=128) + "$OVER:\n" + wait()

# Lanes that diverged each have a fence of their own, at another time.
_APART = (
    "setp.ge.u32 %p4, %lane, 16;\n@%p4 bra $HIGH;\n<op>bra $BOTH;\n$HIGH:\n"
    + _STORE
    + "<op>$BOTH:\n"
)

TWINS = (
    Twin(
        name="lanes_that_fence_apart",
        rule="P2",
        title=_FENCE,
        warps=(_APART + "bar.sync 1, 64;\n", "bar.sync 1, 64;\n" + _SEND),
        op=_OP,
        found=proxy("st.shared.b32", _OUT),
    ),
    Twin(
        name="store_then_bulk_store",
        rule="P2",
        title=_TITLE,
        warps=(_STORE + "<op>bar.warp.sync -1;\n" + _SEND,),
        op=_OP,
        found=proxy("st.shared.b32", _OUT),
    ),
    Twin(
        name="fence_by_the_issuer_behind_the_barrier",
        rule="P2",
        title=_TITLE,
        warps=(_STORE + "bar.sync 1, 64;\n", "bar.sync 1, 64;\n<op>" + _SEND),
        op=_OP,
        found=proxy("st.shared.b32", _OUT),
    ),
    Twin(
        name="fence_of_all_state_spaces",
        rule="P2",
        title=_FENCE,
        warps=(_STORE + "<op>bar.sync 1, 64;\n", "bar.sync 1, 64;\n" + _SEND),
        op="fence.proxy.async;\n",
        found=proxy("st.shared.b32", _OUT),
    ),
    Twin(
        name="fence_of_another_state_space",
        rule="P2",
        title=_FENCE,
        warps=(_STORE + "<op>bar.sync 1, 64;\n", "bar.sync 1, 64;\n" + _SEND),
        op=_OP,
        broken="fence.proxy.async.global;\n",
        found=proxy("st.shared.b32", _OUT),
    ),
    Twin(
        name="memory_fence_is_no_proxy_fence",
        rule="P2",
        title=_FENCE,
        warps=(_STORE + "<op>bar.sync 1, 64;\n", "bar.sync 1, 64;\n" + _SEND),
        op=_OP,
        broken="fence.acq_rel.sys;\n",
        found=proxy("st.shared.b32", _OUT),
    ),
    Twin(
        name="alias_fence_is_no_async_fence",
        rule="P2",
        title=_FENCE,
        warps=(_STORE + "<op>bar.sync 1, 64;\n", "bar.sync 1, 64;\n" + _SEND),
        op=_OP,
        broken="fence.proxy.alias;\n",
        found=proxy("st.shared.b32", _OUT),
    ),
    Twin(
        name="fence_comes_after_the_store",
        rule="P2",
        title=_TITLE,
        warps=("<op>bar.sync 1, 64;\n", "bar.sync 1, 64;\n" + _SEND),
        op=_STORE + _OP,
        broken=_OP + _STORE,
        found=proxy("st.shared.b32", _OUT),
    ),
    Twin(
        name="fence_by_a_bystander",
        rule="P2",
        title=_TITLE,
        warps=(
            _STORE + "bar.sync 1, 64;\n<op>bar.sync 2, 96;\n",
            "bar.sync 1, 64;\nfence.proxy.async.shared::cta;\nbar.sync 3, 32;\n"
            "bar.sync 2, 96;\n",
            "bar.sync 2, 96;\n" + _SEND,
        ),
        op="",
        broken="@%one st.shared.b32 [%x+64], 7;\n",
        found=proxy("st.shared.b32", _OUT),
    ),
    Twin(
        name="fence_by_the_leader_alone",
        rule="P2",
        title=_TITLE,
        warps=(_STORE + "<op>" + _SEND,),
        op=_OP + "bar.warp.sync -1;\n",
        broken="@%one fence.proxy.async.shared::cta;\nbar.warp.sync -1;\n",
        found=proxy("st.shared.b32", _OUT),
    ),
    Twin(
        name="leader_fences_what_it_has_learnt",
        rule="P2",
        title=_TITLE,
        warps=(_STORE + "<op>" + _SEND,),
        op="bar.warp.sync -1;\n@%one fence.proxy.async.shared::cta;\n",
        broken="@%one fence.proxy.async.shared::cta;\nbar.warp.sync -1;\n",
        found=proxy("st.shared.b32", _OUT),
    ),
    Twin(
        name="store_then_bulk_load_over_it",
        rule="P2",
        title=_TITLE,
        warps=(_STORE + "<op>bar.warp.sync -1;\n" + _FETCH,),
        bars=(1,),
        op=_OP,
        found=proxy("st.shared.b32", _IN),
    ),
    Twin(
        name="load_then_bulk_load_over_it",
        rule="P2",
        title=_TITLE,
        warps=(_LOAD + "<op>bar.warp.sync -1;\n" + _FETCH,),
        bars=(1,),
        op=_OP,
        found=proxy("ld.shared.b32", _IN),
        broken_in=("isa",),
    ),
    Twin(
        name="completion_that_was_observed_needs_no_fence",
        rule="P2",
        title=(
            "Memory Consistency Model: Proxies; "
            "Data Movement and Conversion Instructions: Async Proxy"
        ),
        warps=(
            "@!%one bra $OVER;\n"
            + expect(128)
            + bulk_load(size=128)
            + "$OVER:\n<op>"
            + _LOAD,
        ),
        bars=(1,),
        op=wait(),
        found=smem(_IN, "ld.shared.b32", "P3"),
    ),
    Twin(
        name="global_store_then_bulk_load_of_it",
        rule="P2",
        title=_FENCE,
        warps=("st.global.b32 [%gl], 1;\n<op>bar.warp.sync -1;\n" + _FETCH,),
        bars=(1,),
        op="fence.proxy.async.global;\n",
        broken="fence.proxy.async.shared::cta;\n",
        found=proxy("st.global.b32", _IN),
    ),
    Twin(
        name="global_store_then_bulk_store_over_it",
        rule="P2",
        title=_FENCE,
        warps=("st.global.b32 [%gl], 1;\n<op>bar.warp.sync -1;\n" + _SEND,),
        op="fence.proxy.async;\n",
        broken="fence.acq_rel.gpu;\n",
        found=proxy("st.global.b32", _OUT),
    ),
    Twin(
        name="async_copy_of_a_thread_is_generic",
        rule="P1",
        title="Data Movement and Conversion Instructions: cp.async",
        warps=(
            "cp.async.ca.shared.global [%xl], [%gl], 4;\ncp.async.wait_all;\n<op>"
            "bar.warp.sync -1;\n" + _SEND.replace("[%g]", "[%g+512]"),
        ),
        op=_OP,
        found=proxy("cp.async.ca.shared.global", _OUT),
    ),
    Twin(
        name="no_order_at_all_is_more_than_a_missing_fence",
        rule="P2",
        title=_TITLE,
        warps=(_STORE + _OP + "<op>" + _SEND,),
        op="bar.warp.sync -1;\n",
        found=(race("smem-race", "st.shared.b32", _OUT),),
    ),
)
