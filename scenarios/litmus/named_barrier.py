"""Named barriers of a CTA: bar.sync, bar.arrive, bar.red, barrier.sync."""

from __future__ import annotations

from sidestream.scenarios.litmus.twin import PROFILES, Twin, fault, smem

_TITLE = "Parallel Synchronization and Communication Instructions: bar, barrier"
_STORE, _LOAD = "st.shared.b32 [%xl], 1;\n", "ld.shared.b32 %r1, [%xl];\n"
_PAIR = smem("st.shared.b32", "ld.shared.b32")
_HALF = "shr.u32 %r2, %lane, 4;\nsetp.ne.u32 %p0, %r2, 0;\n@%p0 bra $UPPER;\n"
_FIRST = "setp.eq.u32 %p1, %warp, 0;\n"


def _all_store(name: str, value: str, *, broken_in: tuple[str, ...] = PROFILES) -> Twin:
    """Two warps execute one store, or the first alone does; both load behind it."""
    return Twin(
        name=name,
        rule="B1",
        title="Memory Consistency Model: Conflict and Data-races",
        warps=(_LOAD, _LOAD),
        setup=_FIRST + f"<op>st.shared.b32 [%xl], {value};\nbar.sync 0;\n",
        op="@%p1 ",
        found=smem("st.shared.b32", "st.shared.b32"),
        broken_in=broken_in,
    )


TWINS = (
    _all_store("every_warp_stores_the_same", "7", broken_in=("isa",)),
    _all_store("every_warp_stores_its_own", "%warp"),
    Twin(
        name="store_sync_load",
        rule="B1",
        title=_TITLE,
        warps=(_STORE + "<op>", "<op>" + _LOAD),
        op="bar.sync 1, 64;\n",
        found=_PAIR,
    ),
    Twin(
        name="cleared_run",
        rule="B1",
        title="Data Movement and Conversion Instructions: st.bulk",
        warps=("@%one st.bulk.shared::cta [%x], 128, 0;\n<op>", "<op>" + _LOAD),
        op="bar.sync 1, 64;\n",
        found=smem("st.bulk.shared::cta", "ld.shared.b32"),
    ),
    Twin(
        name="load_sync_store",
        rule="B1",
        title=_TITLE,
        warps=(_LOAD + "<op>", "<op>" + _STORE),
        op="barrier.sync 1, 64;\n",
        found=_PAIR,
    ),
    Twin(
        name="store_sync_store",
        rule="B1",
        title=_TITLE,
        warps=(_STORE + "<op>", "<op>" + _STORE),
        op="bar.sync 0;\n",
        found=smem("st.shared.b32", "st.shared.b32"),
    ),
    Twin(
        name="store_red_load",
        rule="B1",
        title=_TITLE,
        warps=(_STORE + "<op>", "<op>" + _LOAD),
        op="bar.red.and.pred %p0, 1, 64, %one;\n",
        found=_PAIR,
    ),
    Twin(
        name="arrive_hands_over_what_lies_before_it",
        rule="B1",
        title=_TITLE,
        warps=("<op>", "bar.sync 1, 64;\n" + _LOAD),
        op=_STORE + "bar.arrive 1, 64;\n",
        broken="bar.arrive 1, 64;\n" + _STORE,
        found=_PAIR,
    ),
    Twin(
        name="arrive_learns_nothing",
        rule="B1",
        title=_TITLE,
        warps=(_STORE + "bar.sync 1, 64;\n", "<op> 1, 64;\n" + _LOAD),
        op="bar.sync",
        broken="bar.arrive",
        found=_PAIR,
    ),
    Twin(
        name="count_off_by_a_warp",
        rule="B1",
        title=_TITLE,
        warps=(_STORE + "bar.sync 1, <op>;\n", "bar.sync 1, <op>;\n" + _LOAD),
        op="64",
        broken="32",
        found=_PAIR,
    ),
    Twin(
        name="count_of_a_warp_that_never_comes",
        rule="B1",
        title=_TITLE,
        warps=(_STORE + "bar.sync 1, <op>;\n", "bar.sync 1, <op>;\n" + _LOAD, ""),
        op="64",
        broken="96",
        found=fault("deadlock", "progress", "bar.sync", "bar.sync"),
        finishes=False,
    ),
    Twin(
        name="another_barrier",
        rule="B1",
        title=_TITLE,
        warps=(
            _STORE + "bar.sync 1, 64;\n",
            "<op>" + _LOAD,
            "bar.arrive 2, 64;\n",
        ),
        op="bar.sync 1, 64;\nbar.sync 2, 64;\n",
        broken="bar.arrive 1, 64;\nbar.sync 2, 64;\n",
        found=_PAIR,
    ),
    Twin(
        name="second_round_needs_a_second_barrier",
        rule="B1",
        title=_TITLE,
        warps=(
            _STORE + "bar.sync 1, 64;\n<op>" + _STORE,
            "bar.sync 1, 64;\n" + _LOAD + "<op>",
        ),
        op="bar.sync 2, 64;\n",
        found=smem("ld.shared.b32", "st.shared.b32"),
    ),
    Twin(
        name="order_goes_through_a_third_warp",
        rule="B1",
        title=_TITLE,
        warps=(
            _STORE + "bar.sync 1, 64;\n",
            "<op>",
            "bar.sync 2, 64;\n" + _LOAD,
        ),
        op="bar.sync 1, 64;\nbar.arrive 2, 64;\n",
        broken="bar.arrive 2, 64;\nbar.sync 1, 64;\n",
        found=_PAIR,
    ),
    Twin(
        name="half_a_warp_takes_part",
        rule="B1",
        title=_TITLE,
        warps=(
            _STORE + "barrier.sync 1, 64;\n",
            _HALF + "barrier.sync 1, 64;\nbra $BOTH;\n$UPPER: <op>$BOTH:\n" + _LOAD,
        ),
        op="barrier.sync 1, 64;\n",
        broken="",
        found=_PAIR,
    ),
)
