"""Loads and stores of tensor memory: tcgen05.wait::ld, tcgen05.wait::st."""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import (
    AFTER,
    BEFORE,
    TMEM_LOAD,
    TMEM_STORE,
    WAIT_LOAD,
    WAIT_STORE,
    lead,
    until,
    wait,
)
from sidestream.scenarios.litmus.twin import Twin, fault, tmem

_MODEL = "Memory Consistency Model for 5th generation of TensorCore operations"
_WAIT = "TensorCore 5th Generation Instructions: tcgen05.wait"
_ASYNC = f"{_MODEL}: Asynchronous Operations"
_OTHERS = f"{_MODEL}: Non-pipelined instructions, different thread"
_FENCE = "TensorCore 5th Generation Instructions: tcgen05.fence"
_USE = "add.u32 %r3, %r2, 1;\n"
_LANES = "Access restrictions"
_LD, _ST = (
    "tcgen05.ld.sync.aligned.32x32b.x1.b32",
    "tcgen05.st.sync.aligned.32x32b.x1.b32",
)
_HALF_LD, _HALF_ST, _SPLIT_LD, _SPLIT_ST = (
    "tcgen05.ld.sync.aligned.16x64b.x1.b32",
    "tcgen05.st.sync.aligned.16x64b.x1.b32",
    "tcgen05.ld.sync.aligned.16x32bx2.x1.b32",
    "tcgen05.st.sync.aligned.16x32bx2.x1.b32",
)
_SEEN = until("ld.relaxed.cta.shared.b32 %r1, [%y];", 0x51DE)
_BAR = "bar.sync 1, 64;\n"
_RELAXED = "mbarrier.arrive.relaxed.cta.shared.b64 _, [%bar];\n"


_READ = TMEM_LOAD + _USE
"""A load whose register is used."""


def _two(first: str, second: str) -> tuple[str, ...]:
    """Warps 0 and 4, which see the same lanes of tensor memory."""
    return (first, "", "", "", second)


