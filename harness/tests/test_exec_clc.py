"""Cluster launch control: the step function, work stealing, and what is undefined.

PTX ISA, "clusterlaunchcontrol.try_cancel", "clusterlaunchcontrol.query_cancel".
"""

import ctypes
import math

import numpy as np
import pytest
from cluster_case import RANK, SYNC, barriers, expect, wait
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_case import Kernel

from sidestream.harness.exec.build import load
from sidestream.harness.exec.machine import Options

LAUNCH, ISSUE, DECIDE, OBSERVE = range(4)
TRY = "clusterlaunchcontrol.try_cancel.async{}.mbarrier::complete_tx::bytes{}.b128"
OWN, ALL = ".shared::cta", ".multicast::cluster::all"
QUERY = "clusterlaunchcontrol.query_cancel"
STOLEN = 1 << 16


def step(state, op, arg=0):
    """One step in place: the value and the error."""
    function = load().lib.ss_clc_step
    function.restype = ctypes.c_uint64
    function.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32]
    both = function(state.ctypes.data, op, arg)
    return both & 0xFFFFFFFF, both >> 32


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 12),
    st.lists(st.tuples(st.sampled_from((LAUNCH, DECIDE)), st.booleans()), max_size=30),
)
def test_every_cluster_is_launched_or_granted_once_and_in_order(clusters, events):
    given_out = []
    closed = False
    for op, refuse in events:
        left = len(given_out) < clusters
        state = np.array([len(given_out), clusters, closed, 0], np.uint32)
        value, error = step(state, op, int(refuse))
        granted = left and (op == LAUNCH or not (refuse or closed))
        assert error == 0
        assert value == (len(given_out) + 1 if granted else 0)
        if granted:
            given_out.append(value - 1)
        elif op == DECIDE:
            closed = True
        assert list(state) == [len(given_out), clusters, closed, 0]
    assert given_out == list(range(len(given_out)))


@pytest.mark.parametrize("answers", [[1, 1, 0], [0], [0, 1], []])
def test_a_cta_that_has_seen_a_failure_may_not_ask_again(answers):
    state = np.array([0, 9, 0, 0], np.uint32)
    for answer in answers:
        step(state, OBSERVE, answer)
    assert step(state, ISSUE) == (0, int(0 in answers))


def worker(multicast):
    """Work as in the example of the PTX ISA, for any grid: count what was done.

    `%g0` has a 32-bit counter for every CTA of the grid; work taken from a cluster
    that was not launched counts `STOLEN`.
    """
    axes = "xyz"
    first = "".join(
        f"mov.u32 %o{a}, %cluster_ctaid.{a};\nmov.u32 %c{a}, %ctaid.{a};\n"
        f"sub.u32 %c{a}, %c{a}, %o{a};\nmov.u32 %n{a}, %nctaid.{a};\n"
        for a in axes
    )
    return (
        RANK
        + ".reg .b32 %c<4>, %cx, %cy, %cz, %ox, %oy, %oz, %nx, %ny, %nz, %one, %ph;\n"
        ".reg .b64 %w<4>;\n.reg .b128 %h;\n.reg .pred %q;\n"
        + barriers(1)
        + first
        + "mov.u32 %one, 1;\nmov.u32 %ph, 0;\n"
        + "setp.eq.u32 %p0, %t, 0;\nsetp.eq.and.u32 %p1, %rank, 0, %p0;\n"
        + ("" if multicast else "mov.pred %p1, %p0;\n")
        + "LOOP:\n@!%p0 bra BUSY;\n"
        + expect(0, 16)
        + f"@%p1 {TRY.format(OWN, multicast)} [%s], [%bar];\n"
        + "add.u32 %c0, %cz, %oz;\nmul.lo.u32 %c0, %c0, %ny;\n"
        "add.u32 %c0, %c0, %cy;\nadd.u32 %c0, %c0, %oy;\nmul.lo.u32 %c0, %c0, %nx;\n"
        "add.u32 %c0, %c0, %cx;\nadd.u32 %c0, %c0, %ox;\nmul.wide.u32 %w0, %c0, 4;\n"
        "add.u64 %w0, %w0, %g0;\nred.global.add.u32 [%w0], %one;\n"
        "BUSY:\n"
        + wait(0, "%ph", "WAIT")
        + "ld.shared.v2.b64 {%w1, %w2}, [%s];\nmov.b128 %h, {%w1, %w2};\n"
        f"{QUERY}.is_canceled.pred.b128 %q, %h;\n@!%q bra DONE;\n"
        f"{QUERY}.get_first_ctaid.v4.b32.b128 {{%cx, %cy, %cz, _}}, %h;\n"
        f"xor.b32 %ph, %ph, 1;\nmov.u32 %one, {STOLEN};\n"
        "fence.proxy.async.shared::cta;\n" + SYNC + "bra LOOP;\nDONE:\n"
    )


