"""CTAs of a cluster: barrier.cluster, remote arrivals, distributed shared memory."""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import commit, expect, lead, mma, wait
from sidestream.scenarios.litmus.twin import Found, Twin, dsmem, race

_BARRIER = "Parallel Synchronization and Communication Instructions: barrier.cluster"
_ARRIVE = "Parallel Synchronization and Communication Instructions: mbarrier.arrive"
_WAIT = (
    "Parallel Synchronization and Communication Instructions: mbarrier.test_wait / "
    "mbarrier.try_wait"
)
_ASYNC = "Data Movement and Conversion Instructions: st.async"
_INIT = "Parallel Synchronization and Communication Instructions: membar / fence"
_BULK = "Data Movement and Conversion Instructions: cp.async.bulk"
_TENSOR = "Data Movement and Conversion Instructions: cp.async.bulk.tensor"
_FAR = "@%one st.shared::cluster.b32 [%px], 1;\n"
_NEAR = "@%one ld.shared.b32 %r1, [%x];\n"
_JOIN = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
_PAIR = dsmem("st.shared::cluster.b32", "ld.shared.b32")
_REMOTE = "@%one mbarrier.arrive.{}shared::cluster.b64 _, [%pbar];\n"
_ST_ASYNC = "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32"
_RED = "Parallel Synchronization and Communication Instructions: red.async"
_RED_ASYNC = (
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32"
)
_DSMEM_COPY = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
_DSMEM_REDUCE = (
    "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
    ".add.u32"
)
_CAST = (
    "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    ".multicast::cluster"
)
_COMMIT = "TensorCore 5th Generation Instructions: tcgen05.commit"
_COMMIT_FAR = (
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%pbar];\n"
)
_MMA = "tcgen05.mma.cta_group::1.kind::f16"
_NEARBY = "fence.proxy.async;\n@%one st.shared::cluster.b32 [%px], 1;\n"
_EXPECT = "@%one " + expect(256)
_EXPECT_WORD = "@%one " + expect(4)
_FREE = "@%one mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];\n"


def _pair(name: str, rule: str, title: str, first: str, second: str, **more) -> Twin:  # type: ignore[no-untyped-def]
    """A warp of each of two CTAs."""
    return Twin(
        name=name,
        rule=rule,
        title=title,
        warps=(first,),
        peers=(second,),
        ctas=2,
        cluster=2,
        **more,
    )


