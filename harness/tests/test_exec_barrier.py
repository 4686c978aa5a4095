"""Named and cluster barriers: step function, instructions, faults; setmaxnreg."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_case import Case

from sidestream.harness.exec.build import load
from sidestream.harness.exec.machine import Options

SYNC, ARRIVE, RED = range(3)
BAD_ID, BAD_COUNT, MIXED_COUNT, MIXED_RED, NOT_UNIFORM, NOT_CONVERGED = range(1, 7)


class _Barrier(ctypes.Structure):
    _fields_ = [
        (n, ctypes.c_uint32)
        for n in (
            *("expected", "arrived", "generation", "kind", "open"),
            *("trues", "falses"),
        )
    ]


class _Command(ctypes.Structure):
    _fields_ = [
        (n, ctypes.c_uint32) for n in ("use", "threads", "open", "trues", "falses")
    ]


class _Result(ctypes.Structure):
    _fields_ = [
        ("state", _Barrier),
        ("completed", ctypes.c_uint32),
        ("error", ctypes.c_uint32),
        ("red", ctypes.c_uint32),
    ]


def _step(state: _Barrier, command: _Command, live: int) -> _Result:
    function = load().lib.barrier_step
    function.restype = _Result
    function.argtypes = [_Barrier, _Command, ctypes.c_uint32]
    result: _Result = function(state, command, live)
    return result


def _settle(state: _Barrier, live: int) -> _Result:
    function = load().lib.barrier_settle
    function.restype = _Result
    function.argtypes = [_Barrier, ctypes.c_uint32]
    result: _Result = function(state, live)
    return result


@dataclass
class Model:
    """PTX ISA, bar and barrier: arrivals by warps, all of one generation alike."""

    threads: int = 0
    uses: list[int] = field(default_factory=list)
    predicates: list[bool] = field(default_factory=list)


_ARRIVALS = st.lists(
    st.tuples(st.sampled_from([SYNC, ARRIVE]), st.sampled_from([32, 64, 96])),
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(_ARRIVALS)
def test_step_follows_the_model(arrivals: list[tuple[int, int]]) -> None:
    state = _Barrier()
    model, generation = Model(), 0
    for use, threads in arrivals:
        result = _step(state, _Command(use=use, threads=threads), 1024)
        mixed = bool(model.uses) and model.threads != threads
        assert result.error == (MIXED_COUNT if mixed else 0)
        if not model.uses:
            model.threads = threads
        model.uses.append(use)
        done = len(model.uses) * 32 >= model.threads
        assert result.completed == done
        if done:
            generation += 1
            model = Model()
        state = result.state
        assert state.generation == generation
        assert state.arrived == 32 * len(model.uses)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 32), min_size=1, max_size=8))
def test_reductions(trues: list[int]) -> None:
    state = _Barrier()
    count = 32 * len(trues)
    for k, t in enumerate(trues):
        command = _Command(use=RED, threads=count, trues=t, falses=32 - t)
        result = _step(state, command, 1024)
        assert result.error == 0
        assert result.completed == (k == len(trues) - 1)
        state = result.state
    assert result.red & 0xFFFF == sum(trues)
    assert bool(result.red >> 16 & 1) == (sum(trues) == count)
    assert bool(result.red >> 17 & 1) == (sum(trues) > 0)


def test_exited_warps_are_awaited_only_with_a_count() -> None:
    for is_open, want in ((1, 1), (0, 0)):
        command = _Command(use=SYNC, threads=96, open=is_open)
        state = _step(_Barrier(), command, 96).state
        assert _settle(state, 96).completed == 0
        assert _settle(state, 32).completed == want
    assert _settle(_Barrier(), 0).completed == 0
    # one participant that counts fixes the number for all
    both = _step(_Barrier(), _Command(threads=96, open=1), 96).state
    both = _step(both, _Command(threads=96), 96).state
    assert _settle(both, 64).completed == 0
    assert _step(_Barrier(), _Command(threads=0), 64).error == BAD_COUNT
    assert _step(_Barrier(), _Command(threads=33), 64).error == BAD_COUNT
    red = _step(_Barrier(), _Command(use=RED, threads=64), 64).state
    assert _step(red, _Command(use=SYNC, threads=64), 64).error == MIXED_RED


DECLARE = ".shared .align 16 .b8 tile[1024];"
ROTATE = """shl.b32 %r5, %r0, 2; mov.u32 %r6, tile; add.u32 %r7, %r6, %r5;
mul.lo.u32 %r8, %r0, 5; st.shared.u32 [%r7], %r8;
{sync}
add.u32 %r9, %r0, 32; rem.u32 %r9, %r9, {threads}; shl.b32 %r9, %r9, 2;
add.u32 %r9, %r6, %r9; ld.shared.u32 %r10, [%r9];
mul.wide.u32 %rd4, %r0, 4; add.s64 %rd4, %rd0, %rd4; st.global.u32 [%rd4], %r10;"""
SYNCS = [
    "bar.sync 0;",
    "barrier.sync 3;",
    "mov.u32 %r20, 15; bar.sync %r20, 128;",
    "barrier.sync.aligned 1, 128;",
    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
]


@pytest.mark.parametrize("sync", SYNCS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_thread_sees_what_was_stored_before(sync: str, seed: int) -> None:
    out = np.zeros(128, np.uint32)
    options = Options(seed=seed, quantum=3)
    body = ROTATE.format(sync=sync, threads=128)
    Case(body, declare=DECLARE, threads=128, options=options).clean(out)
    np.testing.assert_array_equal(out, (np.arange(128) + 32) % 128 * 5)


def test_partial_last_warp() -> None:
    out = np.zeros(80, np.uint32)
    body = ROTATE.format(sync="bar.sync 0;", threads=80)
    Case(body, declare=DECLARE, threads=80).clean(out)
    np.testing.assert_array_equal(out, (np.arange(80) + 32) % 80 * 5)


@pytest.mark.parametrize("seed", range(4))
def test_arrive_releases_sync(seed: int) -> None:
    """Warp 1 only announces; warp 0 waits and reads; two barriers, many rounds."""
    out = np.zeros(8, np.uint32)
    body = """shr.u32 %r5, %r0, 5; setp.eq.u32 %p1, %r5, 1; mov.u32 %r6, 0;
    and.b32 %r11, %r0, 31; setp.eq.u32 %p4, %r11, 0;
    @%p1 bra produce;
    consume: bar.sync 1, 64; ld.shared.u32 %r7, [tile]; mul.wide.u32 %rd4, %r6, 4;
    add.s64 %rd4, %rd4, %rd0; @%p4 st.global.u32 [%rd4], %r7; bar.arrive 2, 64;
    add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 8; @%p2 bra consume; bra end;
    produce: mad.lo.u32 %r7, %r6, 7, 1; @%p4 st.shared.u32 [tile], %r7;
    bar.arrive 1, 64; bar.sync 2, 64;
    add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 8; @%p2 bra produce;
    end:"""
    options = Options(seed=seed, quantum=2)
    Case(body, declare=DECLARE, threads=64, options=options).clean(out)
    np.testing.assert_array_equal(out, np.arange(8) * 7 + 1)


def test_reductions_of_predicates() -> None:
    out = np.zeros(96 * 3, np.uint32)
    body = """rem.u32 %r5, %r0, 3; setp.eq.u32 %p1, %r5, 0;
    bar.red.popc.u32 %r6, 0, %p1; barrier.red.and.pred %p2, 1, 96, %p1;
    bar.red.or.pred %p3, 2, !%p1; selp.u32 %r7, 1, 0, %p2; selp.u32 %r8, 1, 0, %p3;
    mul.wide.u32 %rd4, %r0, 12; add.s64 %rd4, %rd4, %rd0;
    st.global.u32 [%rd4], %r6; st.global.u32 [%rd4+4], %r7;
    st.global.u32 [%rd4+8], %r8;"""
    Case(body, threads=96).clean(out)
    np.testing.assert_array_equal(out.reshape(96, 3), [[32, 0, 1]] * 96)


def test_divergent_warp_meets_at_unaligned_barriers() -> None:
    """Lanes of one warp reach the same barrier by two different instructions.

    What they read was stored by the other warp: their own two halves are not enough.
    """
    out = np.zeros(64, np.uint32)
    body = """and.b32 %r5, %r0, 1; setp.eq.u32 %p1, %r5, 1; setp.ge.u32 %p2, %r0, 32;
    @%p2 nanosleep.u32 1; @%p2 nanosleep.u32 1; @%p1 bra odd;
    shl.b32 %r6, %r0, 2; mov.u32 %r7, tile; add.u32 %r6, %r6, %r7;
    st.shared.u32 [%r6], %r0; barrier.sync 4; bra join;
    odd: barrier.sync 4; mov.u32 %r7, tile; shl.b32 %r6, %r0, 2; xor.b32 %r6, %r6, 132;
    add.u32 %r6, %r6, %r7; ld.shared.u32 %r8, [%r6];
    mul.wide.u32 %rd4, %r0, 4; add.s64 %rd4, %rd4, %rd0; st.global.u32 [%rd4], %r8;
    join:"""
    want = np.where(np.arange(64) & 1, np.arange(64) ^ 33, 0)
    for seed in range(6):
        out[:] = 0
        options = Options(seed=seed, quantum=1)
        Case(body, declare=DECLARE, threads=64, options=options).clean(out)
        np.testing.assert_array_equal(out, want)


def test_aligned_barrier_waits_for_lanes_held_elsewhere() -> None:
    """Half a warp is at the barrier while the other half still waits at an mbarrier."""
    body = """setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [tile], 1;
    bar.sync 1; setp.ge.u32 %p2, %r0, 32; @%p2 bra other; setp.lt.u32 %p3, %r0, 16;
    @%p3 bra meet;
    spin: mbarrier.try_wait.parity.shared.b64 %p4, [tile], 0; @!%p4 bra spin;
    meet: bar.sync 0; bra end;
    other: nanosleep.u32 1; setp.eq.u32 %p5, %r0, 32;
    @%p5 mbarrier.arrive.shared.b64 _, [tile]; bar.sync 0; end:"""
    for seed in range(4):
        options = Options(seed=seed, quantum=2)
        Case(body, declare=DECLARE, threads=64, options=options).clean()


def test_exited_threads_are_not_awaited() -> None:
    body = """setp.ge.u32 %p1, %r0, 64; @%p1 exit; setp.eq.u32 %p2, %r1, 3;
    @%p2 exit; bar.sync 0; barrier.sync 1; st.global.u32 [%rd0], 1;"""
    out = np.zeros(1, np.uint32)
    Case(body, threads=96).clean(out)
    assert out[0] == 1


def test_lanes_arrived_before_the_rest_of_their_warp_exits() -> None:
    """Warp 1's low lanes arrive, its high lanes exit: the warp has arrived."""
    body = """setp.lt.u32 %p1, %r0, 32; @%p1 bra wait; setp.ge.u32 %p2, %r1, 16;
    @%p2 bra gone; barrier.arrive 1, 64; bra end; gone: nanosleep.u32 1; exit;
    wait: barrier.sync 1, 64; st.global.u32 [%rd0], 1; end:"""
    out = np.zeros(1, np.uint32)
    for seed in range(6):
        out[:] = 0
        Case(body, threads=64, options=Options(seed=seed, quantum=1)).clean(out)
        assert out[0] == 1


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("mov.u32 %r5, 16; bar.sync %r5;", BAD_ID),
        ("bar.sync 0, 48;", BAD_COUNT),
        ("bar.sync 0, 96;", BAD_COUNT),
        ("bar.arrive 0, 0;", BAD_COUNT),
        ("setp.lt.u32 %p1, %r0, 32; selp.u32 %r5, 32, 64, %p1;", None),
        ("setp.eq.u32 %p1, %r1, 0; @%p1 bar.sync 0;", NOT_CONVERGED),
        ("add.u32 %r5, %r1, 0; and.b32 %r5, %r5, 1; bar.sync %r5;", NOT_UNIFORM),
        (
            "setp.lt.u32 %p1, %r0, 32; @%p1 bra a; bar.sync 0; bra b;"
            "a: bar.red.or.pred %p2, 0, %p1; b:",
            MIXED_RED,
        ),
    ],
)
def test_faults(body: str, error: int | None) -> None:
    case = Case(body, threads=64)
    if error is None:
        case.clean()
        return
    result = case.faulty("named-barrier")
    assert error in {f.info for f in result.faults}
    assert result.status == "done"


