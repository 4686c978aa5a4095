"""cp.async: copies of the generic proxy, in groups of a thread or at an mbarrier."""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import wait
from sidestream.scenarios.litmus.twin import Twin, gmem, smem

_GROUP = (
    "Data Movement and Conversion Instructions: cp.async.wait_group / cp.async.wait_all"
)
_ALL = (
    "Data Movement and Conversion Instructions: cp.async.wait_group / cp.async.wait_all"
)
_COMMIT = "Data Movement and Conversion Instructions: cp.async.commit_group"
_MBAR = (
    "Parallel Synchronization and Communication Instructions: cp.async.mbarrier.arrive"
)
_COPY = "cp.async.ca.shared.global [%xl], [%gl], 4;\n"
_NAME = "cp.async.ca.shared.global"
_COMMITTED = "cp.async.commit_group;\n"
_LOAD = "ld.shared.b32 %r1, [%xl];\n"
_NEXT = "cp.async.ca.shared.global [%xl+128], [%gl+128], 4;\n"
_LOADED = smem(_NAME, "ld.shared.b32", "P3")

TWINS = (
    Twin(
        name="copy_wait_read",
        rule="P3",
        title=_ALL,
        warps=(_COPY + "<op>" + _LOAD,),
        op="cp.async.wait_all;\n",
        found=_LOADED,
    ),
    Twin(
        name="group_that_was_committed",
        rule="P4",
        title=_COMMIT,
        warps=(_COPY + "<op>cp.async.wait_group 0;\n" + _LOAD,),
        op=_COMMITTED,
        found=_LOADED,
    ),
    Twin(
        name="older_group_is_over",
        rule="P4",
        title=_GROUP,
        warps=(
            _COPY + _COMMITTED + _NEXT + _COMMITTED + "cp.async.wait_group 1;\n"
            "ld.shared.b32 %r1, [%xl+<op>];\n",
        ),
        op="0",
        broken="128",
        found=_LOADED,
    ),
    Twin(
        name="groups_left_in_flight",
        rule="P4",
        title=_GROUP,
        warps=(
            _COPY + _COMMITTED + _NEXT + _COMMITTED + "cp.async.wait_group <op>;\n"
            "ld.shared.b32 %r1, [%xl+128];\n",
        ),
        op="0",
        broken="1",
        found=_LOADED,
    ),
    Twin(
        name="words_of_another_warp",
        rule="P4",
        title=_GROUP,
        warps=(
            _COPY + "<op>bar.sync 1, 64;\n",
            "bar.sync 1, 64;\n" + _LOAD,
        ),
        op="cp.async.wait_all;\n",
        found=_LOADED,
    ),
    Twin(
        name="arrival_tracks_the_copies_of_its_thread",
        rule="P8",
        title=_MBAR,
        warps=(
            "<op>",
            wait() + _LOAD,
        ),
        bars=(32,),
        op=_COPY + "cp.async.mbarrier.arrive.noinc.shared.b64 [%bar];\n",
        broken="cp.async.mbarrier.arrive.noinc.shared.b64 [%bar];\n" + _COPY,
        found=smem(_NAME, "ld.shared.b32"),
    ),
    Twin(
        name="plain_arrival_tracks_no_copy",
        rule="P8",
        title=_MBAR,
        warps=(
            _COPY + "<op>.shared.b64 [%bar];\n",
            wait() + _LOAD,
        ),
        bars=(32,),
        op="cp.async.mbarrier.arrive.noinc",
        broken="mbarrier.arrive.shared.b64 _, [%bar];\ncp.async.mbarrier.arrive",
        found=_LOADED,
    ),
    Twin(
        name="source_is_kept_until_the_copy_is_over",
        rule="P3",
        title=_ALL,
        warps=(_COPY + "<op>st.global.b32 [%gl], 1;\n",),
        op="cp.async.wait_all;\n",
        found=gmem(_NAME, "st.global.b32", "P3"),
    ),
    Twin(
        name="slot_is_free_before_the_next_copy",
        rule="P3",
        title=_GROUP,
        warps=(
            _LOAD + "<op>",
            "<op>" + _COPY + "cp.async.wait_all;\n",
        ),
        op="bar.sync 1, 64;\n",
        found=smem("ld.shared.b32", _NAME),
    ),
)
