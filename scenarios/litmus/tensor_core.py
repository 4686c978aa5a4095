"""The tensor core: products, copies, their order and their completion."""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import (
    AFTER,
    BEFORE,
    TMEM_LOAD,
    TMEM_STORE,
    WAIT_LOAD,
    WAIT_STORE,
    bulk_load,
    commit,
    expect,
    lead,
    mma,
    wait,
)
from sidestream.scenarios.litmus.twin import Twin, fault, proxy, smem, tmem

_MODEL = "Memory Consistency Model for 5th generation of TensorCore operations"
_COMMIT = "TensorCore 5th Generation Instructions: tcgen05.commit"
_PIPES = f"{_MODEL}: Pipelined tcgen05 Instructions"
_OTHER_THREAD = f"{_MODEL}: Pipelined instructions, different thread"
_SHARED = f"{_MODEL}: Shared Memory Accesses"
_WAIT = "TensorCore 5th Generation Instructions: tcgen05.wait"
_MMA = "tcgen05.mma.cta_group::1.kind::f16"
_CP = "tcgen05.cp.cta_group::1.128x256b"
_LD, _ST = (
    "tcgen05.ld.sync.aligned.32x32b.x1.b32",
    "tcgen05.st.sync.aligned.32x32b.x1.b32",
)
_IN = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
_COPY = _CP + " [%tm], %ad;\n"
_BAR = "bar.sync 1, 64;\n"
_ROWS = f"tcgen05.st.sync.aligned.32x32b.x8.b32 [%tq], {{{', '.join(['%r2'] * 8)}}};\n"
_GIVE_ROWS = BEFORE + "bar.arrive 2, 160;\n"
_READ = AFTER + TMEM_LOAD + WAIT_LOAD
_WRITE_A = "st.shared.b32 [%xl], 1;\n"
_PROXY = "fence.proxy.async.shared::cta;\n"

