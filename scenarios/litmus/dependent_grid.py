"""Launches of one stream: programmatic dependents that wait, and maps made before."""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import bulk_load, expect, lead, wait
from sidestream.scenarios.litmus.twin import Found, GridTwin, gmem, race

_GRID = "Parallel Synchronization and Communication Instructions: griddepcontrol"
_SYNC = "Memory Consistency Model: Memory synchronization"
_STORE, _LOAD = "st.global.b32 [%gl], 1;\n", "ld.global.b32 %r1, [%gl];\n"
_GO = "griddepcontrol.launch_dependents;\n"
_WAIT = "griddepcontrol.wait;\n"
_FENCE = "fence.acq_rel.gpu;\n"
_BULK = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
_TENSOR = "cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
_REPLACE = "tensormap.replace.tile.global_address.global.b1024.b64"
_PAIR = gmem("st.global.b32", "ld.global.b32", "B7")
_PLACE = "add.u64 %rd2, %g, 2048;\n"
_MAKE_MAP = (
    _PLACE + "mul.wide.u32 %rd3, %lane, 4;\nadd.u64 %rd4, %map, %rd3;\n"
    "ld.b32 %r3, [%rd4];\nadd.u64 %rd4, %rd2, %rd3;\nst.global.b32 [%rd4], %r3;\n"
    f"bar.warp.sync -1;\n@%one {_REPLACE} [%rd2], %g;\n"
)
_ACQUIRE = "fence.proxy.tensormap::generic.acquire.{} [%rd2], 128;\n"
_COPY = expect(256) + f"{_TENSOR} [%x], [%rd2, {{0}}], [%bar];\n"


def _grids(
    name: str,
    first: str,
    second: str | tuple[str, ...],
    op: str,
    broken: str = "",
    found: tuple[Found, ...] = _PAIR,
) -> GridTwin:
    """A warp of a grid, and one or more of its dependent."""
    return GridTwin(
        name=name,
        rule="B7",
        title=_GRID,
        first=(first,),
        second=(second,) if isinstance(second, str) else second,
        op=op,
        broken=broken,
        found=found,
        bars=(1,),
    )


TWINS = (
    _grids("wait_before_a_read", _GO + _STORE, "<op>" + _LOAD, _WAIT),
    _grids("wait_although_nobody_let_it_start", _STORE, "<op>" + _LOAD, _WAIT),
    _grids(
        "read_comes_after_the_wait",
        _GO + _STORE,
        "<op>",
        _WAIT + _LOAD,
        _LOAD + _WAIT,
    ),
    _grids(
        "write_over_what_the_first_reads",
        _GO + _LOAD,
        "<op>" + _STORE,
        _WAIT,
        found=gmem("ld.global.b32", "st.global.b32", "B7"),
    ),
    _grids(
        "write_over_what_the_first_writes",
        _GO + _STORE,
        "<op>" + _STORE,
        _WAIT,
        found=gmem("st.global.b32", "st.global.b32", "B7"),
    ),
    _grids(
        "wait_of_another_warp",
        _GO + _STORE,
        (_WAIT + "bar.arrive 1, 64;\n", "<op>" + _LOAD),
        "bar.sync 1, 64;\n",
    ),
    _grids(
        "wait_of_one_lane",
        _GO + _STORE,
        f"@%one {_WAIT}<op>" + _LOAD,
        "bar.warp.sync -1;\n",
    ),
    _grids(
        "copy_is_issued_after_the_wait",
        _GO + _STORE,
        lead("<op>" + expect(128) + bulk_load(size=128)) + wait(),
        _WAIT,
        found=gmem("st.global.b32", _BULK, "B7"),
    ),
    _grids(
        "copy_by_the_first",
        lead(
            _GO + "cp.async.bulk.global.shared::cta.bulk_group [%g], [%x], 128;\n"
            "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"
        ),
        "<op>" + _LOAD,
        _WAIT,
        found=gmem(
            "cp.async.bulk.global.shared::cta.bulk_group", "ld.global.b32", "B7"
        ),
    ),
    _grids(
        "fence_before_dependents_may_start",
        _STORE + "<op>" + _GO,
        _LOAD,
        _FENCE,
    ),
    _grids(
        "fence_after_dependents_may_start",
        _STORE + "<op>",
        _LOAD,
        _FENCE + _GO,
        _GO + _FENCE,
    ),
    _grids(
        "store_after_dependents_may_start",
        "<op>",
        _LOAD,
        _STORE + _FENCE + _GO,
        _FENCE + _GO + _STORE,
    ),
    _grids(
        "fence_reaches_the_dependents",
        _STORE + "fence.acq_rel.<op>;\n" + _GO,
        _LOAD,
        "gpu",
        "cluster",
    ),
    _grids(
        "first_permission_counts",
        "<op>" + _STORE + _FENCE + _GO,
        _LOAD,
        "",
        _GO,
    ),
    _grids(
        "strong_accesses_of_both",
        _GO + "st.relaxed.gpu.global.b32 [%gl], 1;\n",
        "<op>.global.b32 %r1, [%gl];\n",
        "ld.relaxed.gpu",
        "ld",
        found=gmem("st.relaxed.gpu.global.b32", "ld.global.b32", "B7"),
    ),
    _grids(
        "strong_accesses_of_the_same_bytes",
        lead(_GO + "st.relaxed.gpu.global.b32 [%g], 1;\n"),
        lead("ld.relaxed.gpu.global.<op>, [%g];\n"),
        "b32 %r1",
        "b64 %rd1",
        found=gmem("st.relaxed.gpu.global.b32", "ld.relaxed.gpu.global.b64", "B7"),
    ),
    GridTwin(
        name="map_made_by_the_launch_before",
        rule="B8",
        title=_SYNC,
        first=(_MAKE_MAP,),
        second=(_PLACE + lead("<op>" + _COPY) + wait(),),
        op=_ACQUIRE.format("gpu"),
        found=(race("tensormap", _REPLACE, _TENSOR, "B8"),),
        dependent=False,
        bars=(1,),
    ),
    GridTwin(
        name="acquire_reaches_the_launch_before",
        rule="B8",
        title=_SYNC,
        first=(_MAKE_MAP,),
        second=(_PLACE + lead(_ACQUIRE.format("<op>") + _COPY) + wait(),),
        op="sys",
        broken="cta",
        found=(race("tensormap", _REPLACE, _TENSOR, "B8"),),
        dependent=False,
        bars=(1,),
    ),
    GridTwin(
        name="map_made_by_the_grid_it_waits_for",
        rule="B8",
        title=_SYNC,
        first=(_GO + _MAKE_MAP,),
        second=(_PLACE + lead(_WAIT + "<op>" + _COPY) + wait(),),
        op=_ACQUIRE.format("gpu"),
        found=(race("tensormap", _REPLACE, _TENSOR, "B8"),),
        bars=(1,),
    ),
)