TWINS = (
    _pair(
        "store_barrier_load",
        "B2",
        _BARRIER,
        _FAR + "<op>",
        "<op>" + _NEAR,
        op=_JOIN,
        found=_PAIR,
    ),
    _pair(
        "barrier_of_the_cta",
        "B2",
        _BARRIER,
        _FAR + "<op>",
        "<op>" + _NEAR,
        op=_JOIN,
        broken="barrier.sync 0, 32;\n",
        found=_PAIR,
    ),
    _pair(
        "load_barrier_store",
        "B2",
        _BARRIER,
        "@%one ld.shared::cluster.b32 %r1, [%px];\n<op>",
        "<op>@%one st.shared.b32 [%x], 1;\n",
        op=_JOIN,
        found=dsmem("ld.shared::cluster.b32", "st.shared.b32"),
    ),
    _pair(
        "relaxed_arrival",
        "B2",
        _BARRIER,
        _FAR + "barrier.cluster.arrive<op>;\nbarrier.cluster.wait;\n",
        _JOIN + _NEAR,
        op=".release",
        broken=".relaxed",
        found=_PAIR,
    ),
    _pair(
        "relaxed_arrival_behind_a_fence",
        "B2",
        _BARRIER,
        _FAR + "<op>barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;\n",
        _JOIN + _NEAR,
        op="fence.acq_rel.cluster;\n",
        found=_PAIR,
    ),
    _pair(
        "fence_of_the_cta_before_a_relaxed_arrival",
        "B2",
        _BARRIER,
        _FAR + "fence.acq_rel.<op>;\nbarrier.cluster.arrive.relaxed;\n"
        "barrier.cluster.wait;\n",
        _JOIN + _NEAR,
        op="cluster",
        broken="cta",
        found=_PAIR,
    ),
    _pair(
        "between_arrival_and_wait",
        "B2",
        _BARRIER,
        "<op>barrier.cluster.wait;\n",
        _JOIN + _NEAR,
        op=_FAR + "barrier.cluster.arrive;\n",
        broken="barrier.cluster.arrive;\n" + _FAR,
        found=_PAIR,
    ),
    _pair(
        "load_between_arrival_and_wait",
        "B2",
        _BARRIER,
        _FAR + _JOIN,
        "barrier.cluster.arrive;\n<op>",
        op="barrier.cluster.wait;\n" + _NEAR,
        broken=_NEAR + "barrier.cluster.wait;\n",
        found=_PAIR,
    ),
    _pair(
        "remote_arrival",
        "M7",
        _ARRIVE,
        "<op>",
        wait(sem=".acquire.cluster") + _NEAR,
        bars=(1,),
        op=_FAR + _REMOTE.format("release.cluster."),
        broken=_REMOTE.format("release.cluster.") + _FAR,
        found=_PAIR,
    ),
    _pair(
        "remote_arrival_with_the_default_scope",
        "M6",
        _ARRIVE,
        _FAR + "@%one mbarrier.arrive<op>.shared::cluster.b64 _, [%pbar];\n",
        wait(sem=".acquire.cluster") + _NEAR,
        bars=(1,),
        op=".release.cluster",
        found=_PAIR,
        broken_in=("isa",),
    ),
    _pair(
        "remote_wait_with_the_default_scope",
        "M6",
        _WAIT,
        _FAR + _REMOTE.format("release.cluster."),
        wait(sem="<op>") + _NEAR,
        bars=(1,),
        op=".acquire.cluster",
        found=_PAIR,
        broken_in=("isa",),
    ),
    _pair(
        "wait_for_a_commit_of_the_peer_with_the_default_scope",
        "M6",
        _COMMIT,
        lead(mma() + _COMMIT_FAR + commit("%bar+8")) + wait(0, "%bar+8") + _JOIN,
        wait(sem="<op>") + _NEARBY + _JOIN,
        bars=(1, 1),
        tensor=32,
        op=".acquire.cluster",
        found=dsmem(_MMA, "st.shared::cluster.b32"),
        broken_in=("isa",),
    ),
    _pair(
        "arrival_of_a_commit_of_the_peer_before_the_end",
        "cluster.peer",
        "Cluster of Cooperative Thread Arrays",
        lead(mma() + _COMMIT_FAR + commit("%bar+8")) + wait(0, "%bar+8"),
        "<op>",
        bars=(1, 1),
        tensor=32,
        op=wait(sem=".relaxed.cluster"),
        found=(
            race(
                "dsmem-race",
                _COMMIT_FAR.split()[0],
                "end of the kernel",
                "cluster.peer",
            ),
        ),
        broken_in=("isa",),
    ),
    _pair(
        "relaxed_remote_arrival",
        "M6",
        _ARRIVE,
        _FAR + _REMOTE.format("<op>.cluster."),
        wait(sem=".acquire.cluster") + _NEAR,
        bars=(1,),
        op="release",
        broken="relaxed",
        found=_PAIR,
    ),
    _pair(
        "relaxed_remote_arrival_behind_a_fence",
        "M6",
        _ARRIVE,
        _FAR + "<op>" + _REMOTE.format("relaxed.cluster."),
        wait(sem=".acquire.cluster") + _NEAR,
        bars=(1,),
        op="fence.acq_rel.cluster;\n",
        found=_PAIR,
    ),
    _pair(
        "store_that_completes_at_a_barrier",
        "P6",
        _ASYNC,
        f"@%one {_ST_ASYNC} [%px], 1, [%pbar];\n",
        _EXPECT_WORD + "<op>" + _NEAR + wait(),
        bars=(1,),
        op=wait(),
        found=dsmem(_ST_ASYNC, "ld.shared.b32"),
    ),
    _pair(
        "count_that_completes_at_a_barrier",
        "P6",
        _RED,
        f"@%one {_RED_ASYNC} [%px], 1, [%pbar];\n",
        _EXPECT_WORD + "<op>",
        bars=(1,),
        op=wait() + _NEAR,
        broken=_NEAR + wait(),
        found=dsmem(_RED_ASYNC, "ld.shared.b32"),
    ),
    _pair(
        "stores_and_counts_of_one_word",
        "P6",
        _RED,
        f"@%one {_RED_ASYNC} [%px+<op>], 1, [%pbar];\n"
        f"@%one {_ST_ASYNC} [%px+16], 1, [%pbar];\n",
        "@%one " + expect(8) + wait(),
        bars=(1,),
        op="0",
        broken="16",
        found=(race("smem-race", _RED_ASYNC, _ST_ASYNC, "P3"),),
    ),
    _pair(
        "plain_store_before_one_that_completes",
        "P6",
        _ASYNC,
        f"<op>@%one {_ST_ASYNC} [%px+16], 1, [%pbar];\n",
        _EXPECT_WORD + wait() + _NEAR,
        bars=(1,),
        op="",
        broken=_FAR,
        found=_PAIR,
    ),
    _pair(
        "copy_to_the_peer",
        "P6",
        _BULK,
        f"@%one {_DSMEM_COPY} [%px], [%y], 256, [%pbar];\n",
        _EXPECT + "<op>" + _NEAR + wait(),
        bars=(1,),
        op=wait(),
        found=dsmem(_DSMEM_COPY, "ld.shared.b32"),
    ),
    _pair(
        "source_of_a_copy_to_the_peer",
        "P6",
        _BULK,
        f"@%one {_DSMEM_COPY} [%px], [%y], 256, [%pbar];\n"
        "<op>@%one st.shared.b32 [%y], 1;\n",
        _EXPECT + wait() + _REMOTE.format("release.cluster."),
        bars=(1,),
        op=wait(sem=".acquire.cluster"),
        found=(race("smem-race", _DSMEM_COPY, "st.shared.b32", "P4"),),
    ),
    _pair(
        "box_for_both",
        "P5",
        _TENSOR,
        "mov.b16 %h0, 3;\n"
        + _EXPECT
        + f"@%one {_CAST} [%x], [%map, {{0}}], [%bar], %h0;\n"
        + wait(),
        _EXPECT + "<op>" + _NEAR,
        bars=(1,),
        op=wait(),
        found=dsmem(_CAST, "ld.shared.b32"),
    ),
    _pair(
        "slot_of_both_is_free",
        "P5",
        _TENSOR,
        "mapa.shared::cluster.u32 %r4, %bar, 0;\nadd.u32 %r4, %r4, 8;\n"
        + "mov.b16 %h0, 3;\n"
        + _EXPECT
        + _NEAR
        + "fence.proxy.async.shared::cta;\n"
        + _FREE
        + wait(0, "%bar+8", ".acquire.cluster")
        + f"@%one {_CAST} [%x], [%map, {{0}}], [%bar], %h0;\n"
        + wait(),
        "mapa.shared::cluster.u32 %r4, %bar, 0;\nadd.u32 %r4, %r4, 8;\n"
        + _EXPECT
        + "<op>"
        + wait(),
        bars=(1, 2),
        op=_NEAR + "fence.proxy.async.shared::cta;\n" + _FREE,
        broken=_FREE + _NEAR,
        found=dsmem("ld.shared.b32", _CAST),
    ),
    _pair(
        "initialisation_before_a_relaxed_arrival",
        "M8",
        _INIT,
        "barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;\n"
        + _REMOTE.format("release.cluster."),
        "@%one mbarrier.init.shared.b64 [%bar], 1;\n<op>"
        "barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;\n" + wait(),
        op="fence.mbarrier_init.release.cluster;\n",
        found=(
            Found(
                kind="dsmem-race",
                rule="M8",
                sites=(
                    "mbarrier.init.shared.b64",
                    "mbarrier.arrive.release.cluster.shared::cluster.b64",
                ),
            ),
        ),
    ),
    _pair(
        "fence_of_an_initialisation_is_for_nothing_else",
        "M8",
        _INIT,
        _FAR + "<op>barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;\n",
        _JOIN + _NEAR,
        op="fence.acq_rel.cluster;\n",
        broken="fence.mbarrier_init.release.cluster;\n",
        found=_PAIR,
    ),
    _pair(
        "scope_of_a_shared_counter",
        "race.scope",
        "Memory Consistency Model: Morally strong operations",
        "@%one red.relaxed.<op>.shared::cluster.add.u32 [%px], 1;\n",
        "@%one red.relaxed.cluster.shared::cta.add.u32 [%x], 1;\n",
        op="cluster",
        broken="cta",
        found=dsmem(
            "red.relaxed.cta.shared::cluster.add.u32",
            "red.relaxed.cluster.shared::cta.add.u32",
            "race.scope",
        ),
    ),
    _pair(
        "flag_in_shared_memory",
        "race.order",
        "Memory Consistency Model: Release and Acquire Patterns",
        _FAR + "@%one st.<op>.cluster.shared::cluster.b32 [%py], 1;\n",
        "$L: ld.acquire.cluster.shared::cta.b32 %r1, [%y];\n"
        "setp.ne.u32 %p1, %r1, 1;\n@%p1 bra $L;\n" + _NEAR,
        op="release",
        broken="relaxed",
        found=_PAIR,
    ),
    _pair(
        "reductions_into_the_peer_may_meet",
        "P6",
        "Data Movement and Conversion Instructions: cp.reduce.async.bulk",
        f"@%one {_DSMEM_REDUCE} [%px], [%y], 64, [%pbar];\n"
        "@%one <op> [%px], [%y], 64, [%pbar];\n",
        "@%one " + expect(128) + wait(),
        bars=(1,),
        op=_DSMEM_REDUCE,
        broken=_DSMEM_COPY,
        found=(race("smem-race", _DSMEM_REDUCE, _DSMEM_COPY, "P3"),),
    ),
    _pair(
        "relaxed_wait_for_a_store_that_completes",
        "P6",
        _ASYNC,
        f"@%one {_ST_ASYNC} [%px], 1, [%pbar];\n",
        # The last wait is for the exit: what a peer stores has to be known to be over.
        _EXPECT_WORD
        + wait(sem=".relaxed.cluster")
        + "<op>"
        + _NEAR
        + wait(sem=".acquire.cluster"),
        bars=(1,),
        op="fence.acq_rel.cluster;\n",
        found=dsmem(_ST_ASYNC, "ld.shared.b32"),
    ),
)
