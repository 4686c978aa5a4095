"""mbarrier: the step function against an independent model, and its instructions."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_case import Case

from sidestream.harness.exec.build import load
from sidestream.harness.exec.machine import Options

MOST = 2**20 - 1
INIT, INVAL, ARRIVE, DROP, EXPECT, COMPLETE, PARITY, STATE, PEND = range(9)
OK, UNINIT, CORRUPT, REINIT, COUNT, OVER, TX, COMPLETED, BAD_PARITY, BAD_STATE = range(
    10
)
DROPS_MORE = 12


class _Result(ctypes.Structure):
    _fields_ = [
        ("state", ctypes.c_uint64),
        ("completed", ctypes.c_uint32),
        ("error", ctypes.c_uint32),
    ]


def _step(
    state: int, op: int, count: int = 0, tx: int = 0, flags: int = 0, token: int = 0
) -> _Result:
    function = load().lib.mbarrier_step
    function.restype = _Result
    u32, u64 = ctypes.c_uint32, ctypes.c_uint64
    function.argtypes = [u64, u32, u32, u32, u32, u64]
    result: _Result = function(state, op, flags, count, tx, token)
    return result


class Broken(Exception):
    """The operation is undefined."""


@dataclass
class Model:
    """PTX ISA, Contents of the mbarrier object; written from the text."""

    expected: int
    pending: int
    tx: int = 0
    phase: int = 0

    def _settle(self) -> bool:
        if self.pending or self.tx:
            return False
        self.phase += 1
        self.pending = self.expected
        return True

    def transact(self, amount: int) -> bool:
        if not -MOST <= self.tx + amount <= MOST:
            raise Broken
        self.tx += amount
        return self._settle()

    def arrive(self, count: int, tx: int = 0, *, drop: bool = False) -> bool:
        if not 1 <= count <= self.pending or not -MOST <= self.tx + tx <= MOST:
            raise Broken
        if drop and count > self.expected:
            raise Broken
        self.tx += tx
        self.pending -= count
        self.expected -= count if drop else 0
        return self._settle()


_COMMANDS = st.one_of(
    st.tuples(st.just(ARRIVE), st.integers(0, 4), st.sampled_from([0, 0, 16, 1024])),
    st.tuples(st.just(DROP), st.integers(0, 2), st.sampled_from([0, 16])),
    st.tuples(st.just(EXPECT), st.just(0), st.sampled_from([0, 16, 1024, MOST])),
    st.tuples(st.just(COMPLETE), st.just(0), st.sampled_from([0, 16, 1024, MOST])),
    st.tuples(st.just(PEND), st.just(0), st.just(0)),
)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 6), st.lists(_COMMANDS, max_size=40))
def test_step_follows_the_model(
    count: int, commands: list[tuple[int, int, int]]
) -> None:
    state = _step(0, INIT, count).state
    model = Model(expected=count, pending=count)
    for op, n, tx in commands:
        before = (state, model.phase)
        result = _step(state, op, n, tx)
        try:
            match op:
                case 2 | 3:
                    done = model.arrive(n, tx, drop=op == DROP)
                case 4:
                    done = model.transact(tx)
                case 5:
                    done = model.transact(-tx)
                case _:
                    model.pending += 1
                    done = False
        except Broken:
            assert result.error != OK
            assert result.state == state, "a refused operation changes nothing"
            continue
        assert result.error == OK
        assert bool(result.completed) == done
        state = result.state
        assert state & MOST == model.pending
        # waits: the phase before the current one is over, the current one is not
        phase = model.phase & 1
        assert _step(state, PARITY, phase).completed == 0
        assert _step(state, PARITY, phase ^ 1).completed == 1
        token = _step(state, STATE, token=before[0])
        assert bool(token.completed) == (model.phase != before[1])
        if done:
            assert model.phase == before[1] + 1


def test_arrivals_of_a_phase_commute() -> None:
    """Any order of expects, completions and arrivals ends the phase exactly once."""
    rng = np.random.default_rng(3)
    steps = [(ARRIVE, 1, 64), (ARRIVE, 2, 0), *[(COMPLETE, 0, 16)] * 4, (ARRIVE, 1, 0)]
    for _ in range(200):
        state = _step(0, INIT, 4).state
        ends = []
        for k in rng.permutation(len(steps)):
            result = _step(state, *steps[k])
            assert result.error == OK
            state = result.state
            ends.append(result.completed)
        assert ends == [0] * (len(steps) - 1) + [1]


@pytest.mark.parametrize(
    ("op", "count", "tx", "flags", "error"),
    [
        (INIT, 0, 0, 0, COUNT),
        (INIT, MOST + 1, 0, 0, COUNT),
        (ARRIVE, 0, 0, 0, COUNT),
        (ARRIVE, 3, 0, 0, OVER),
        (ARRIVE, 2, 0, 1, COMPLETED),
        (EXPECT, 0, MOST + 1, 0, TX),
        (COMPLETE, 0, MOST + 1, 0, TX),
        (COMPLETE, 0, 0xFFFF_FFFF, 0, TX),
        (PARITY, 2, 0, 0, BAD_PARITY),
    ],
)
def test_undefined_operations(
    op: int, count: int, tx: int, flags: int, error: int
) -> None:
    state = _step(0, INIT, 2).state
    result = _step(state, op, count, tx, flags)
    assert (result.error, result.state) == (error, state)


def test_extremes() -> None:
    state = _step(0, INIT, MOST).state
    for tx in (MOST, -MOST):
        op, back = (EXPECT, COMPLETE) if tx > 0 else (COMPLETE, EXPECT)
        moved = _step(state, op, tx=MOST)
        assert moved.error == OK
        assert _step(moved.state, op, tx=1).error == TX
        assert _step(moved.state, back, tx=MOST).state == state
    assert _step(state, PEND).error == COUNT
    assert _step(state, ARRIVE, MOST).completed == 1
    assert _step(0xFFFF_FFFF_FFFF_FFFF, ARRIVE, 1).error == CORRUPT
    assert _step(0, PARITY, 0).error == CORRUPT
    assert _step(state, STATE, token=5).error == BAD_STATE


# --- instructions ------------------------------------------------------------------
DECLARE = ".shared .align 8 .b8 bar[64];"
INIT_1 = """setp.eq.u32 %p1, %r0, 0;
@%p1 mbarrier.init.shared.b64 [bar], 1; bar.sync 0;"""
WAIT = """loop{k}: mbarrier.try_wait.parity.shared.b64 %p2, [bar], {parity};
@!%p2 bra loop{k};"""


def _wait(k: int, parity: int | str) -> str:
    return WAIT.format(k=k, parity=parity)


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 5])
def test_ring_of_two_warps(seed: int) -> None:
    """A producer and a consumer alternate; each value is read before it changes."""
    out = np.zeros(16, np.uint32)
    body = """setp.eq.u32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared::cta.b64 [bar], 32;
    @%p1 mbarrier.init.shared::cta.b64 [bar+8], 32;
    bar.sync 0; shr.u32 %r5, %r0, 5; setp.eq.u32 %p3, %r5, 1; mov.u32 %r6, 0;
    @%p3 bra consumer;
    producer: and.b32 %r8, %r6, 1; xor.b32 %r7, %r8, 1;
    empty: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar+8], %r7;
    @!%p2 bra empty;
    mad.lo.u32 %r9, %r6, 3, 7; st.shared.u32 [bar+32], %r9;
    mbarrier.arrive.shared::cta.b64 _, [bar];
    add.u32 %r6, %r6, 1; setp.lt.u32 %p4, %r6, 16; @%p4 bra producer; bra end;
    consumer: and.b32 %r8, %r6, 1;
    full: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], %r8;
    @!%p2 bra full;
    ld.shared.u32 %r9, [bar+32]; mul.wide.u32 %rd4, %r6, 4; add.s64 %rd4, %rd0, %rd4;
    st.global.u32 [%rd4], %r9;
    mbarrier.arrive.release.cta.shared::cta.b64 %rd9, [bar+8];
    add.u32 %r6, %r6, 1; setp.lt.u32 %p4, %r6, 16; @%p4 bra consumer;
    end:"""
    options = Options(seed=seed, quantum=5)
    Case(body, declare=DECLARE, threads=64, options=options).clean(out)
    np.testing.assert_array_equal(out, np.arange(16) * 3 + 7)


def test_tx_counts_tokens_and_pending() -> None:
    out = np.zeros(8, np.uint32)
    body = f"""setp.eq.u32 %p1, %r0, 0; @!%p1 bra end;
    mbarrier.init.shared.b64 [bar], 3;
    mbarrier.arrive.expect_tx.shared.b64 %rd9, [bar], 48;
    mbarrier.pending_count.b64 %r10, %rd9;
    mbarrier.arrive.noComplete.shared.b64 %rd10, [bar], 1;
    mbarrier.pending_count.b64 %r11, %rd10;
    mbarrier.arrive_drop.shared.b64 %rd11, [bar];
    mbarrier.test_wait.shared.b64 %p2, [bar], %rd9; selp.u32 %r12, 1, 0, %p2;
    mbarrier.complete_tx.shared.b64 [bar], 48;
    mbarrier.test_wait.shared.b64 %p2, [bar], %rd9; selp.u32 %r13, 1, 0, %p2;
    {_wait(0, 0)}
    mbarrier.arrive.shared.b64 %rd12, [bar], 2; mbarrier.pending_count.b64 %r14, %rd12;
    {_wait(1, 1)}
    mbarrier.inval.shared.b64 [bar]; mbarrier.init.shared.b64 [bar], 9;
    st.global.v4.u32 [%rd0], {{%r10, %r11, %r12, %r13}}; st.global.u32 [%rd0+16], %r14;
    end:"""
    Case(body, declare=DECLARE).clean(out)
    assert out[:5].tolist() == [3, 2, 0, 1, 2]


@pytest.mark.parametrize("wait", ["try_wait", "test_wait"])
def test_lanes_may_ask_about_different_barriers_and_phases(wait: str) -> None:
    out = np.zeros(32, np.uint32)
    body = f"""setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [bar], 1;
    @%p1 mbarrier.init.shared.b64 [bar+8], 1; @%p1 mbarrier.arrive.shared.b64 _, [bar];
    bar.warp.sync -1; and.b32 %r5, %r0, 1; shr.u32 %r6, %r0, 1; and.b32 %r6, %r6, 1;
    shl.b32 %r5, %r5, 3; mov.u32 %r7, bar; add.u32 %r7, %r7, %r5;
    mbarrier.{wait}.parity.shared.b64 %p2, [%r7], %r6; selp.u32 %r8, 1, 0, %p2;
    mul.wide.u32 %rd4, %r0, 4; add.s64 %rd4, %rd4, %rd0; st.global.u32 [%rd4], %r8;"""
    Case(body, declare=DECLARE).clean(out)
    lanes = np.arange(32)
    phase = np.where(lanes & 1, 0, 1)  # barrier 0 has completed its phase 0
    np.testing.assert_array_equal(out, (lanes >> 1 & 1) != phase)


def test_generic_addresses_and_remote_arrivals() -> None:
    out = np.zeros(2, np.uint32)
    body = """setp.eq.u32 %p1, %r0, 0; mov.u64 %rd5, bar; cvta.shared.u64 %rd5, %rd5;
    @%p1 mbarrier.init.b64 [%rd5], 2; fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @!%p1 bra end;
    mov.u32 %r5, bar; mov.u32 %r9, %cluster_ctarank;
    and.b32 %r6, %r5, 0x00ffffff;
    mbarrier.arrive.shared::cluster.b64 _, [%r6];
    or.b32 %r7, %r6, 0x01000000;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];
    spin: mbarrier.try_wait.parity.b64 %p2, [%rd5], 0; @!%p2 bra spin;
    mul.wide.u32 %rd6, %r9, 4; add.s64 %rd6, %rd6, %rd0; st.global.u32 [%rd6], 1;
    end: barrier.cluster.arrive; barrier.cluster.wait;"""
    Case(body, declare=DECLARE, grid=2, cluster=2).clean(out)
    assert out.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("@%p1 mbarrier.arrive.shared.b64 _, [bar+8];", UNINIT),
        (INIT_1 + "@%p1 mbarrier.init.shared.b64 [bar], 1;", REINIT),
        ("@%p1 mbarrier.init.shared.b64 [bar], 0;", COUNT),
        (INIT_1 + "mbarrier.arrive.shared.b64 _, [bar], 2;", OVER),
        # A copy of the thread makes the phase wait for one arrival more.
        (
            INIT_1 + "@%p1 cp.async.mbarrier.arrive.shared.b64 [bar];"
            "@%p1 mbarrier.arrive_drop.shared.b64 _, [bar], 2;",
            DROPS_MORE,
        ),
        (INIT_1 + "@%p1 mbarrier.expect_tx.shared.b64 [bar], 1048576;", TX),
        (INIT_1 + "@%p1 st.shared.b64 [bar], 0;" + _wait(0, 0), CORRUPT),
        (INIT_1 + _wait(0, 5), BAD_PARITY),
        (
            INIT_1 + "@%p1 mbarrier.inval.shared.b64 [bar];" + "bar.sync 0;"
            "mbarrier.arrive.shared.b64 _, [bar];",
            UNINIT,
        ),
    ],
)
def test_faults(body: str, error: int) -> None:
    prefix = "setp.eq.u32 %p1, %r0, 0;" if not body.startswith("setp") else ""
    result = Case(prefix + body, declare=DECLARE).faulty("mbarrier")
    assert {f.info for f in result.faults} == {error}
    assert result.status == "done"


def test_misaligned_and_outside() -> None:
    Case("mbarrier.init.shared.b64 [bar+4], 1;", declare=DECLARE).faulty(
        "smem-misaligned"
    )
    Case("mbarrier.init.shared.b64 [bar+512], 1;", declare=DECLARE).faulty("smem-oob")
    Case("mbarrier.init.b64 [%rd0], 1;", declare=DECLARE).faulty("illegal")


def test_remote_wait_is_refused() -> None:
    body = """mov.u32 %r5, bar; xor.b32 %r5, %r5, 0x01000000;
    mbarrier.test_wait.parity.shared.b64 %p2, [%r5], 1;
    barrier.cluster.arrive; barrier.cluster.wait;"""
    result = Case(body, declare=DECLARE, grid=2, cluster=2).faulty("mbarrier")
    assert result.faults[0].info == 10


def test_deadlock_names_barrier_and_phase() -> None:
    result = Case(INIT_1 + _wait(0, 0), declare=DECLARE).run()
    assert result.status == "deadlock"
    assert (result.waiting[0].kind, result.waiting[0].info) == ("mbarrier", 0)
    assert result.waiting[0].address == 1024


def test_try_wait_may_time_out() -> None:
    """A wait whose false answer leads elsewhere does not hang."""
    body = f"""{INIT_1} mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
    selp.u32 %r5, 7, 8, %p2; st.global.u32 [%rd0], %r5;"""
    out = np.zeros(1, np.uint32)
    Case(body, declare=DECLARE).clean(out)
    assert out[0] == 8


def test_divergent_lanes_wait_at_two_barriers() -> None:
    """Half a warp waits for what the other half does after its own wait."""
    out = np.zeros(32, np.uint32)
    body = """setp.eq.u32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared.b64 [bar], 16; @%p1 mbarrier.init.shared.b64 [bar+8], 1;
    bar.sync 0; setp.lt.u32 %p3, %r0, 16; @%p3 bra low;
    a: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra a;
    mov.u32 %r5, 1; bra join;
    low: mov.u32 %r5, 2; @%p1 mbarrier.arrive.shared.b64 _, [bar+8];
    b: mbarrier.try_wait.parity.shared.b64 %p2, [bar+8], 0; @!%p2 bra b;
    mbarrier.arrive.shared.b64 _, [bar];
    join: mul.wide.u32 %rd4, %r0, 4; add.s64 %rd4, %rd4, %rd0;
    st.global.u32 [%rd4], %r5;"""
    Case(body, declare=DECLARE).clean(out)
    np.testing.assert_array_equal(out, [2] * 16 + [1] * 16)
