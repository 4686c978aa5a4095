"""Programmatic dependent launch: who may start, who waits, and what can be seen.

PTX ISA, "griddepcontrol".
"""

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_case import GLOBAL, SPACING

from sidestream.harness.exec import abi
from sidestream.harness.exec.build import load
from sidestream.harness.exec.machine import Options, execute
from sidestream.harness.exec.overlap import Work, execute_overlapped, fit_together
from sidestream.harness.exec.program import lower
from sidestream.harness.launch import Launch
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.parser import parse

SIGNAL, CANCEL, PREREQUISITE, WAIT = range(4)
GO = "griddepcontrol.launch_dependents;\n"
HOLD = "griddepcontrol.wait;\n"
WORDS = 64


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 6),
    st.lists(st.tuples(st.sampled_from(range(4)), st.integers(0, 5)), max_size=30),
)
def test_dependents_may_start_when_no_cta_is_left_that_forbids_it(ctas, events):
    function = load().lib.ss_grid_step
    function.restype = ctypes.c_uint32
    function.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32]
    state = np.array([ctas, 0, 0], np.uint32)
    forbid, pending = set(range(ctas)), False
    for op, number in events:
        cta = number % ctas
        if op == SIGNAL:
            value = function(state.ctypes.data, op, int(cta not in forbid))
            forbid.discard(cta)
        elif op == CANCEL:
            if cta not in forbid:
                continue
            value = function(state.ctypes.data, op, 1)
            forbid.discard(cta)
        elif op == PREREQUISITE:
            pending = bool(number % 2)
            value = function(state.ctypes.data, op, int(pending))
        else:
            assert function(state.ctypes.data, op, 0) == pending
            continue
        assert value == (not forbid)


def work(
    body, *, grid=1, threads=32, smem=1024, cluster=1, words=WORDS, target="sm_100a"
):
    """A kernel on buffers `%g0` and `%g1`; `%t` is the thread of the grid."""
    text = f"""
.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 g0, .param .u64 g1)
{{
.reg .pred %p<4>;
.reg .b32 %r<12>, %t, %cta, %tid, %bar, %s;
.reg .b64 %g0, %g1, %x<4>, %w<4>;
.reg .b128 %h;
.shared .align 128 .b8 tile[{smem}];
.shared .b64 bars[2];
ld.param.u64 %g0, [g0];
ld.param.u64 %g1, [g1];
mov.u32 %tid, %tid.x;
mov.u32 %cta, %ctaid.x;
mad.lo.u32 %t, %cta, {threads}, %tid;
mov.u32 %s, tile;
mov.u32 %bar, bars;
mov.u32 %r9, 0;
{body}
ret;
}}
"""
    params = tuple((GLOBAL + k * SPACING).to_bytes(8, "little") for k in range(2))
    launch = Launch(
        kernel="k",
        ptx=text,
        grid=(grid, 1, 1),
        block=(threads, 1, 1),
        cluster=(cluster, 1, 1),
        params=params,
        pdl=True,
    )
    program = lower(decode(parse(text)))
    assert not program.unsupported, program.unsupported
    return Work(program=program, launch=launch)


def run(*works, seed=0, sms=4, **options):
    """Buffers of `WORDS` words after the launches, and their results."""
    buffers = [np.zeros(WORDS, np.uint32) for _ in range(2)]
    table = np.zeros(2, abi.ALLOC_DTYPE)
    for k, buffer in enumerate(buffers):
        flags = abi.ALLOC_READ | abi.ALLOC_WRITE
        at = GLOBAL + k * SPACING
        table[k] = (at, buffer.nbytes, buffer.ctypes.data, 0, k, flags)
    given_ = Options(seed=seed, sms=sms, **({"budget": 500_000} | options))
    results = execute_overlapped(works, table, given_)
    return buffers, results


def statuses(results):
    return [r.status for r in results]


def spin(label, count=800):
    return (
        f"mov.u32 %r9, 0;\n{label}: add.u32 %r9, %r9, 1;\n"
        f"setp.lt.u32 %p3, %r9, {count};\n@%p3 bra {label};\n"
    )


AT = "mul.wide.u32 %x0, %t, 4;\nadd.u64 %x1, %g0, %x0;\nadd.u64 %x2, %g1, %x0;\n"
MAKE = AT + "add.u32 %r0, %t, 1000;\nst.global.u32 [%x1], %r0;\n"
TAKE = AT + "ld.global.u32 %r0, [%x1];\nst.global.u32 [%x2], %r0;\n"
SEEDS = range(1, 17)
DATA = np.arange(WORDS) + 1000


