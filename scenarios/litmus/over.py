"""What is over: told by the completion of a copy that was issued after it, or relaxed.

Neither hands over an order by the ISA. `practice` lets a write follow what had to be
over by then.
"""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import (
    ARRIVE,
    BEFORE,
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
from sidestream.scenarios.litmus.twin import Twin, dsmem, race, smem, tmem

_MODEL = "Memory Consistency Model: Asynchronous Operations"
_ARRIVE = "Parallel Synchronization and Communication Instructions: mbarrier.arrive"
_WAIT = (
    "Parallel Synchronization and Communication Instructions: mbarrier.test_wait / "
    "mbarrier.try_wait"
)
_CLUSTER = "Cluster of Cooperative Thread Arrays"
_IN = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
_OUT = "cp.async.bulk.global.shared::cta.bulk_group"
_ST_ASYNC = "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32"
_STORE, _LOAD = "st.shared.b32 [%xl], 1;\n", "ld.shared.b32 %r1, [%xl];\n"
_FENCE = "fence.proxy.async.shared::cta;\n"
# Whoever expects the bytes arrives, which releases: it must not be the issuer.
_COPY = lead(bulk_load("%y"))
_SEEN = lead(expect(256)) + wait()
_ISSUED = "bar.sync 1, 64;\n"
_DRAINED = "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\n"
_FAR_WORD = "@%one st.shared::cluster.b32 [%px], 1;\n"
_CREDIT = "mbarrier.arrive.{}.cluster.shared::cluster.b64 _, [%pbar];\n"

TWINS = (
    Twin(
        name="read_before_a_copy_is_issued",
        rule="M9",
        title=_MODEL,
        warps=(
            _LOAD + _FENCE + _ISSUED + "<op>",
            _ISSUED + _COPY,
            _SEEN + "<op>" + _STORE,
        ),
        bars=(1,),
        op="bar.sync 2, 64;\n",
        found=smem("ld.shared.b32", "st.shared.b32"),
        broken_in=("isa",),
    ),
    Twin(
        name="read_while_the_copy_may_be_on_its_way",
        rule="M9",
        title=_MODEL,
        warps=(
            _LOAD + _FENCE + _ISSUED,
            "<op>",
            _SEEN + _STORE,
        ),
        bars=(1,),
        op=_ISSUED + _COPY,
        broken=_COPY + _ISSUED,
        found=smem("ld.shared.b32", "st.shared.b32"),
        clean_in=("practice",),
    ),
    Twin(
        name="access_without_a_fence_before_a_copy_is_issued",
        rule="M9",
        title=_MODEL,
        warps=(
            _STORE + "<op>" + _ISSUED,
            _ISSUED + _COPY,
            _SEEN + _STORE.replace("1;", "2;"),
        ),
        bars=(1,),
        op=_FENCE,
        found=smem("st.shared.b32", "st.shared.b32"),
        clean_in=("practice",),
    ),
    Twin(
        name="store_by_the_issuer_of_a_copy",
        rule="M9",
        title=_MODEL,
        warps=(
            _STORE + _FENCE + _COPY + "<op>",
            _SEEN + "<op>" + _STORE.replace("1;", "2;"),
        ),
        bars=(1,),
        op="bar.sync 2, 64;\n",
        found=smem("st.shared.b32", "st.shared.b32"),
    ),
    Twin(
        name="over_is_not_visible",
        rule="M9",
        title=_MODEL,
        warps=(
            _STORE + _FENCE + _ISSUED + "<op>",
            _ISSUED + _COPY,
            _SEEN + "<op>" + _LOAD,
        ),
        bars=(1,),
        op="bar.sync 2, 64;\n",
        found=smem("st.shared.b32", "ld.shared.b32"),
    ),
    Twin(
        name="load_of_tensor_memory_before_a_copy_is_issued",
        rule="M9",
        title=_MODEL,
        warps=(
            TMEM_LOAD + "<op>" + BEFORE + _ISSUED,
            _ISSUED + _COPY,
            "",
            "",
            _SEEN + lead(mma() + commit("%bar+8")) + wait(0, "%bar+8"),
        ),
        bars=(1, 1),
        tensor=32,
        op=WAIT_LOAD,
        found=tmem(TMEM_LOAD.split()[0], "tcgen05.mma.cta_group::1.kind::f16"),
        clean_in=("practice",),
    ),
    Twin(
        name="told_by_a_second_copy",
        rule="M9",
        title=_MODEL,
        warps=(
            _LOAD + _FENCE + "<op>",
            _ISSUED + _COPY,
            _SEEN + lead(bulk_load("%z", bar="%bar+8")),
            lead(expect(256, "%bar+8")) + wait(0, "%bar+8") + _STORE,
        ),
        bars=(1, 1),
        op=_ISSUED,
        broken="bar.arrive 1, 64;\n" + _LOAD,
        found=smem("ld.shared.b32", "st.shared.b32"),
        clean_in=("practice",),
    ),
    Twin(
        name="relaxed_credit_behind_a_bulk_store",
        rule="M6",
        title=_ARRIVE,
        warps=(
            lead(bulk_store() + _DRAINED + _CREDIT.format("<op>")),
            "",
        ),
        peers=(wait(sem=".acquire.cluster") + _FAR_WORD,),
        ctas=2,
        cluster=2,
        bars=(1,),
        op="release",
        broken="relaxed",
        found=dsmem(_OUT, "st.shared::cluster.b32"),
        broken_in=("isa",),
    ),
    Twin(
        name="relaxed_credit_before_the_store_has_read",
        rule="M6",
        title=_ARRIVE,
        warps=(lead(bulk_store() + "<op>"),),
        peers=(wait(sem=".acquire.cluster") + _FAR_WORD,),
        ctas=2,
        cluster=2,
        bars=(1,),
        op=_DRAINED + _CREDIT.format("relaxed"),
        broken=_CREDIT.format("relaxed") + _DRAINED,
        found=(race("dsmem-race", _OUT, "st.shared::cluster.b32"),),
        clean_in=("practice",),
    ),
    Twin(
        name="relaxed_credit_behind_a_read_of_the_same_thread",
        rule="M6",
        title=_ARRIVE,
        warps=(
            "@%one ld.shared.b32 %r1, [%x];\n"
            + _FENCE
            + "@%one "
            + _CREDIT.format("<op>"),
        ),
        peers=(wait(sem=".acquire.cluster") + _FAR_WORD,),
        ctas=2,
        cluster=2,
        bars=(1,),
        op="release",
        broken="relaxed",
        found=dsmem("ld.shared.b32", "st.shared::cluster.b32"),
    ),
    Twin(
        name="relaxed_wait_then_overwrite",
        rule="M6",
        title=_WAIT,
        warps=(lead(expect(256) + bulk_load()), wait(sem=".<op>.cta") + _STORE),
        bars=(1,),
        op="acquire",
        broken="relaxed",
        found=smem(_IN, "st.shared.b32"),
        broken_in=("isa",),
    ),
    Twin(
        name="relaxed_wait_then_read",
        rule="M6",
        title=_WAIT,
        warps=(lead(expect(256) + bulk_load()), wait(sem=".<op>.cta") + _LOAD),
        bars=(1,),
        op="acquire",
        broken="relaxed",
        found=smem(_IN, "ld.shared.b32"),
    ),
    Twin(
        name="relaxed_wait_for_an_unfenced_store",
        rule="M6",
        title=_WAIT,
        warps=(_STORE + ARRIVE, wait(sem=".<op>.cta") + _STORE.replace("1;", "2;")),
        bars=(32,),
        op="acquire",
        broken="relaxed",
        found=smem("st.shared.b32", "st.shared.b32"),
    ),
    Twin(
        name="relaxed_wait_before_the_end",
        rule="cluster.peer",
        title=_CLUSTER,
        warps=(f"@%one {_ST_ASYNC} [%px], 1, [%pbar];\n",),
        peers=("@%one " + expect(4) + "<op>",),
        ctas=2,
        cluster=2,
        bars=(1,),
        op=wait(sem=".relaxed.cluster"),
        found=(race("dsmem-race", _ST_ASYNC, "end of the kernel", "cluster.peer"),),
    ),
)
