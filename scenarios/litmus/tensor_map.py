"""Tensor maps that the kernel changes: the tensor-map proxy and its fences.

`%rd2` is a map in global memory, `%rd5` one in another place; both are made of the
parameter's by the leader's warp, and `replace` sets the address that they have anyway.
"""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import expect, lead, until, wait
from sidestream.scenarios.litmus.twin import Found, Twin, race, smem

_FENCE = "Parallel Synchronization and Communication Instructions: membar / fence"
_FUSED = (
    "Parallel Synchronization and Communication Instructions: tensormap.cp_fenceproxy"
)
_COPY = "Data Movement and Conversion Instructions: cp.async.bulk.tensor"
_REPLACE = "tensormap.replace.tile.global_address.global.b1024.b64"
_EDIT = "tensormap.replace.tile.global_address.shared::cta.b1024.b64"
_COPY_FENCE = (
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.{}.sync"
    ".aligned"
)
_IN = "cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
_OUT = "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group"
_BULK = "cp.async.bulk.global.shared::cta.bulk_group"
_WORDS = (
    "add.u64 %rd2, %g, 2048;\nadd.u64 %rd5, %g, 3072;\nmul.wide.u32 %rd3, %lane, 4;\n"
    "add.u64 %rd4, %map, %rd3;\nld.b32 %r3, [%rd4];\n"
)
_IN_GLOBAL = _WORDS + (
    "add.u64 %rd4, %rd2, %rd3;\nst.global.b32 [%rd4], %r3;\n"
    "add.u64 %rd4, %rd5, %rd3;\nst.global.b32 [%rd4], %r3;\n"
)
_MADE = _IN_GLOBAL + "bar.warp.sync -1;\n"
"""Makes the maps in global memory."""
_IN_SHARED = _WORDS + "st.shared.b32 [%xl], %r3;\nbar.warp.sync -1;\n"
"""Makes one in shared memory, at `%x`."""

_CHANGE = f"{_REPLACE} [%rd2], %g;\n"
_RELEASE = "fence.proxy.tensormap::generic.release.gpu;\n"
_ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;\n"
_LOAD = expect(256) + f"{_IN} [%y], [%rd2, {{0}}], [%bar];\n"
_STORE = f"{_OUT} [%rd2, {{0}}], [%y];\ncp.async.bulk.commit_group;\n"
_FLAG = "[%g+1024]"
_RAISE = f"st.release.gpu.global.b32 {_FLAG}, 1;\n"
_SEE = until(f"ld.acquire.gpu.global.b32 %r1, {_FLAG};")
_JOIN = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"


def _found(first: str = _REPLACE, rule: str = "P7") -> tuple[Found, ...]:
    return (race("tensormap", first, _IN, rule),)


def _one(
    name: str, body: str, op: str, broken: str = "", found: tuple[Found, ...] = ()
) -> Twin:
    """A warp changes a map, fences, and copies by it."""
    return Twin(
        name=name,
        rule="P7",
        title=_FENCE,
        warps=(_MADE + body,),
        bars=(1,),
        op=op,
        broken=broken,
        found=found or _found(),
    )


def _two(name: str, first: str, second: str, op: str, broken: str) -> Twin:
    """One CTA changes a map and another one copies by it."""
    return Twin(
        name=name,
        rule="P7",
        title=_FENCE,
        warps=(_MADE + lead(first),),
        peers=(_WORDS + second,),
        bars=(1,),
        ctas=2,
        op=op,
        broken=broken,
        found=_found(),
    )