def test_mixed_counts() -> None:
    body = """setp.lt.u32 %p1, %r0, 32; selp.u32 %r5, 64, 96, %p1;
    bar.sync 0, %r5; """
    result = Case(body, threads=96).run()
    assert {f.info for f in result.faults} == {MIXED_COUNT}


def test_missing_warp_is_a_deadlock() -> None:
    result = Case("setp.lt.u32 %p1, %r0, 32; @%p1 exit; bar.sync 5, 64;", threads=64)
    done = result.run()
    assert done.status == "deadlock"
    (waiting,) = done.waiting
    assert (waiting.kind, waiting.address, waiting.info) == ("barrier", 5, 64)


def test_cluster_barrier_orders_ranks() -> None:
    out = np.zeros(4, np.uint32)
    body = """mov.u32 %r5, %cluster_ctarank; setp.eq.u32 %p1, %r0, 0;
    @%p1 st.shared.u32 [tile], %r5;
    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
    add.u32 %r6, %r5, 1; and.b32 %r6, %r6, 3; shl.b32 %r7, %r6, 24;
    mov.u32 %r8, tile; and.b32 %r8, %r8, 0xffffff; or.b32 %r8, %r8, %r7;
    ld.shared::cluster.u32 %r9, [%r8]; add.u32 %r9, %r9, 10;
    barrier.cluster.arrive.relaxed; barrier.cluster.wait;
    mul.wide.u32 %rd4, %r5, 4; add.s64 %rd4, %rd4, %rd0; st.global.u32 [%rd4], %r9;"""
    for seed in range(3):
        options = Options(seed=seed, quantum=2)
        case = Case(body, declare=DECLARE, grid=4, cluster=4, threads=64)
        case.options = options
        case.clean(out)
        assert out.tolist() == [11, 12, 13, 10]


