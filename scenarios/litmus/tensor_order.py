"""Operations on tensor memory: pipelines of one thread, fences between threads."""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import (
    AFTER,
    BEFORE,
    TMEM_LOAD,
    TMEM_STORE,
    WAIT_LOAD,
    WAIT_STORE,
    commit,
    lead,
    mma,
    wait,
)
from sidestream.scenarios.litmus.twin import Twin, tmem

_MODEL = "Memory Consistency Model for 5th generation of TensorCore operations"
_PIPES = f"{_MODEL}: Pipelined tcgen05 Instructions"
_FENCE = "TensorCore 5th Generation Instructions: tcgen05.fence"
_OTHERS = f"{_MODEL}: Non-pipelined instructions, different thread"
_SAME = f"{_MODEL}: Non-pipelined instructions, same thread"
_PIPED = f"{_MODEL}: Pipelined instructions, different thread"
_MMA = "tcgen05.mma.cta_group::1.kind::f16"
_CP, _SMALL = (
    "tcgen05.cp.cta_group::1.128x256b",
    "tcgen05.cp.cta_group::1.4x256b",
)
_SHIFT = "tcgen05.shift.cta_group::1.down"
_ROWS = "tcgen05.cp.cta_group::1.64x128b.warpx2::02_13"
_LD, _ST = (
    "tcgen05.ld.sync.aligned.32x32b.x1.b32",
    "tcgen05.st.sync.aligned.32x32b.x1.b32",
)
_COPY, _FEW = f"{_CP} [%tm], %ad;\n", f"{_SMALL} [%tm], %ad;\n"
_DOWN = f"{_SHIFT} [%tm];\n"
_BAR, _BACK = "bar.sync 1, 64;\n", "bar.sync 2, 64;\n"
_ARRIVE = "mbarrier.arrive.relaxed.cta.shared.b64 _, [%bar];\n"
_RELAXED = wait(sem=".relaxed.cta")
_NEXT = "add.u32 %r4, %tm, 8;\n"
_END_SEEN = wait(0, "%bar+8", ".relaxed.cta")
_END = commit("%bar+8") + wait(0, "%bar+8")
"""Everything of the thread is over."""


def _one(
    name: str,
    op: str,
    broken: str,
    first: str,
    second: str,
    rule: str,
    *,
    body: str = "<op>",
    isa: bool = False,
) -> Twin:
    """What one thread gives the tensor core, in one order or another."""
    return Twin(
        name=name,
        rule="T2",
        title=_PIPES,
        warps=(lead(_NEXT + body + _END),),
        bars=(1, 1),
        tensor=32,
        op=op,
        broken=broken,
        found=tmem(first, second, rule),
        broken_in=("isa",) if isa else ("practice", "isa"),
    )


def _two(
    name: str,
    first: str,
    second: str,
    op: str,
    sites: tuple[str, str],
    *,
    broken: str = "",
    rule: str = "T3",
    title: str = _PIPED,
) -> Twin:
    """Warps 0 and 4, of which the second comes after the first; a missing fence."""
    return Twin(
        name=name,
        rule=rule,
        title=title,
        warps=(first, "", "", "", second),
        bars=(32, 1, 1),
        tensor=32,
        op=op,
        broken=broken,
        found=tmem(*sites, "T6"),
        broken_in=("isa",),
    )


_GIVE = lead(mma()) + "<op>" + _BAR + _BACK + lead(_END)
_TAKE = _BAR + "<op>" + lead(mma() + commit("%bar+16") + wait(0, "%bar+16")) + _BACK