TWINS = (
    Twin(
        name="store_wait_load",
        rule="T5",
        title=_WAIT,
        warps=(TMEM_STORE + "<op>" + TMEM_LOAD + WAIT_LOAD + WAIT_STORE,),
        tensor=32,
        op=WAIT_STORE,
        found=tmem(_ST, _LD, "T5"),
    ),
    Twin(
        name="store_wait_store",
        rule="T1",
        title=_ASYNC,
        warps=(TMEM_STORE + "<op>" + TMEM_STORE + WAIT_STORE,),
        tensor=32,
        op=WAIT_STORE,
        found=tmem(_ST, _ST, "T5"),
    ),
    Twin(
        name="wait_for_loads_is_none_for_stores",
        rule="T5",
        title=_WAIT,
        warps=(TMEM_STORE + "<op>" + TMEM_LOAD + WAIT_LOAD + WAIT_STORE,),
        tensor=32,
        op=WAIT_STORE,
        broken=WAIT_LOAD,
        found=tmem(_ST, _LD, "T5"),
    ),
    Twin(
        name="load_wait_store",
        rule="T5",
        title=_WAIT,
        warps=(_READ + "<op>" + TMEM_STORE + WAIT_STORE,),
        tensor=32,
        op=WAIT_LOAD,
        found=tmem(_LD, _ST, "T5"),
        broken_in=("isa",),
    ),
    Twin(
        name="store_of_another_warp",
        rule="T7",
        title=_OTHERS,
        warps=_two(
            TMEM_STORE + "<op>" + BEFORE + _BAR + WAIT_STORE,
            _BAR + AFTER + TMEM_LOAD + WAIT_LOAD,
        ),
        tensor=32,
        op=WAIT_STORE,
        found=tmem(_ST, _LD, "T5"),
    ),
    Twin(
        name="no_barrier_between_the_warps",
        rule="T7",
        title=_OTHERS,
        warps=_two(
            TMEM_STORE + WAIT_STORE + BEFORE + "<op>",
            "<op>" + AFTER + TMEM_LOAD + WAIT_LOAD,
        ),
        tensor=32,
        op=_BAR,
        found=tmem(_ST, _LD),
    ),
    Twin(
        name="load_of_another_warp_before_a_store",
        rule="T7",
        title=_OTHERS,
        warps=_two(
            _READ + "<op>" + BEFORE + _BAR, _BAR + AFTER + TMEM_STORE + WAIT_STORE
        ),
        tensor=32,
        op=WAIT_LOAD,
        found=tmem(_LD, _ST, "T5"),
        broken_in=("isa",),
    ),
    Twin(
        name="handed_over_by_an_mbarrier",
        rule="T7",
        title=_OTHERS,
        warps=_two(
            "<op>" + BEFORE + "mbarrier.arrive.shared.b64 _, [%bar];\n" + WAIT_STORE,
            wait() + AFTER + TMEM_LOAD + WAIT_LOAD,
        ),
        bars=(32,),
        tensor=32,
        op=TMEM_STORE + WAIT_STORE,
        broken=TMEM_STORE,
        found=tmem(_ST, _LD, "T5"),
    ),
    Twin(
        name="relaxed_arrival_behind_a_before_fence",
        rule="T3",
        title=_FENCE,
        warps=_two(
            TMEM_STORE + WAIT_STORE + "<op>" + _RELAXED,
            wait() + AFTER + TMEM_LOAD + WAIT_LOAD,
        ),
        bars=(32,),
        tensor=32,
        op=BEFORE,
        found=tmem(_ST, _LD, "T6"),
        broken_in=("isa",),
    ),
    Twin(
        name="other_columns",
        rule="T1",
        title=_ASYNC,
        warps=_two(
            TMEM_STORE + WAIT_STORE,
            "add.u32 %tq, %tq, <op>;\n" + TMEM_LOAD + WAIT_LOAD,
        ),
        tensor=32,
        op="1",
        broken="0",
        found=tmem(_ST, _LD),
    ),
    Twin(
        name="other_lanes",
        rule="T10",
        title=_LANES,
        warps=(
            TMEM_STORE + WAIT_STORE,
            "add.u32 %tq, %tq, <op>;\n" + TMEM_STORE + WAIT_STORE,
        ),
        tensor=32,
        op="0",
        broken="0x200000",
        found=fault("out-of-bounds", "tmem.access", _ST),
    ),
    Twin(
        name="halves_of_a_warps_lanes",
        rule="T10",
        title=_LANES,
        warps=(
            f"{_HALF_ST} [%tq], {{%r2}};\nadd.u32 %r5, %tq, <op>;\n"
            f"{_HALF_LD} {{%r6}}, [%r5];\n" + WAIT_LOAD + WAIT_STORE,
        ),
        tensor=32,
        op="0x100000",
        broken="0",
        found=tmem(_HALF_ST, _HALF_LD, "T5"),
    ),
    Twin(
        name="two_places_of_one_load",
        rule="T10",
        title=_LANES,
        warps=(
            f"{_SPLIT_ST} [%tq], 8, {{%r2}};\n{_SPLIT_LD} {{%r6}}, [%tq+<op>], 8;\n"
            + WAIT_LOAD
            + WAIT_STORE,
        ),
        tensor=32,
        op="1",
        broken="8",
        found=tmem(_SPLIT_ST, _SPLIT_LD, "T5"),
    ),
    Twin(
        name="relaxed_flag_between_fences",
        rule="T3",
        title=f"{_MODEL}: Specialized Inter-thread Synchronization for tcgen05 "
        "instructions",
        warps=_two(
            TMEM_STORE
            + WAIT_STORE
            + "<op>bar.warp.sync -1;\n"
            + lead("st.relaxed.cta.shared.b32 [%y], 0x51de;"),
            until("ld.relaxed.cta.shared.b32 %r1, [%y];", 0x51DE)
            + AFTER
            + TMEM_LOAD
            + WAIT_LOAD,
        ),
        tensor=32,
        op=BEFORE,
        found=tmem(_ST, _LD, "T6"),
        broken_in=("isa",),
    ),
    Twin(
        name="relaxed_flag_is_seen",
        rule="T7",
        title=_OTHERS,
        warps=_two(
            TMEM_STORE
            + WAIT_STORE
            + BEFORE
            + "bar.warp.sync -1;\n"
            + lead("st.relaxed.cta.shared.b32 [%y], 0x51de;"),
            "<op>",
        ),
        tensor=32,
        op=_SEEN + AFTER + TMEM_LOAD + WAIT_LOAD,
        broken=AFTER + TMEM_LOAD + WAIT_LOAD + _SEEN,
        found=tmem(_ST, _LD),
    ),
)