def test_alone_or_in_order_nothing_waits():
    (_, taken), results = run(work(HOLD + MAKE + GO, grid=2), work(HOLD + TAKE, grid=2))
    assert statuses(results) == ["done", "done"]
    assert (taken == DATA).all()
    (made, _), results = run(work(HOLD + MAKE, grid=2), seed=5)
    assert statuses(results) == ["done"]
    assert (made == DATA).all()


def test_a_dependent_that_waits_sees_everything():
    primary = work(GO + spin("SPIN") + MAKE, grid=2)
    dependent = work(HOLD + TAKE, grid=2)
    for seed in SEEDS:
        (_, taken), results = run(primary, dependent, seed=seed)
        assert statuses(results) == ["done", "done"]
        assert (taken == DATA).all()


def test_a_dependent_that_does_not_wait_can_see_stale_data():
    primary = work(GO + spin("SPIN") + MAKE, grid=2)
    dependent = work(TAKE, grid=2)
    stale = fresh = 0
    for seed in SEEDS:
        (made, taken), results = run(primary, dependent, seed=seed)
        assert statuses(results) == ["done", "done"]
        assert (made == DATA).all()
        assert np.isin(taken, (0, *DATA)).all()
        stale += bool((taken == 0).any())
        fresh += bool((taken == DATA).all())
    assert stale > 2
    assert fresh > 2


@pytest.mark.parametrize(
    "primary",
    [
        spin("SPIN") + MAKE,  # no signal: it counts when the CTA is over
        # only one of two CTAs signals early, and does so again and again
        "setp.ne.u32 %p0, %cta, 0;\n@%p0 bra LATE;\n" + GO * 3 + "LATE:\n"
        + spin("SPIN") + MAKE + "bar.sync 0;\n" + GO,
        # a thread of each CTA signals, but after its data
        spin("SPIN") + MAKE + "bar.sync 0;\nsetp.ne.u32 %p0, %tid, 7;\n@%p0 bra ON;\n"
        + GO + "ON:\n",
    ],
)  # fmt: skip
def test_no_dependent_starts_before_every_cta_lets_it(primary):
    # The first kernel's late CTAs write the upper half, so that is what must be there.
    first = work(primary, grid=2)
    for seed in SEEDS:
        (_, taken), results = run(first, work(TAKE, grid=2), seed=seed)
        assert statuses(results) == ["done", "done"]
        assert (taken[32:] == DATA[32:]).all()


def test_threads_wait_for_copies_that_the_primary_left_in_flight():
    # The CTA ends while its bulk store is still on its way.
    primary = work(
        "mul.lo.u32 %r0, %tid, 4;\nadd.u32 %r0, %s, %r0;\nadd.u32 %r1, %tid, 1000;\n"
        "st.shared.u32 [%r0], %r1;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n"
        + GO
        + "setp.ne.u32 %p0, %tid, 0;\n@%p0 bra OUT;\n"
        "cp.async.bulk.global.shared::cta.bulk_group [%g0], [%s], 256;\n"
        "cp.async.bulk.commit_group;\nOUT:\n",
        threads=64,
    )
    for seed in SEEDS:
        (_, taken), results = run(primary, work(HOLD + TAKE, grid=2), seed=seed)
        assert statuses(results) == ["done", "done"]
        assert (taken == DATA).all()


def test_a_chain_waits_for_all_before_it():
    # The middle launch neither waits nor writes: the last one still sees the first's.
    first = work(GO + spin("SPIN", 2000) + MAKE, grid=2)
    for seed in SEEDS:
        (_, taken), results = run(first, work(GO), work(HOLD + TAKE, grid=2), seed=seed)
        assert statuses(results) == ["done"] * 3
        assert (taken == DATA).all()


def test_clusters_that_were_cancelled_do_not_hold_dependents_back():
    # One slot and four CTAs: those that are not cancelled signal, the others never run.
    steal = (
        GO + "setp.ne.u32 %p0, %tid, 0;\n@%p0 bra OUT;\n"
        "mbarrier.init.shared.b64 [%bar], 1;\nmov.u32 %r5, 0;\nMORE:\n"
        "mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 16;\n"
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
        ".b128 [%s], [%bar];\n"
        "WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%bar], %r5;\n@!%p1 bra WAIT;\n"
        "xor.b32 %r5, %r5, 1;\nld.shared.v2.b64 {%w0, %w1}, [%s];\n"
        "mov.b128 %h, {%w0, %w1};\n"
        "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %h;\n"
        "@%p2 bra MORE;\n" + spin("SPIN", 3000) + "st.global.u32 [%g0], 5;\nOUT:\n"
    )
    early = 0
    for seed in range(1, 13):
        (_, taken), results = run(
            work(steal, grid=4), work(TAKE), seed=seed, sms=1, max_smem=1 << 16
        )
        assert statuses(results) == ["done", "done"]
        early += int(taken[0] == 0)
    assert early > 1


