"""Bulk copies: completion at an mbarrier and in bulk groups."""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import (
    bulk_load,
    bulk_store,
    expect,
    lead,
    wait,
)
from sidestream.scenarios.litmus.twin import Twin, fault, gmem, smem

_GROUP = "Data Movement and Conversion Instructions: cp.async.bulk.wait_group"
_COMMIT = "Data Movement and Conversion Instructions: cp.async.bulk.commit_group"
_MBAR = "Data Movement and Conversion Instructions: Mbarrier-based mechanism"
_TX = (
    "Parallel Synchronization and Communication Instructions: mbarrier: Tracking "
    "asynchronous operations by the mbarrier object"
)
_IN = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
_OUT = "cp.async.bulk.global.shared::cta.bulk_group"
_REDUCE = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"
_TRY = "mbarrier.try_wait.parity.shared::cta.b64"
_STORE, _LOAD = "st.shared.b32 [%xl], 1;\n", "ld.shared.b32 %r1, [%xl];\n"
_FENCE = "fence.proxy.async.shared::cta;\n"
_COMMITTED = "cp.async.bulk.commit_group;\n"
_DRAINED = "cp.async.bulk.wait_group.read 0;\n"
_FREE = "mbarrier.arrive.shared.b64 _, [%bar+8];\n"