TWINS = (
    _one(
        "release_behind_a_change", lead(_CHANGE + "<op>" + _ACQUIRE + _LOAD), _RELEASE
    ),
    _one("acquire_before_a_copy", lead(_CHANGE + _RELEASE + "<op>" + _LOAD), _ACQUIRE),
    _one("no_proxy_fence_at_all", lead(_CHANGE + "<op>" + _LOAD), _RELEASE + _ACQUIRE),
    _one(
        "release_comes_before_the_acquire",
        lead(_CHANGE + "<op>" + _LOAD),
        _RELEASE + _ACQUIRE,
        _ACQUIRE + _RELEASE,
    ),
    _one(
        "release_comes_after_the_change",
        lead("<op>" + _ACQUIRE + _LOAD),
        _CHANGE + _RELEASE,
        _RELEASE + _CHANGE,
    ),
    _one(
        "acquire_names_the_map",
        lead(
            _CHANGE
            + _RELEASE
            + "fence.proxy.tensormap::generic.acquire.gpu [<op>], 128;\n"
            + _LOAD
        ),
        "%rd2",
        "%rd5",
    ),
    _one(
        "async_fence_is_no_tensor_map_fence",
        lead(_CHANGE + "<op>" + _ACQUIRE + _LOAD),
        _RELEASE,
        "fence.proxy.async.global;\n",
    ),
    _one(
        "memory_fence_is_no_tensor_map_fence",
        lead(_CHANGE + _RELEASE + "<op>" + _LOAD),
        _ACQUIRE,
        "fence.acq_rel.sys;\n",
    ),
    _one(
        "every_change_has_its_own_release",
        lead(
            _CHANGE
            + _RELEASE
            + _ACQUIRE
            + _LOAD
            + wait()
            + _CHANGE
            + "<op>"
            + _ACQUIRE
            + _LOAD
            + wait(1)
        ),
        _RELEASE,
    ),
    _one(
        "every_change_has_its_own_acquire",
        lead(
            _CHANGE
            + _RELEASE
            + _ACQUIRE
            + _LOAD
            + wait()
            + _CHANGE
            + _RELEASE
            + "<op>"
            + _LOAD
            + wait(1)
        ),
        _ACQUIRE,
    ),
    _one(
        "stored_words_of_a_map",
        "<op>" + lead(_ACQUIRE + _LOAD),
        _RELEASE + "bar.warp.sync -1;\n",
        found=_found("st.global.b32"),
    ),
    _one(
        "acquire_of_another_lane",
        lead(_CHANGE + _RELEASE)
        + "setp.eq.u32 %p3, %lane, 1;\n@!%p3 bra $OVER;\n"
        + _ACQUIRE
        + "$OVER:\n<op>@!%one bra $OUT;\n"
        + _LOAD
        + "$OUT:\n",
        "bar.warp.sync -1;\n",
    ),
    Twin(
        name="map_that_came_by_a_bulk_copy",
        rule="P7",
        title=_FENCE,
        warps=(
            _IN_SHARED
            + _IN_GLOBAL.replace(_WORDS, "")
            + "fence.proxy.async;\nbar.warp.sync -1;\n"
            + lead(
                f"{_BULK} [%rd2], [%x], 128;\ncp.async.bulk.commit_group;\n"
                "cp.async.bulk.wait_group 0;\n<op>" + _ACQUIRE + _LOAD
            ),
        ),
        bars=(1,),
        op=_RELEASE,
        found=_found(_BULK),
    ),
    Twin(
        name="release_before_the_hand_over",
        rule="P7",
        title=_FENCE,
        warps=(
            _MADE + lead(_CHANGE + "<op>") + "bar.sync 1, 64;\n",
            _WORDS + "bar.sync 1, 64;\n" + lead(_ACQUIRE + _LOAD),
        ),
        bars=(1,),
        op=_RELEASE,
        found=_found(),
    ),
    Twin(
        name="release_by_the_one_who_copies",
        rule="P7",
        title="Memory Consistency Model: Proxies",
        warps=(
            _MADE + lead(_CHANGE) + "bar.sync 1, 64;\n",
            _WORDS + "bar.sync 1, 64;\n" + lead("<op>" + _ACQUIRE + _LOAD),
        ),
        bars=(1,),
        op=_RELEASE,
        found=_found(),
    ),
    Twin(
        name="acquire_before_the_hand_over",
        rule="P7",
        title=_FENCE,
        warps=(
            _MADE + lead(_CHANGE + _RELEASE) + "bar.sync 1, 64;\n",
            _WORDS + "<op>" + lead(_LOAD),
        ),
        bars=(1,),
        op="bar.sync 1, 64;\n" + _ACQUIRE,
        broken=_ACQUIRE + "bar.sync 1, 64;\n",
        found=_found(),
    ),
    _two(
        "release_reaches_the_other_cta",
        _CHANGE + "fence.proxy.tensormap::generic.release.<op>;\n" + _RAISE,
        lead(_SEE + _ACQUIRE + _LOAD),
        "gpu",
        "cta",
    ),
    _two(
        "acquire_reaches_the_other_cta",
        _CHANGE + _RELEASE + _RAISE,
        lead(
            _SEE + "fence.proxy.tensormap::generic.acquire.<op> [%rd2], 128;\n" + _LOAD
        ),
        "gpu",
        "cluster",
    ),
    _two(
        "acquire_by_the_other_cta",
        _CHANGE + _RELEASE + _RAISE,
        lead(_SEE + "<op>" + _LOAD),
        _ACQUIRE,
        "",
    ),
    Twin(
        name="release_reaches_the_cluster",
        rule="P7",
        title=_FENCE,
        warps=(
            _MADE
            + lead(_CHANGE + "fence.proxy.tensormap::generic.release.<op>;\n")
            + _JOIN,
        ),
        peers=(
            _WORDS
            + _JOIN
            + lead(
                "fence.proxy.tensormap::generic.acquire.cluster [%rd2], 128;\n" + _LOAD
            ),
        ),
        bars=(1,),
        ctas=2,
        cluster=2,
        op="cluster",
        broken="cta",
        found=_found(),
    ),
    Twin(
        name="fused_copy_releases",
        rule="P7",
        title=_FUSED,
        warps=(_IN_SHARED + "<op>bar.warp.sync -1;\n" + lead(_ACQUIRE + _LOAD),),
        bars=(1,),
        op=_COPY_FENCE.format("gpu") + " [%rd2], [%x], 128;\n",
        broken="ld.shared.b32 %r4, [%xl];\nadd.u64 %rd4, %rd2, %rd3;\n"
        "st.global.b32 [%rd4], %r4;\n",
        found=_found("st.global.b32"),
    ),
    Twin(
        name="fused_copy_acquires_nothing",
        rule="P7",
        title=_FUSED,
        warps=(
            _IN_SHARED
            + _COPY_FENCE.format("gpu")
            + " [%rd2], [%x], 128;\n"
            + lead("<op>" + _LOAD),
        ),
        bars=(1,),
        op=_ACQUIRE,
        found=_found(_COPY_FENCE.format("gpu")),
    ),
    Twin(
        name="fused_copy_of_one_lane_s_change",
        rule="P7",
        title=_FUSED,
        warps=(
            _IN_SHARED
            + f"cvt.u64.u32 %rd6, %x;\n@%one {_EDIT} [%rd6], %g;\n<op>"
            + _COPY_FENCE.format("gpu")
            + " [%rd2], [%x], 128;\n"
            + lead(_ACQUIRE + _LOAD),
        ),
        bars=(1,),
        op="bar.warp.sync -1;\n",
        found=smem(_EDIT, _COPY_FENCE.format("gpu"), "B3"),
    ),
    Twin(
        name="map_of_a_load_in_flight",
        rule="P3",
        title=_COPY,
        warps=(_MADE + lead(_RELEASE + _ACQUIRE + _LOAD + "<op>" + _CHANGE + wait()),),
        bars=(1,),
        op=wait(),
        found=_found(rule="P3"),
    ),
    Twin(
        name="map_of_a_store_in_flight",
        rule="P4",
        title=_COPY,
        warps=(
            _MADE
            + lead(
                _RELEASE
                + _ACQUIRE
                + _STORE
                + "<op>"
                + _CHANGE
                + "cp.async.bulk.wait_group 0;\n"
            ),
        ),
        op="cp.async.bulk.wait_group.read 0;\n",
        found=(race("tensormap", _REPLACE, _OUT, "P4"),),
    ),
    Twin(
        name="map_of_a_load_of_the_peer",
        rule="P3",
        title=_COPY,
        warps=(_MADE + _RELEASE + _JOIN + _JOIN + lead(_CHANGE),),
        peers=(_WORDS + _JOIN + lead(_ACQUIRE + _LOAD) + "<op>" + _JOIN + wait(),),
        bars=(1,),
        ctas=2,
        cluster=2,
        op=wait(),
        found=_found(rule="P3"),
    ),
)