def work(grid, cluster=1, multicast=ALL, *, seed=0, sms=4):
    ran = Kernel(
        body=worker(multicast),
        buffers=[np.zeros(4 * math.prod(grid), np.uint8)],
        grid=grid,
        cluster=cluster,
        target="sm_100a",
        options=Options(seed=seed, sms=sms, budget=1_000_000),
    ).run()
    assert not ran.program.unsupported
    assert ran.result.status == "done", ran.result
    assert not ran.result.faults, ran.result.faults
    return ran.buffers[0].view(np.uint32)


@pytest.mark.parametrize(
    ("grid", "cluster"),
    [
        ((23, 1, 1), 1),
        ((3, 5, 2), 1),
        ((8, 3, 2), 2),
        ((4, 4, 3), (2, 2, 1)),
        ((2, 4, 4), (1, 2, 2)),
        ((16, 3, 1), 16),
    ],
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_all_work_is_done_exactly_once(grid, cluster, seed):
    done = work(grid, cluster, seed=seed)
    assert np.isin(done, (1, STOLEN)).all(), done
    size = math.prod(cluster) if isinstance(cluster, tuple) else cluster
    if seed == 0:  # what fits starts, the rest is taken
        assert (done == 1).sum() == max(4 // size, 1) * size


def test_seeds_decide_what_is_launched_and_what_is_taken():
    taken = {int((work((20, 1, 1), seed=s) == STOLEN).sum()) for s in range(1, 25)}
    # Between `all that does not fit at first` and `less, since requests are refused`.
    assert max(taken) >= 16
    assert min(taken) < 12
    assert len(taken) > 5


def test_a_lone_cta_may_ask_without_multicast():
    done = work((9, 1, 1), multicast="", seed=3)
    assert np.isin(done, (1, STOLEN)).all()


def test_the_words_of_a_response_lie_where_packages_look_for_them():
    """The ISA calls it opaque; cuDNN frontend takes x, y | z << 16 and bit 64."""
    body = (
        ".reg .b128 %h;\n.reg .b64 %w<6>;\n.reg .b32 %v<4>;\n.reg .pred %q<2>;\n"
        ".reg .b32 %cx, %cy, %cz, %y;\n"
        + RANK
        + barriers(1)
        + "setp.eq.u32 %p0, %t, 0;\n@!%p0 bra DONE;\n"
        + expect(0, 16)
        + ask()
        + "mov.u32 %v0, 0;\n"
        + wait(0, "%v0", "WAIT")
        + "ld.shared.v2.b64 {%w1, %w2}, [%s];\nmov.b128 %h, {%w1, %w2};\n"
        f"{QUERY}.is_canceled.pred.b128 %q0, %h;\n@!%q0 bra DONE;\n"
        f"{QUERY}.get_first_ctaid.v4.b32.b128 {{%cx, %cy, %cz, _}}, %h;\n"
        "ld.shared.v4.b32 {%v0, %v1, %v2, %v3}, [%s];\n"
        "shl.b32 %y, %cz, 16;\nor.b32 %y, %y, %cy;\nand.b32 %v2, %v2, 1;\n"
        "sub.u32 %v0, %v0, %cx;\nsub.u32 %v1, %v1, %y;\n"
        "mad.lo.u32 %cz, %cz, 5, %cy;\nmad.lo.u32 %cz, %cz, 3, %cx;\n"
        "mul.wide.u32 %w0, %cz, 16;\nadd.u64 %w0, %w0, %g0;\n"
        "st.global.v4.b32 [%w0], {%v0, %v1, %v2, %v2};\nDONE:\n"
    )
    ran = Kernel(
        body=body,
        buffers=[np.full(16 * 30, 255, np.uint8)],
        grid=(3, 5, 2),
        target="sm_100a",
        options=Options(sms=4, budget=1_000_000),
    ).run()
    assert not ran.result.faults, ran.result.faults
    rows = ran.buffers[0].view(np.uint32).reshape(30, 4)
    taken = rows[rows[:, 2] != 0xFFFFFFFF]
    assert len(taken) >= 10
    assert (taken == (0, 0, 1, 1)).all(), taken


def one_thread(statements, *, declare="", grid=1, cluster=1, seed=0, threads=1):
    """Run statements by thread 0 of each CTA after its mbarrier `[%bar]` is made."""
    ran = Kernel(
        body=".reg .b128 %h;\n.reg .b64 %w<6>;\n.reg .pred %q<4>;\n"
        + RANK
        + declare
        + barriers(1)
        + expect(0, 16)
        + statements,
        buffers=[np.zeros(64, np.uint8)],
        threads=threads,
        grid=grid,
        cluster=cluster,
        target="sm_100a",
        options=Options(seed=seed, sms=grid, budget=50_000),
    ).run()
    assert not ran.program.unsupported, ran.program.unsupported
    return ran.buffers[0].view(np.uint32), ran.result


def ask(space=OWN, multicast="", at="[%s]", bar="[%bar]"):
    return f"{TRY.format(space, multicast)} {at}, {bar};\n"


ANSWER = wait(0, 0, "WAIT") + "ld.shared.v2.b64 {%w1, %w2}, [%s];\n"
ANSWER += "mov.b128 %h, {%w1, %w2};\n"
CANCELED = QUERY + ".is_canceled.pred.b128 %q0, %h;\n"
FIRST = QUERY + ".get_first_ctaid::x.b32.b128 %n, %h;\n"
STORE = "st.global.u32 [%g0], %r7;\n"


@pytest.mark.parametrize("axis", "xyz")
@pytest.mark.parametrize("space", [OWN, ""])
def test_single_coordinates_and_generic_addresses(axis, space):
    # A grid of 2 x 3 x 5 clusters on one slot: the first request takes the second one.
    generic = "cvta.shared.u64 %w4, %w4;\ncvta.shared.u64 %w5, %w5;\n"
    request = ask() if space else generic + ask("", at="[%w4]", bar="[%w5]")
    ran = Kernel(
        body=".reg .b128 %h;\n.reg .b64 %w<6>;\n.reg .pred %q<4>;\n.reg .b32 %k<4>;\n"
        + RANK
        + barriers(1)
        + "mov.u32 %k0, %ctaid.x;\nmov.u32 %k1, %ctaid.y;\nmov.u32 %k2, %ctaid.z;\n"
        "or.b32 %k0, %k0, %k1;\nor.b32 %k0, %k0, %k2;\nsetp.ne.u32 %q1, %k0, 0;\n"
        "@%q1 bra OUT;\n"
        + expect(0, 16)
        + "cvt.u64.u32 %w4, %s;\ncvt.u64.u32 %w5, %bar;\n"
        + request
        + ANSWER
        + CANCELED
        + f"@%q0 {QUERY}.get_first_ctaid::{axis}.b32.b128 %n, %h;\n"
        "selp.u32 %k3, 1, 0, %q0;\nst.global.v2.u32 [%g0], {%n, %k3};\nOUT:\n",
        buffers=[np.zeros(64, np.uint8)],
        threads=1,
        grid=(2, 3, 5),
        target="sm_100a",
        options=Options(sms=2),
    ).run()
    assert not ran.program.unsupported, ran.program.unsupported
    assert not ran.result.faults
    # two start: (0, 0, 0) and (1, 0, 0); the next is (0, 1, 0)
    got = ran.buffers[0].view(np.uint32)
    assert (got[0], got[1]) == ({"x": 0, "y": 1, "z": 0}[axis], 1)


def test_the_response_comes_later():
    at_once = set()
    for seed in range(12):
        got, result = one_thread(
            ask()
            + "mbarrier.test_wait.parity.shared.b64 %q1, [%bar], 0;\n"
            + "selp.u32 %r7, 2, 1, %q1;\n"
            + STORE
            + wait(0, 0, "WAIT"),
            seed=seed,
        )
        assert result.status == "done"
        assert not result.faults
        at_once.add(int(got[0]))
    assert 1 in at_once


def faults(result):
    return [(f.kind, f.info) for f in result.faults]


def test_asking_after_an_observed_failure():
    again = expect(0, 16) + ask() + wait(0, 1, "AGAIN")
    _, result = one_thread(ask() + ANSWER + CANCELED + again)
    assert faults(result)[0] == ("clc", 1)
    _, result = one_thread(ask() + ANSWER + again)  # nobody has looked
    assert faults(result) == []
    assert result.status == "done"


KEPT = "selp.b32 %r7, %n, 7, {};\n"


@pytest.mark.parametrize(
    ("statements", "used"),
    [
        (CANCELED + FIRST + "mov.u32 %r7, %n;\n", True),
        (CANCELED + FIRST + KEPT.format("%q0"), False),
        (FIRST + CANCELED + KEPT.format("%q0"), False),
        (CANCELED + "@%q0 " + FIRST + "mov.u32 %r7, 7;\n", False),
        (CANCELED + FIRST + "mov.u32 %r7, 7;\n@%q0 mov.u32 %r7, %n;\n", False),
        (CANCELED + FIRST + "mov.u32 %r7, 7;\n@!%q0 mov.u32 %r7, %n;\n", True),
        (CANCELED + FIRST + "selp.b32 %r7, 7, %n, %q0;\n", True),
        (CANCELED + FIRST + "not.pred %q1, %q0;\n" + KEPT.format("%q1"), True),
        (CANCELED + FIRST + KEPT.format("%q0") + "add.u32 %r6, %n, 1;\n", True),
        # the predicate may speak of another response
        (".reg .b128 %h1;\nmov.b64 %w3, %w1;\nmov.b128 %h1, {%w3, %w2};\n"
         + CANCELED.replace("%h", "%h1") + FIRST + KEPT.format("%q0"), True),
        (CANCELED + "mov.b128 %h, {%w2, %w1};\nmov.b128 %h, {%w1, %w2};\n" + FIRST
         + KEPT.format("%q0"), True),
        (CANCELED + "mov.b64 %w1, %w1;\n" + FIRST + KEPT.format("%q0"), True),
        (CANCELED + "bra ON;\nON:\n" + FIRST + KEPT.format("%q0"), True),
        (CANCELED + FIRST + "setp.eq.u32 %q0, %t, 5;\n" + KEPT.format("%q0"), True),
        # the id may be that of an earlier response
        (CANCELED + "ON:\n" + FIRST + KEPT.format("%q0") + "setp.ne.u32 %q1, 1, 1;\n"
         "@%q1 bra ON;\n", True),
        ("setp.ne.u32 %q1, 1, 1;\n" + CANCELED + "@%q1 bra ON;\n" + FIRST + "ON:\n"
         + KEPT.format("%q0"), True),
    ],
)  # fmt: skip
def test_the_id_of_a_failed_response_must_not_be_used(statements, used):
    got, result = one_thread(ask() + ANSWER + statements + STORE)
    assert faults(result) == ([("clc", 2)] if used else [])
    assert result.status == "done"
    if not used:
        assert got[0] == 7


def test_a_response_must_have_been_written():
    for query in (CANCELED, FIRST):
        _, result = one_thread("mov.b64 %w1, 5;\nmov.b128 %h, {%w1, %w1};\n" + query)
        assert ("clc", 3) in faults(result)


@pytest.mark.parametrize(
    ("space", "at", "bar", "want"),
    [
        (OWN, "[%to]", "[%bar]", ("clc", 4)),
        (OWN, "[%s]", "[%there]", ("clc", 4)),
        (OWN, "[%s+1048576]", "[%bar]", ("clc", 4)),
        (OWN, "[%s+8]", "[%bar]", ("clc", 5)),
        (OWN, "[%s]", "[%bar+4]", ("clc", 5)),
        ("", "[%g0]", "[%w5]", ("illegal", 0)),
        ("", "[%w5]", "[%g0]", ("illegal", 0)),
    ],
)
def test_operands_must_be_the_ctas_own(space, at, bar, want):
    _, result = one_thread(
        "setp.ne.u32 %q1, %rank, 0;\n@%q1 bra OUT;\n"
        "mapa.shared::cluster.u32 %to, %s, 1;\n"
        "mapa.shared::cluster.u32 %there, %bar, 1;\n"
        "cvt.u64.u32 %w5, %s;\ncvta.shared.u64 %w5, %w5;\n"
        + ask(space, at=at, bar=bar)
        + "OUT:\n"
        + SYNC,
        grid=2,
        cluster=2,
    )
    assert faults(result) == [want]


def test_a_cta_must_not_exit_before_the_response():
    _, result = one_thread(ask())
    assert faults(result) == [("clc", 6)]
    leave = "setp.ne.u32 %q1, %rank, 0;\n@%q1 bra OUT;\n"
    _, result = one_thread(
        leave
        + "SPIN: add.u32 %n, %n, 1;\nsetp.lt.u32 %q2, %n, 2000;\n@%q2 bra SPIN;\n"
        + ask(multicast=ALL)
        + wait(0, 0, "WAIT")
        + "OUT:\n",
        declare="mov.u32 %n, 0;\n",
        grid=2,
        cluster=2,
    )
    assert faults(result) == [("clc", 6)]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1))
def test_no_operands_can_do_harm(low, high, address):
    _, result = one_thread(
        f"mov.b64 %w1, {low};\nmov.b64 %w2, {high};\nmov.b128 %h, {{%w1, %w2}};\n"
        + CANCELED
        + FIRST
        + f"mov.u32 %to, {address};\n"
        + ask(at="[%to]", bar="[%to+16]")
    )
    assert result.status == "done"