TWINS = (
    Twin(
        name="load_wait_read",
        rule="M9",
        title=_MBAR,
        warps=(lead(expect(256) + bulk_load()), "<op>" + _LOAD),
        bars=(1,),
        op=wait(),
        found=smem(_IN, "ld.shared.b32"),
    ),
    Twin(
        name="load_wait_overwrite",
        rule="P3",
        title=_MBAR,
        warps=(lead(expect(256) + bulk_load()), "<op>" + _STORE),
        bars=(1,),
        op=wait(),
        found=smem(_IN, "st.shared.b32"),
    ),
    Twin(
        name="wait_by_one_lane_for_all",
        rule="M9",
        title=_MBAR,
        warps=(
            lead(expect(256) + bulk_load()),
            "@!%one bra $OVER;\n" + wait() + "$OVER: <op>" + _LOAD,
        ),
        bars=(1,),
        op="bar.warp.sync -1;\n",
        found=smem(_IN, "ld.shared.b32"),
    ),
    Twin(
        name="wait_by_another_warp",
        rule="M9",
        title=_MBAR,
        warps=(
            lead(expect(256) + bulk_load()) + wait() + "<op>",
            "<op>" + _LOAD,
        ),
        bars=(1,),
        op="bar.sync 1, 64;\n",
        found=smem(_IN, "ld.shared.b32"),
    ),
    Twin(
        name="bytes_of_one_copy_of_two",
        rule="M9",
        title=_TX,
        warps=(
            lead(expect(512, "%bar") + bulk_load() + bulk_load("%x+256", 256, "<op>")),
            wait() + "ld.shared.b32 %r1, [%xl+256];\n",
        ),
        bars=(1, 1),
        op="%bar",
        broken="%bar+8",
        found=fault("deadlock", "progress", _TRY),
        finishes=False,
    ),
    Twin(
        name="bytes_expected_are_16_too_many",
        rule="M1",
        title=_TX,
        warps=(lead(expect("<op>") + bulk_load()), wait() + _LOAD),  # type: ignore[arg-type]
        bars=(1,),
        op="256",
        broken="272",
        found=fault("deadlock", "progress", _TRY),
        finishes=False,
    ),
    Twin(
        name="arrival_of_the_issuer_comes_with_the_bytes",
        rule="M9",
        title=_MBAR,
        warps=(
            lead("st.shared.b32 [%y], 1;\n<op>" + bulk_load()),
            wait() + "ld.shared.b32 %r1, [%y];\n",
            "@%one mbarrier.arrive.expect_tx.relaxed.cta.shared.b64 _, [%bar], 0;\n",
        ),
        bars=(2,),
        op=expect(256),
        broken="mbarrier.arrive.expect_tx.relaxed.cta.shared.b64 _, [%bar], 256;\n",
        found=smem("st.shared.b32", "ld.shared.b32"),
    ),
    Twin(
        name="refill_waits_for_the_reader",
        rule="P3",
        title=_MBAR,
        warps=(
            lead("<op>" + expect(128) + bulk_load(size=128)),
            _LOAD + _FENCE + _FREE,
        ),
        bars=(1, 32),
        op=wait(0, "%bar+8"),
        found=smem("ld.shared.b32", _IN),
    ),
    Twin(
        name="store_read_before_the_source_is_overwritten",
        rule="P4",
        title=_GROUP,
        warps=(
            lead(bulk_store() + _COMMITTED + "<op>st.shared.b32 [%x], 1;\n" + _DRAINED),
        ),
        op="cp.async.bulk.wait_group.read 0;\n",
        found=smem(_OUT, "st.shared.b32", "P4"),
    ),
    Twin(
        name="group_of_another_lane",
        rule="P4",
        title=_GROUP,
        warps=(
            "@!%one bra $OVER;\n" + bulk_store() + _COMMITTED + "<op>$OVER:\n"
            "cp.async.bulk.wait_group.read 1;\nbar.warp.sync -1;\n" + _STORE + _DRAINED,
        ),
        op="cp.async.bulk.wait_group.read 0;\n",
        broken="",
        found=smem(_OUT, "st.shared.b32", "P4"),
    ),
    Twin(
        name="waiting_lane_hands_on",
        rule="P4",
        title=_GROUP,
        warps=(
            "@!%one bra $OVER;\n"
            + bulk_store()
            + _COMMITTED
            + "cp.async.bulk.wait_group.read 0;\n$OVER:\n<op>"
            + _STORE,
        ),
        op="bar.warp.sync -1;\n",
        found=smem(_OUT, "st.shared.b32", "P4"),
    ),
    Twin(
        name="copy_without_a_commit",
        rule="P4",
        title=_COMMIT,
        warps=(
            lead(
                bulk_store() + "<op>cp.async.bulk.wait_group.read 0;\n"
                "st.shared.b32 [%x], 1;\n" + _COMMITTED + _DRAINED
            ),
        ),
        op=_COMMITTED,
        found=smem(_OUT, "st.shared.b32", "P4"),
    ),
    Twin(
        name="one_group_may_stay_behind",
        rule="P4",
        title=_GROUP,
        warps=(
            lead(
                bulk_store("%x")
                + _COMMITTED
                + bulk_store("%y", to="%g+256")
                + _COMMITTED
                + "cp.async.bulk.wait_group.read <op>;\nst.shared.b32 [%y], 1;\n"
                + _DRAINED
            ),
        ),
        op="0",
        broken="1",
        found=smem(_OUT, "st.shared.b32", "P4"),
    ),
    Twin(
        name="groups_end_in_order",
        rule="P4",
        title=_GROUP,
        warps=(
            lead(
                bulk_store("%x")
                + _COMMITTED
                + bulk_store("%y", to="%g+256")
                + _COMMITTED
                + "cp.async.bulk.wait_group.read 1;\nst.shared.b32 [<op>], 1;\n"
                + _DRAINED
            ),
        ),
        op="%x",
        broken="%y",
        found=smem(_OUT, "st.shared.b32", "P4"),
    ),
    Twin(
        name="source_was_read_destination_not_written",
        rule="P4",
        title=_GROUP,
        warps=(
            lead(
                bulk_store()
                + _COMMITTED
                + "cp.async.bulk.wait_group<op> 0;\nld.global.b32 %r1, [%g];\n"
            ),
        ),
        op="",
        broken=".read",
        found=gmem(_OUT, "ld.global.b32", "P4"),
    ),
    Twin(
        name="two_copies_of_a_thread_are_not_in_order",
        rule="P1",
        title=_GROUP,
        warps=(
            lead(
                bulk_store("%x")
                + _COMMITTED
                + "<op>"
                + bulk_store("%y")
                + _COMMITTED
                + "cp.async.bulk.wait_group 0;\n"
            ),
        ),
        op="cp.async.bulk.wait_group 0;\n",
        found=gmem(_OUT, _OUT, "P4"),
    ),
    Twin(
        name="loaded_bytes_go_out_again",
        rule="P3",
        title=_MBAR,
        warps=(
            lead(
                expect(256)
                + bulk_load()
                + "<op>"
                + bulk_store(to="%g+512")
                + _COMMITTED
                + "cp.async.bulk.wait_group 0;\n"
            ),
        ),
        bars=(1,),
        op=wait(),
        found=smem(_IN, _OUT, "P3"),
    ),
    Twin(
        name="refill_while_the_store_still_reads",
        rule="P3",
        title=_GROUP,
        warps=(
            lead(
                bulk_store(to="%g+512")
                + _COMMITTED
                + "<op>"
                + expect(256)
                + bulk_load()
                + wait()
                + "cp.async.bulk.wait_group 0;\n"
            ),
        ),
        bars=(1,),
        op="cp.async.bulk.wait_group.read 0;\n",
        found=smem(_OUT, _IN, "P4"),
    ),
    Twin(
        name="reductions_of_one_word_may_meet",
        rule="P1",
        title="Data Movement and Conversion Instructions: cp.reduce.async.bulk",
        warps=(
            lead(
                "<op> [%g], [%x], 256;\n" + _REDUCE + " [%g], [%y], 256;\n"
                "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"
            ),
        ),
        op=_REDUCE,
        broken=_OUT,
        found=gmem(_OUT, _REDUCE, "P4"),
    ),
    Twin(
        name="reductions_of_two_ctas",
        rule="P1",
        title="Data Movement and Conversion Instructions: cp.reduce.async.bulk",
        warps=(
            lead(
                "<op> [%g], [%x], 256;\ncp.async.bulk.commit_group;\n"
                "cp.async.bulk.wait_group 0;\n"
            ),
        ),
        ctas=2,
        op=_REDUCE,
        broken=_OUT,
        found=gmem(_OUT, _OUT),
    ),
    Twin(
        name="source_outlives_the_store",
        rule="P4",
        title=_GROUP,
        warps=(lead(bulk_store() + _COMMITTED + "<op>"),),
        op="cp.async.bulk.wait_group.read 0;\n",
        found=smem(_OUT, "end of the kernel", "P4"),
    ),
    Twin(
        name="store_of_a_group_that_was_never_closed",
        rule="P4",
        title=_COMMIT,
        warps=(lead(bulk_store() + "<op>cp.async.bulk.wait_group 0;\n"),),
        op=_COMMITTED,
        found=smem(_OUT, "end of the kernel", "P4"),
    ),
)
