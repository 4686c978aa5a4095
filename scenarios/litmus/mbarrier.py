"""mbarriers: what arrivals hand over and what waits learn."""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import ARRIVE, expect, lead, wait
from sidestream.scenarios.litmus.twin import Twin, fault, smem

_ARRIVE = "Parallel Synchronization and Communication Instructions: mbarrier.arrive"
_DROP = "Parallel Synchronization and Communication Instructions: mbarrier.arrive_drop"
_WAIT = (
    "Parallel Synchronization and Communication Instructions: mbarrier.test_wait / "
    "mbarrier.try_wait"
)
_INIT = "Parallel Synchronization and Communication Instructions: mbarrier.init"
_PHASE = (
    "Parallel Synchronization and Communication Instructions: mbarrier: Phase of the "
    "mbarrier object"
)
_STORE, _LOAD = "st.shared.b32 [%xl], 1;\n", "ld.shared.b32 %r1, [%xl];\n"
_PAIR = smem("st.shared.b32", "ld.shared.b32")
_FENCE = "fence.acq_rel.cta;\n"
_TRY = "mbarrier.try_wait.parity.shared::cta.b64"

TWINS = (
    Twin(
        name="store_arrive_wait_load",
        rule="M6",
        title=_ARRIVE,
        warps=("<op>", wait() + _LOAD),
        bars=(32,),
        op=_STORE + ARRIVE,
        broken=ARRIVE + _STORE,
        found=_PAIR,
    ),
    Twin(
        name="no_wait",
        rule="M6",
        title=_WAIT,
        warps=(_STORE + ARRIVE, "<op>" + _LOAD),
        bars=(32,),
        op=wait(),
        found=_PAIR,
    ),
    Twin(
        name="wait_before_the_load_not_behind_it",
        rule="M6",
        title=_WAIT,
        warps=(_STORE + ARRIVE, "<op>"),
        bars=(32,),
        op=wait() + _LOAD,
        broken=_LOAD + wait(),
        found=_PAIR,
    ),
    Twin(
        name="relaxed_arrive",
        rule="M6",
        title=_ARRIVE,
        warps=(
            _STORE + "mbarrier.arrive.<op>.shared.b64 _, [%bar];\n",
            wait() + _LOAD,
        ),
        bars=(32,),
        op="release.cta",
        broken="relaxed.cta",
        found=_PAIR,
    ),
    Twin(
        name="relaxed_arrive_behind_a_fence",
        rule="M6",
        title=_ARRIVE,
        warps=(
            _STORE + "<op>mbarrier.arrive.relaxed.cta.shared.b64 _, [%bar];\n",
            wait() + _LOAD,
        ),
        bars=(32,),
        op=_FENCE,
        found=_PAIR,
    ),
    Twin(
        name="relaxed_wait",
        rule="M6",
        title=_WAIT,
        warps=(_STORE + ARRIVE, wait(sem=".<op>") + _LOAD),
        bars=(32,),
        op="acquire.cta",
        broken="relaxed.cta",
        found=_PAIR,
    ),
    Twin(
        name="relaxed_wait_before_a_fence",
        rule="M6",
        title=_WAIT,
        warps=(_STORE + ARRIVE, wait(sem=".relaxed.cta") + "<op>" + _LOAD),
        bars=(32,),
        op=_FENCE,
        found=_PAIR,
    ),
    Twin(
        name="fence_before_a_relaxed_wait_acquires_nothing",
        rule="M6",
        title=_WAIT,
        warps=(_STORE + ARRIVE, "<op>" + _LOAD),
        bars=(32,),
        op=wait(sem=".relaxed.cta") + _FENCE,
        broken=_FENCE + wait(sem=".relaxed.cta"),
        found=_PAIR,
    ),
    Twin(
        name="arrival_with_bytes_releases_too",
        rule="M3",
        title=_ARRIVE,
        warps=(
            "<op>",
            wait() + _LOAD,
        ),
        bars=(32,),
        op=_STORE + expect(0),
        broken=expect(0) + _STORE,
        found=_PAIR,
    ),
    Twin(
        name="drop_releases_too",
        rule="M3",
        title=_DROP,
        warps=("<op>", wait() + _LOAD),
        bars=(32,),
        op=_STORE + "mbarrier.arrive_drop.shared.b64 _, [%bar];\n",
        broken="mbarrier.arrive_drop.shared.b64 _, [%bar];\n" + _STORE,
        found=_PAIR,
    ),
    Twin(
        name="drop_lowers_the_next_phase",
        rule="M3",
        title=_DROP,
        warps=(
            "mbarrier.<op>.shared.b64 _, [%bar];\n",
            ARRIVE + wait(0) + ARRIVE + wait(1),
        ),
        bars=(64,),
        op="arrive_drop",
        broken="arrive",
        found=fault("deadlock", "progress", _TRY),
        finishes=False,
    ),
    Twin(
        name="count_of_many_at_once",
        rule="M3",
        title=_ARRIVE,
        warps=(
            _STORE + "bar.warp.sync -1;\n"
            "@%one mbarrier.arrive.shared.b64 _, [%bar], <op>;\n",
            wait() + _LOAD,
        ),
        bars=(8,),
        op="8",
        broken="7",
        found=fault("deadlock", "progress", _TRY),
        finishes=False,
    ),
    Twin(
        name="state_of_the_own_arrival",
        rule="M4",
        title=_WAIT,
        warps=(
            _STORE + ARRIVE,
            "mbarrier.arrive.shared.b64 %rd1, [%bar];\n<op>" + _LOAD,
        ),
        bars=(64,),
        op="$T: mbarrier.test_wait.shared.b64 %p1, [%bar], %rd1;\n@!%p1 bra $T;\n",
        found=_PAIR,
    ),
    Twin(
        name="state_of_the_phase_before",
        rule="M4",
        title=_WAIT,
        warps=(
            lead(
                "mbarrier.arrive.shared.b64 %rd1, [%bar];\n<op>"
                "$T: mbarrier.test_wait.shared.b64 %p1, [%bar], %rd1;\n"
            ),
        ),
        bars=(1,),
        op="",
        broken="mbarrier.arrive.shared.b64 _, [%bar];\n",
        found=fault("mbarrier", "mbarrier.state", "mbarrier.test_wait.shared.b64"),
    ),
    Twin(
        name="state_of_three_phases_before",
        rule="M4",
        title=_WAIT,
        warps=(
            lead(
                "mbarrier.arrive.shared.b64 %rd1, [%bar];\n<op>"
                "$T: mbarrier.try_wait.shared.b64 %p1, [%bar], %rd1;\n@!%p1 bra $T;\n"
            ),
        ),
        bars=(1,),
        op="",
        broken=2 * "mbarrier.arrive.shared.b64 _, [%bar];\n",
        found=fault("mbarrier", "mbarrier.state", "mbarrier.try_wait.shared.b64"),
    ),
    Twin(
        name="parity_of_the_phase_before",
        rule="M4",
        title=_WAIT,
        warps=(
            _STORE + ARRIVE + wait(0, "%bar+8"),
            "<op>" + _LOAD + "mbarrier.arrive.shared.b64 _, [%bar+8];\n",
        ),
        bars=(64, 32),
        op=ARRIVE + wait(0),
        broken=wait(1) + ARRIVE,
        found=_PAIR,
    ),
    Twin(
        name="second_phase_needs_a_second_wait",
        rule="M4",
        title=_PHASE,
        warps=(
            ARRIVE + wait(0, "%bar+8") + _STORE + ARRIVE,
            wait(0) + "mbarrier.arrive.shared.b64 _, [%bar+8];\n<op>" + _LOAD,
        ),
        bars=(32, 32),
        op=wait(1),
        broken=wait(0),
        found=_PAIR,
    ),
    Twin(
        name="producer_waits_until_a_slot_is_free",
        rule="M5",
        title=_PHASE,
        warps=(
            _STORE + ARRIVE + "<op>" + _STORE,
            wait() + _LOAD + "mbarrier.arrive.shared.b64 _, [%bar+8];\n",
        ),
        bars=(32, 32),
        op=wait(0, "%bar+8"),
        found=smem("ld.shared.b32", "st.shared.b32"),
    ),
    Twin(
        name="consumer_frees_a_slot_once_it_has_read",
        rule="M5",
        title=_PHASE,
        warps=(
            _STORE + ARRIVE + wait(0, "%bar+8") + _STORE,
            wait() + "<op>",
        ),
        bars=(32, 32),
        op=_LOAD + "mbarrier.arrive.shared.b64 _, [%bar+8];\n",
        broken="mbarrier.arrive.shared.b64 _, [%bar+8];\n" + _LOAD,
        found=smem("ld.shared.b32", "st.shared.b32"),
    ),
    Twin(
        name="half_the_readers_free_the_slot",
        rule="M5",
        title=_PHASE,
        warps=(
            wait(0) + _STORE,
            _LOAD + "mbarrier.arrive.shared.b64 _, [%bar];\n",
            "add.u32 %xl, %xl, <op>;\n" + _LOAD + "bar.sync 1, 32;\n",
        ),
        bars=(32,),
        op="128",
        broken="0",
        found=smem("ld.shared.b32", "st.shared.b32"),
    ),
    Twin(
        name="initialisation_is_published",
        rule="M8",
        title=_INIT,
        warps=(
            "@%one mbarrier.init.shared.b64 [%bar], 1;\n"
            "@%one st.volatile.shared.b32 [%slot], 1;\n<op>",
            "$L: ld.volatile.shared.b32 %r1, [%slot];\nsetp.ne.u32 %p1, %r1, 1;\n"
            "@%p1 bra $L;\n<op>@%one mbarrier.arrive.shared.b64 _, [%bar];\n",
        ),
        op="bar.sync 1, 64;\n",
        found=smem("mbarrier.init.shared.b64", "mbarrier.arrive.shared.b64", "M8"),
    ),
    Twin(
        name="bytes_that_a_thread_completes_release_nothing",
        rule="M9",
        title="Parallel Synchronization and Communication Instructions: "
        "mbarrier.complete_tx",
        warps=(
            _STORE
            + "bar.warp.sync -1;\n"
            + lead(
                "<op>mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%bar], 4;\n"
                "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%bar], 4;\n"
                "mbarrier.arrive.relaxed.cta.shared.b64 _, [%bar];\n"
            ),
            wait() + _LOAD,
        ),
        bars=(1,),
        op=_FENCE,
        found=_PAIR,
    ),
    Twin(
        name="arrivals_of_a_warp_by_one_lane",
        rule="M3",
        title=_ARRIVE,
        warps=(
            _STORE + "<op>@%one mbarrier.arrive.shared.b64 _, [%bar], 32;\n",
            wait() + _LOAD,
        ),
        bars=(32,),
        op="bar.warp.sync -1;\n",
        found=_PAIR,
    ),
)