def test_cluster_barrier_ignores_the_exited_and_faults_on_misuse() -> None:
    body = """setp.ge.u32 %p1, %r0, 32; @%p1 barrier.cluster.arrive;
    @%p1 exit; barrier.cluster.arrive; barrier.cluster.wait;"""
    Case(body, grid=2, cluster=2, threads=64).clean()
    body = """setp.ge.u32 %p1, %r0, 20; @%p1 exit;
    barrier.cluster.arrive; barrier.cluster.wait;"""
    Case(body, grid=2, cluster=2, threads=64).clean()
    Case("barrier.cluster.wait;").faulty("named-barrier")
    Case("barrier.cluster.arrive; barrier.cluster.arrive;").faulty("named-barrier")


def test_mapa_and_getctarank() -> None:
    out = np.zeros((4, 4), np.uint32)
    body = """mov.u32 %r5, %cluster_ctarank; add.u32 %r6, %r5, 1; and.b32 %r6, %r6, 3;
    mov.u32 %r7, tile; mapa.shared::cluster.u32 %r8, %r7, %r6;
    getctarank.shared::cluster.u32 %r9, %r8;
    mov.u64 %rd5, tile; cvta.shared.u64 %rd5, %rd5; mapa.u64 %rd6, %rd5, %r6;
    getctarank.u64 %r10, %rd6; mapa.shared::cluster.u32 %r11, tile, 2;
    shr.u32 %r11, %r11, 24; getctarank.shared::cluster.u32 %r12, tile;
    st.u32 [%rd6+8], %r5; barrier.cluster.arrive; barrier.cluster.wait;
    ld.shared.u32 %r13, [tile+8]; mad.lo.u32 %r12, %r13, 16, %r12;
    mul.wide.u32 %rd4, %r5, 16; add.s64 %rd4, %rd4, %rd0;
    st.global.v4.u32 [%rd4], {%r9, %r10, %r11, %r12};"""
    Case(body, declare=DECLARE, grid=4, cluster=4).clean(out)
    for rank in range(4):
        after, before = (rank + 1) % 4, (rank + 3) % 4
        assert out[rank].tolist() == [after, after, 2, 16 * before + rank]
    Case("mapa.shared::cluster.u32 %r8, %r7, 1;").faulty("illegal")
    Case("getctarank.u64 %r8, %rd0;").faulty("illegal")


