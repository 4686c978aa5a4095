"""Copies of boxes through a tensor map."""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import expect, lead, wait
from sidestream.scenarios.litmus.twin import PROFILES, Twin, gmem, proxy, smem

_COPY = "Data Movement and Conversion Instructions: cp.async.bulk.tensor"
_REDUCTION = "Data Movement and Conversion Instructions: cp.reduce.async.bulk.tensor"
_IN = "cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
_OUT = "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group"
_REDUCE = "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group"
_COMMITTED = "cp.async.bulk.commit_group;\n"
_DRAINED = "cp.async.bulk.wait_group.read 0;\n"
_STORE, _LOAD = "st.shared.b32 [%xl], 1;\n", "ld.shared.b32 %r1, [%xl];\n"
_FENCE = "fence.proxy.async.shared::cta;\n"


def _load(to: str = "%x", at: int = 0) -> str:
    return f"{_IN} [{to}], [%map, {{{at}}}], [%bar];\n"


def _store(source: str = "%x", at: int = 0, name: str = _OUT) -> str:
    return f"{name} [%map, {{{at}}}], [{source}];\n"


def _in_turn(name: str, source: str, *, broken_in: tuple[str, ...] = PROFILES) -> Twin:
    """Lane 0, then lane 1, store a box into the same place by one instruction."""
    return Twin(
        name=name,
        rule="P1",
        title="Memory Consistency Model: Conflict and Data-races",
        warps=(
            f"mov.u32 %r2, 0;\nmov.u32 %r3, %x;\n$TURN_{name}:\n"
            "setp.eq.u32 %p0, %lane, %r2;\n"
            f"@%p0 {_store('%r3')}{_COMMITTED}<op>"
            f"{source}add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, 2;\n"
            f"@%p1 bra $TURN_{name};\ncp.async.bulk.wait_group 0;\n",
        ),
        op="cp.async.bulk.wait_group 0;\nbar.warp.sync 0xffffffff;\n",
        found=gmem(_OUT, _OUT, "P4"),
        broken_in=broken_in,
    )


TWINS = (
    _in_turn("lanes_that_parted_store_the_same_box", "", broken_in=("isa",)),
    _in_turn("lanes_store_boxes_of_their_own", "add.u32 %r3, %r3, 256;\n"),
    Twin(
        name="load_wait_read",
        rule="M9",
        title=_COPY,
        warps=(lead(expect(256) + _load()) + "<op>" + _LOAD,),
        bars=(1,),
        op=wait(),
        found=smem(_IN, "ld.shared.b32", "P3"),
    ),
    Twin(
        name="second_box_has_its_own_bytes",
        rule="M9",
        title=_COPY,
        warps=(
            lead(
                expect(256)
                + _load()
                + wait()
                + expect(256)
                + _load("%x+1024", 64)
                + "<op>ld.shared.b32 %r1, [%x+1024];\n"
            ),
        ),
        bars=(1,),
        op=wait(1),
        broken=wait(0),
        found=smem(_IN, "ld.shared.b32", "P3"),
    ),
    Twin(
        name="store_then_read_of_the_result",
        rule="P4",
        title=_COPY,
        warps=(
            lead(_store() + _COMMITTED + "<op>ld.global.b32 %r1, [%g];\n" + _DRAINED),
        ),
        op="cp.async.bulk.wait_group 0;\n",
        found=gmem(_OUT, "ld.global.b32", "P4"),
    ),
    Twin(
        name="source_of_a_store_is_kept",
        rule="P3",
        title=_COPY,
        warps=(
            lead(_store() + _COMMITTED + "<op>st.shared.b32 [%x], 1;\n" + _DRAINED),
        ),
        op="cp.async.bulk.wait_group.read 0;\n",
        found=smem(_OUT, "st.shared.b32", "P4"),
    ),
    Twin(
        name="tile_written_by_all_goes_out",
        rule="P2",
        title=_COPY,
        warps=(
            _STORE + "<op>bar.sync 1, 64;\n",
            "bar.sync 1, 64;\n"
            + lead(_store() + _COMMITTED + "cp.async.bulk.wait_group 0;\n"),
        ),
        op=_FENCE,
        found=proxy("st.shared.b32", _OUT),
    ),
    Twin(
        name="store_after_store_of_the_same_box",
        rule="P1",
        title=_COPY,
        warps=(
            lead(
                _store()
                + _COMMITTED
                + "<op>"
                + _store("%y")
                + _COMMITTED
                + "cp.async.bulk.wait_group 0;\n"
            ),
        ),
        op="cp.async.bulk.wait_group 0;\n",
        broken="cp.async.bulk.wait_group.read 0;\n",
        found=gmem(_OUT, _OUT, "P4"),
    ),
    Twin(
        name="store_of_the_next_box",
        rule="P1",
        title=_COPY,
        warps=(
            lead(
                _store()
                + _store("%y", "<op>")  # type: ignore[arg-type]
                + _COMMITTED
                + "cp.async.bulk.wait_group 0;\n"
            ),
        ),
        op="64",
        broken="32",
        found=gmem(_OUT, _OUT, "P4"),
    ),
    Twin(
        name="reductions_of_one_box_may_meet",
        rule="P1",
        title=_REDUCTION,
        warps=(
            lead(
                _store("%x", name="<op>")
                + _store("%y", name=_REDUCE)
                + _COMMITTED
                + "cp.async.bulk.wait_group 0;\n"
            ),
        ),
        op=_REDUCE,
        broken=_OUT,
        found=gmem(_OUT, _REDUCE, "P4"),
    ),
    Twin(
        name="a_box_and_a_store_beside_it",
        rule="P3",
        title=_COPY,
        warps=(lead(expect(256) + _load() + "st.shared.b32 [%x+<op>], 1;\n" + wait()),),
        bars=(1,),
        op="256",
        broken="252",
        found=smem(_IN, "st.shared.b32", "P3"),
    ),
)