def test_slots_are_shared_where_ctas_do_not_fit_side_by_side():
    # Each CTA of both launches takes a ticket; at most `sms` may hold one at a time.
    hold = (
        "setp.ne.u32 %p0, %tid, 0;\n@%p0 bra OUT;\n"
        "atom.global.add.u32 %r0, [%g0], 1;\natom.global.max.u32 %r1, [%g0+4], %r0;\n"
        + spin("SPIN", 300)
        + "red.global.add.u32 [%g0], -1;\nOUT:\n"
    )
    options = Options(max_smem=100_000)
    big = [work(GO + hold, grid=6, smem=60_000), work(hold, grid=6, smem=60_000)]
    small = [work(GO + hold, grid=6), work(hold, grid=6)]
    assert not fit_together(big, options)
    assert fit_together(small, options)
    most = {"big": 0, "small": 0}
    for seed in SEEDS:
        for name, works in (("big", big), ("small", small)):
            (seen, _), results = run(*works, seed=seed, sms=2, max_smem=100_000)
            assert statuses(results) == ["done", "done"]
            assert seen[0] == 0
            most[name] = max(most[name], int(seen[1]) + 1)
    assert most["big"] == 2
    assert most["small"] > 2


@pytest.mark.parametrize(
    ("change", "fits"),
    [
        ({}, True),
        ({"threads": 1024}, True),
        ({"threads": 1025}, False),
        ({"smem": 99_000}, False),
    ],
)
def test_what_fits_side_by_side(change, fits):
    fixed = work("", threads=1024, smem=20_000)
    other = work("", **({"smem": 20_000} | change))
    assert fit_together([fixed, other], Options(max_smem=100_000)) == fits


@pytest.mark.parametrize("seed", [0, 3, 4])
@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("trap;\n", "trap"),
        ("STUCK: bra STUCK;\n", "budget"),
        ("mbarrier.init.shared.b64 [%bar], 1;\nW: mbarrier.try_wait.parity.shared.b64 "
         "%p0, [%bar], 0;\n@!%p0 bra W;\n", "deadlock"),
    ],
)  # fmt: skip
def test_what_follows_a_failed_launch_is_not_judged(end, status, seed):
    first = work(GO + spin("SPIN", 30) + end, threads=1)
    works = [first, work(HOLD + TAKE), work(TAKE)]
    (_, taken), results = run(*works, seed=seed, budget=50_000)
    assert results[0].status == status
    assert results[1].status == "prerequisite"
    assert results[2].status == "prerequisite"
    assert not taken.any()


@pytest.mark.parametrize("seed", [0, 3])
def test_a_deadlock_with_more_ctas_than_slots_is_told(seed):
    stuck = (
        "mbarrier.init.shared.b64 [%bar], 1;\nW: mbarrier.try_wait.parity.shared.b64 "
        "%p0, [%bar], 0;\n@!%p0 bra W;\n"
    )
    launch = work(stuck, grid=9, threads=1)
    for count in (1, 2):
        _, results = run(*[launch] * count, seed=seed, deadline=20.0)
        assert results[0].status == "deadlock"


def test_a_dependent_that_fails_does_not_stop_what_came_before():
    primary = work(GO + spin("SPIN", 5000) + MAKE, grid=2)
    for seed in range(1, 6):
        (made, _), results = run(primary, work("trap;\n"), seed=seed)
        assert statuses(results) == ["done", "trap"]
        assert (made == DATA).all()


def test_a_deadline_ends_all_of_them():
    stuck = work(GO + "STUCK: bra STUCK;\n")
    _, results = run(stuck, work(HOLD + TAKE), seed=2, budget=10**12, deadline=0.05)
    assert results[0].status == "deadline"
    assert results[1].status in ("deadline", "prerequisite")


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 2**63 - 1))
def test_every_seed_ends_and_repeats(seed):
    works = [work(GO + spin("SPIN", 100) + MAKE, grid=2), work(TAKE, grid=2)]
    first, results = run(*works, seed=seed)
    again, repeated = run(*works, seed=seed)
    assert statuses(results) == ["done", "done"]
    assert (first[1] == again[1]).all()
    assert [r.warp_instructions for r in results] == [
        r.warp_instructions for r in repeated
    ]
    single = execute(works[0].program, works[0].launch, table_of(first), Options())
    assert single.status == "done"


def table_of(buffers):
    table = np.zeros(2, abi.ALLOC_DTYPE)
    for k, buffer in enumerate(buffers):
        flags = abi.ALLOC_READ | abi.ALLOC_WRITE
        at = GLOBAL + k * SPACING
        table[k] = (at, buffer.nbytes, buffer.ctypes.data, 0, k, flags)
    return table