def test_setmaxnreg_waits_for_the_pool() -> None:
    """Three warpgroups of 168 registers: two ask for 240 when one gives back 144."""
    body = """shr.u32 %r5, %r0, 7; setp.eq.u32 %p1, %r5, 0; @%p1 bra give;
    setmaxnreg.inc.sync.aligned.u32 240; bra end;
    give: nanosleep.u32 10; nanosleep.u32 10; setmaxnreg.dec.sync.aligned.u32 24;
    end:"""
    for seed in range(3):
        Case(body, threads=384, options=Options(seed=seed)).clean()
    body = body.replace("setmaxnreg.dec.sync.aligned.u32 24;", "")
    result = Case(body, threads=384).run()
    assert result.status == "deadlock"
    assert {w.kind for w in result.waiting} == {"setmaxnreg"}


@pytest.mark.parametrize(
    "body",
    [
        "setmaxnreg.dec.sync.aligned.u32 64; setmaxnreg.dec.sync.aligned.u32 72;",
        "setmaxnreg.dec.sync.aligned.u32 64; setmaxnreg.inc.sync.aligned.u32 56;",
        "setp.eq.u32 %p1, %r0, 0; @%p1 setmaxnreg.dec.sync.aligned.u32 64;",
    ],
)
def test_setmaxnreg_faults(body: str) -> None:
    Case(body, threads=128).faulty("setmaxnreg")


def test_setmaxnreg_of_an_impossible_count_is_not_executed() -> None:
    for count in (16, 100, 264):
        assert Case(f"setmaxnreg.inc.sync.aligned.u32 {count};").unsupported()


def test_fences_and_grid_control_are_known() -> None:
    Case(
        """fence.acq_rel.gpu; fence.sc.cta; membar.gl; fence.proxy.async;
        fence.proxy.async.shared::cta; fence.mbarrier_init.release.cluster;
        fence.proxy.tensormap::generic.release.gpu;
        fence.proxy.tensormap::generic.acquire.gpu [%rd0], 128;
        griddepcontrol.wait; griddepcontrol.launch_dependents;"""
    ).clean(np.zeros(32, np.uint32))