TWINS = (
    Twin(
        name="product_commit_wait_load",
        rule="T4",
        title=_COMMIT,
        warps=(lead(mma() + commit()) + "<op>" + _READ + wait(),),
        bars=(1,),
        tensor=32,
        op=wait(),
        found=tmem(_MMA, _LD, "T4"),
    ),
    Twin(
        name="commit_comes_after_the_product",
        rule="T4",
        title=_COMMIT,
        warps=(lead("<op>" + commit("%bar+8")) + wait() + _READ + wait(0, "%bar+8"),),
        bars=(1, 1),
        tensor=32,
        op=mma() + commit(),
        broken=commit() + mma(),
        found=tmem(_MMA, _LD, "T4"),
    ),
    Twin(
        name="another_thread_commits_nothing_of_mine",
        rule="T4",
        title=_COMMIT,
        warps=(
            lead(mma() + commit()) + BEFORE + _BAR + wait(0, "<op>") + _READ + wait(),
            _BAR + AFTER + lead(commit("%bar+8")),
        ),
        bars=(1, 1),
        tensor=32,
        op="%bar",
        broken="%bar+8",
        found=tmem(_MMA, _LD, "T4"),
    ),
    Twin(
        name="another_lane_commits_nothing_of_mine",
        rule="T4",
        title=_COMMIT,
        warps=(
            lead(mma() + commit("%bar+8"))
            + "setp.eq.u32 %p3, %lane, <op>;\n@!%p3 bra $OVER;\n"
            + commit()
            + "$OVER: bar.warp.sync -1;\n"
            + wait()
            + _READ
            + wait(0, "%bar+8"),
        ),
        bars=(1, 1),
        tensor=32,
        op="0",
        broken="1",
        found=tmem(_MMA, _LD, "T4"),
    ),
    Twin(
        name="product_of_one_lane",
        rule="T2",
        title=_PIPES,
        warps=(
            "setp.<op>.u32 %p3, %lane, 1;\n@!%p3 bra $OVER;\n"
            + mma()
            + "$OVER: setp.gt.u32 %p3, %lane, 1;\n@%p3 bra $DONE;\n"
            + commit()
            + "$DONE: bar.warp.sync -1;\n"
            + wait()
            + _READ,
        ),
        bars=(2,),
        tensor=32,
        op="lt",
        broken="le",
        found=tmem(_MMA, _MMA, "T2"),
    ),
    Twin(
        name="product_behind_that_of_another_lane",
        rule="T2",
        title=_PIPES,
        warps=(
            "@!%one bra $FIRST;\n"
            + mma()
            + commit()
            + "$FIRST:\n<op>"
            + "setp.eq.u32 %p3, %lane, 1;\n@!%p3 bra $OVER;\n"
            + mma()
            + commit("%bar+8")
            + "$OVER: bar.warp.sync -1;\n"
            + wait()
            + wait(0, "%bar+8")
            + _READ,
        ),
        bars=(1, 1),
        tensor=32,
        op="bar.warp.sync -1;\n",
        found=tmem(_MMA, _MMA, "T2"),
    ),
    Twin(
        name="second_commit_tracks_all_before_it",
        rule="T4",
        title=_COMMIT,
        warps=(
            lead(mma() + commit() + commit("%bar+8") + mma() + commit("%bar+16"))
            + wait(0, "<op>")
            + _READ
            + wait(0, "%bar+16"),
        ),
        bars=(1, 1, 1),
        tensor=32,
        op="%bar+16",
        broken="%bar+8",
        found=tmem(_MMA, _LD, "T4"),
    ),
    Twin(
        name="commit_right_behind_a_commit",
        rule="T4",
        title=_COMMIT,
        warps=(lead("<op>" + commit("%bar+8")) + wait() + _READ + wait(0, "%bar+8"),),
        bars=(1, 1, 1),
        tensor=32,
        op=mma() + commit("%bar+16") + commit(),
        broken=commit() + commit("%bar+16") + mma(),
        found=tmem(_MMA, _LD, "T4"),
    ),
    Twin(
        name="commit_of_nothing_arrives",
        rule="T4",
        title=_COMMIT,
        warps=(lead("<op>") + wait(),),
        bars=(1,),
        tensor=32,
        op=commit(),
        found=fault("deadlock", "progress", "mbarrier.try_wait.parity.shared::cta.b64"),
        finishes=False,
    ),
    Twin(
        name="later_product_needs_a_later_commit",
        rule="T4",
        title=_COMMIT,
        warps=(
            lead(mma() + commit() + mma("%tm") + commit("%bar+8"))
            + wait(0, "<op>")
            + _READ
            + wait(0, "%bar+8"),
        ),
        bars=(1, 1),
        tensor=32,
        op="%bar+8",
        broken="%bar",
        found=tmem(_MMA, _LD, "T4"),
    ),
    Twin(
        name="source_is_kept_until_the_product_is_over",
        rule="T9",
        title=_SHARED,
        warps=(lead(mma() + commit()) + "<op>" + _WRITE_A + wait(),),
        bars=(1,),
        tensor=32,
        op=wait(),
        found=smem(_MMA, "st.shared.b32", "T4"),
    ),
    Twin(
        name="source_is_refilled_after_the_product",
        rule="T9",
        title=_SHARED,
        warps=(
            lead(
                mma()
                + commit()
                + "<op>"
                + expect(256, "%bar+8")
                + bulk_load(bar="%bar+8")
            )
            + wait()
            + wait(0, "%bar+8"),
        ),
        bars=(1, 1),
        tensor=32,
        op=wait(),
        found=smem(_MMA, _IN, "T4"),
    ),
    Twin(
        name="stored_source_crosses_the_proxy",
        rule="T9",
        title=_SHARED,
        warps=(_WRITE_A + "<op>bar.warp.sync -1;\n" + lead(mma() + commit()) + wait(),),
        bars=(1,),
        tensor=32,
        op=_PROXY,
        found=proxy("st.shared.b32", _MMA),
    ),
    Twin(
        name="stored_source_of_another_warp",
        rule="T9",
        title=_SHARED,
        warps=(
            _WRITE_A + _PROXY + "<op>",
            "<op>" + lead(mma() + commit()) + wait(),
        ),
        bars=(1,),
        tensor=32,
        op=_BAR,
        found=smem("st.shared.b32", _MMA),
    ),
    Twin(
        name="loaded_source_has_arrived",
        rule="T9",
        title=_SHARED,
        warps=(
            lead(expect(256) + bulk_load() + "<op>" + mma() + commit("%bar+8"))
            + wait(0, "%bar+8")
            + wait(),
        ),
        bars=(1, 1),
        tensor=32,
        op=wait(),
        found=smem(_IN, _MMA, "P3"),
    ),
    Twin(
        name="stored_accumulator",
        rule="T5",
        title=_WAIT,
        warps=(TMEM_STORE + "<op>" + lead(mma() + commit()) + wait() + WAIT_STORE,),
        bars=(1,),
        tensor=32,
        op=WAIT_STORE,
        found=tmem(_ST, _MMA, "T5"),
    ),
    Twin(
        name="loaded_accumulator",
        rule="T5",
        title=_WAIT,
        warps=(
            TMEM_LOAD
            + "add.u32 %r3, %r2, 1;\n<op>"
            + lead(mma() + commit())
            + wait()
            + WAIT_LOAD,
        ),
        bars=(1,),
        tensor=32,
        op=WAIT_LOAD,
        found=tmem(_LD, _MMA, "T5"),
        broken_in=("isa",),
    ),
    Twin(
        name="accumulator_stored_by_another_warp",
        rule="T7",
        title=_OTHER_THREAD,
        warps=(
            TMEM_STORE + "<op>" + BEFORE + _BAR + WAIT_STORE,
            _BAR + AFTER + lead(mma() + commit()) + wait(),
        ),
        bars=(1,),
        tensor=32,
        op=WAIT_STORE,
        found=tmem(_ST, _MMA, "T5"),
    ),
    Twin(
        name="copy_then_product",
        rule="T2",
        title=_PIPES,
        warps=(lead("<op>" + commit()) + wait(),),
        bars=(1,),
        tensor=32,
        op=_COPY + mma(),
        broken=mma() + _COPY,
        found=tmem(_MMA, _CP, "T4"),
    ),
    Twin(
        name="copy_then_copy",
        rule="T2",
        title=_PIPES,
        warps=(lead(_COPY + "<op>" + _COPY + commit("%bar+8")) + wait(0, "%bar+8"),),
        bars=(1, 1),
        tensor=32,
        op=commit() + wait(),
        found=tmem(_CP, _CP, "T4"),
    ),
    Twin(
        name="product_then_product_of_the_same_accumulator",
        rule="T2",
        title=_PIPES,
        warps=(lead(mma() + "<op>" + commit()) + wait(),),
        bars=(1,),
        tensor=32,
        op=mma(),
        broken=_COPY,
        found=tmem(_MMA, _CP, "T4"),
    ),
    Twin(
        name="product_of_another_thread",
        rule="T3",
        title=_OTHER_THREAD,
        warps=(
            lead(mma() + commit("%bar+8")) + BEFORE + "<op>" + wait(0, "%bar+8"),
            "<op>" + AFTER + lead(mma() + commit()) + wait(),
        ),
        bars=(1, 1),
        tensor=32,
        op=_BAR,
        found=tmem(_MMA, _MMA),
    ),
    Twin(
        name="lanes_that_are_switched_off",
        rule="T1",
        title="TensorCore 5th Generation Instructions: tcgen05.mma",
        warps=(
            lead(
                "setp.ne.u32 %p2, %lane, %lane;\nmov.u32 %r7, <op>;\nmov.u32 %r8, 0;\n"
                f"{_MMA} [%tm], %ad, %bd, %idesc, {{%r7, %r8, %r8, %r8}}, %p2;\n"
                + commit()
            )
            + wait(),
            *("", "", ""),
            TMEM_LOAD + WAIT_LOAD,
        ),
        bars=(1,),
        tensor=32,
        op="0xffffffff",
        broken="0x7fffffff",
        found=tmem(_MMA, _LD),
    ),
    Twin(
        name="rows_that_four_warps_stored",
        rule="T7",
        title=_OTHER_THREAD,
        warps=(
            _ROWS + WAIT_STORE + _GIVE_ROWS,
            _ROWS + WAIT_STORE + _GIVE_ROWS,
            _ROWS + "<op>" + _GIVE_ROWS + WAIT_STORE,
            _ROWS + WAIT_STORE + _GIVE_ROWS,
            "bar.sync 2, 160;\n"
            + AFTER
            + "add.u32 %r4, %tm, 16;\n"
            + lead(mma("%r4", a="[%tm]") + commit())
            + wait(),
        ),
        bars=(1,),
        tensor=32,
        op=WAIT_STORE,
        found=tmem(_ROWS.split(" ")[0], _MMA, "T5"),
    ),
    Twin(
        name="copied_source_crosses_the_proxy",
        rule="T9",
        title=_SHARED,
        warps=(
            "cp.async.ca.shared.global [%xl], [%gl], 4;\ncp.async.wait_all;\n"
            "<op>bar.warp.sync -1;\n" + lead(mma() + commit()) + wait(),
        ),
        bars=(1,),
        tensor=32,
        op=_PROXY,
        found=proxy("cp.async.ca.shared.global", _MMA),
    ),
)