TWINS = (
    _one(
        "products_that_share_columns_partly",
        mma() + mma(),
        mma() + mma("%r4"),
        _MMA,
        _MMA,
        "T2",
        isa=True,
    ),
    _one(
        "a_fence_between_unlike_products",
        BEFORE,
        "",
        _MMA,
        _MMA,
        "T2",
        body=mma() + "<op>" + mma("%r4"),
        isa=True,
    ),
    _one(
        "a_commit_between_unlike_products",
        commit("%bar"),
        "",
        _MMA,
        _MMA,
        "T2",
        body=mma() + "<op>" + mma("%r4"),
        isa=True,
    ),
    _one(
        "a_product_that_reads_what_one_writes",
        "%tm",
        "%r4",
        _MMA,
        _MMA,
        "T2",
        body=mma() + mma("<op>", a="[%tm]"),
        isa=True,
    ),
    _one("shift_then_product", _DOWN + mma(), _DOWN + _COPY, _SHIFT, _CP, "T4"),
    _one("product_then_shift", mma() + _DOWN, mma() + _FEW, _MMA, _SMALL, "T4"),
    _one("shift_then_small_copy", _DOWN + _FEW, _FEW + _DOWN, _SMALL, _SHIFT, "T4"),
    _one(
        "shift_after_shift",
        BEFORE,
        "",
        _SHIFT,
        _SHIFT,
        "T4",
        body=_DOWN + "<op>" + _DOWN,
        isa=True,
    ),
    _one(
        "a_fence_between_copies",
        BEFORE,
        "",
        _CP,
        _CP,
        "T4",
        body=_COPY + "<op>" + _COPY,
    ),
    _one(
        "a_commit_between_copies",
        commit("%bar"),
        "",
        _CP,
        _CP,
        "T4",
        body=_COPY + "<op>" + _COPY,
    ),
    _one(
        "small_copies_of_other_lanes",
        f"{_SMALL} [%r5], %ad;\n",
        _FEW,
        _SMALL,
        _SMALL,
        "T4",
        body="add.u32 %r5, %tm, 0x10000;\n" + _FEW + "<op>",
    ),
    _two(
        "product_after_anothers_behind_its_fence",
        _GIVE,
        _TAKE.replace("<op>", AFTER),
        BEFORE,
        (_MMA, _MMA),
    ),
    _two(
        "product_after_anothers_behind_the_own_fence",
        _GIVE.replace("<op>", BEFORE),
        _TAKE,
        AFTER,
        (_MMA, _MMA),
    ),
    _two(
        "product_after_anothers_copy",
        lead(_COPY) + "<op>" + _ARRIVE + _BACK + lead(_END),
        _RELAXED + AFTER + lead(mma() + commit("%bar+16") + wait(0, "%bar+16")) + _BACK,
        BEFORE,
        (_CP, _MMA),
    ),
    _two(
        "load_after_a_commit",
        lead(mma() + commit("%bar+8")) + wait(0, "%bar+8") + BEFORE + _BAR,
        _BAR + "<op>" + TMEM_LOAD + WAIT_LOAD,
        AFTER,
        (_MMA, _LD),
        rule="T7",
        title=_OTHERS,
    ),
    Twin(
        name="load_after_the_own_commit",
        rule="T6",
        title=_SAME,
        warps=(lead(mma() + commit()) + wait() + "<op>" + TMEM_LOAD + WAIT_LOAD,),
        bars=(1,),
        tensor=32,
        op=AFTER,
        found=tmem(_MMA, _LD, "T6"),
        broken_in=("isa",),
    ),
    _two(
        "store_of_another_warp_behind_its_fence",
        TMEM_STORE + WAIT_STORE + "<op>" + _BAR,
        _BAR + AFTER + TMEM_LOAD + WAIT_LOAD,
        BEFORE,
        (_ST, _LD),
        rule="T7",
        title=_OTHERS,
    ),
    _two(
        "store_of_another_warp_behind_the_own_fence",
        TMEM_STORE + WAIT_STORE + BEFORE + _BAR,
        _BAR + "<op>" + TMEM_LOAD + WAIT_LOAD,
        AFTER,
        (_ST, _LD),
        rule="T7",
        title=_OTHERS,
    ),
    _two(
        "a_fence_before_the_store_covers_it_not",
        "<op>" + WAIT_STORE + _BAR,
        _BAR + AFTER + TMEM_LOAD + WAIT_LOAD,
        TMEM_STORE + BEFORE,
        (_ST, _LD),
        broken=BEFORE + TMEM_STORE,
        rule="T6",
        title=_FENCE,
    ),
    _two(
        "product_after_anothers_loads",
        TMEM_LOAD + WAIT_LOAD + "<op>" + _BAR,
        _BAR + AFTER + lead(mma() + _END),
        BEFORE,
        (_LD, _MMA),
        rule="T7",
        title=_OTHERS,
    ),
    Twin(
        name="load_after_a_copy_that_a_relaxed_wait_saw_complete",
        rule="T7",
        title=_OTHERS,
        warps=(
            lead(_COPY + commit("%bar+8")) + _END_SEEN + BEFORE + _ARRIVE + _BACK,
            *("", "", ""),
            "<op>" + _BACK,
        ),
        bars=(32, 1),
        tensor=32,
        op=_RELAXED + AFTER + TMEM_LOAD + WAIT_LOAD,
        broken=AFTER + TMEM_LOAD + WAIT_LOAD + _RELAXED,
        found=tmem(_CP, _LD),
    ),
    _one(
        "copies_of_other_rows",
        f"{_ROWS} [%tm], %ad;\n" + mma(),
        f"{_ROWS} [%tm], %ad;\n" + _COPY,
        _ROWS,
        _CP,
        "T4",
    ),
)
