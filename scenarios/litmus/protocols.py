"""Broken protocols, told as such whatever the order of the run: barriers, registers."""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import bulk_load, expect, lead, wait
from sidestream.scenarios.litmus.twin import Twin, fault

_MBAR = "Parallel Synchronization and Communication Instructions: mbarrier"
_NAMED = "Parallel Synchronization and Communication Instructions: bar, barrier"
_CLUSTER = "Parallel Synchronization and Communication Instructions: barrier.cluster"
_WARP = "Parallel Synchronization and Communication Instructions: bar.warp.sync"
_NREG = "Miscellaneous Instructions: setmaxnreg"
_BULK = "Data Movement and Conversion Instructions: cp.async.bulk"
_TRY = "mbarrier.try_wait.parity.shared::cta.b64"
_ARRIVE = "mbarrier.arrive.shared.b64"
_INIT = "mbarrier.init.shared.b64"
_IN = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
_OUT = "cp.async.bulk.global.shared::cta.bulk_group"


def _mbarrier(name: str, rule: str, body: str, op: str, broken: str, site: str) -> Twin:
    """One thread, alone with an mbarrier of its own."""
    return Twin(
        name=name,
        rule=rule,
        title=_MBAR,
        warps=(lead(body),),
        op=op,
        broken=broken,
        found=fault("mbarrier", "mbarrier.state", site),
    )


def _named(name: str, body: tuple[str, ...], op: str, broken: str, site: str) -> Twin:
    """Warps at a named barrier."""
    return Twin(
        name=name,
        rule="B1",
        title=_NAMED,
        warps=body,
        op=op,
        broken=broken,
        found=fault("barrier", "barrier.cta", site),
    )


_MAKE = "mbarrier.init.shared.b64 [%bar], 2;\n"
_COME = "mbarrier.arrive.shared.b64 _, [%bar]{};\n"

TWINS = (
    _mbarrier(
        "arrival_before_the_initialisation",
        "M8",
        "<op>" + _COME.format(""),
        _MAKE,
        "",
        _ARRIVE,
    ),
    _mbarrier("wait_before_the_initialisation", "M8", "<op>", _MAKE, wait(1), _TRY),
    _mbarrier(
        "initialisation_of_a_live_barrier",
        "M8",
        _MAKE + "<op>" + _MAKE,
        "mbarrier.inval.shared.b64 [%bar];\n",
        "",
        _INIT,
    ),
    _mbarrier(
        "use_after_the_end",
        "M8",
        _MAKE + "<op>" + _COME.format(""),
        "",
        "mbarrier.inval.shared.b64 [%bar];\n",
        _ARRIVE,
    ),
    _mbarrier(
        "more_arrivals_than_a_phase_has",
        "M3",
        _MAKE + _COME.format(", <op>"),
        "2",
        "3",
        _ARRIVE,
    ),
    _mbarrier(
        "count_of_zero",
        "M1",
        "mov.u32 %r1, <op>;\nmbarrier.init.shared.b64 [%bar], %r1;\n",
        "1",
        "0",
        _INIT,
    ),
    _mbarrier(
        "word_of_a_live_barrier_is_overwritten",
        "M8",
        _MAKE + "st.shared.b64 [%bar+<op>], 0;\n" + _COME.format(""),
        "8",
        "0",
        _ARRIVE,
    ),
    _mbarrier(
        "phase_that_may_not_complete",
        "M3",
        _MAKE + "mbarrier.arrive.noComplete.shared.b64 %rd1, [%bar], <op>;\n",
        "1",
        "2",
        "mbarrier.arrive.noComplete.shared.b64",
    ),
    _mbarrier(
        "parity_of_two",
        "M4",
        _MAKE
        + "mov.u32 %r1, <op>;\n"
        + "mbarrier.test_wait.parity.shared.b64 %p1, [%bar], %r1;\n",
        "1",
        "2",
        "mbarrier.test_wait.parity.shared.b64",
    ),
    Twin(
        name="phase_without_its_last_arrival",
        rule="M2",
        title=_MBAR,
        warps=(lead("<op>" + _COME.format("")), wait()),
        bars=(2,),
        op=_COME.format(""),
        found=fault("deadlock", "progress", _TRY),
        finishes=False,
    ),
    Twin(
        name="parity_lap",
        rule="M4",
        title=_MBAR,
        warps=(
            lead(_COME.format("") + wait(0) + _COME.format("") + wait(1))
            + "bar.sync 1, 64;\n",
            "bar.sync 1, 64;\n" + wait("<op>"),  # type: ignore[arg-type]
        ),
        bars=(1,),
        op="1",
        broken="0",
        found=fault("deadlock", "progress", _TRY),
        finishes=False,
    ),
    Twin(
        name="bytes_that_no_copy_brings",
        rule="M2",
        title=_MBAR,
        warps=(lead(expect(256) + "<op>") + wait(),),
        bars=(1,),
        op=bulk_load(),
        found=fault("deadlock", "progress", _TRY),
        finishes=False,
    ),
    Twin(
        name="copy_of_an_odd_size",
        rule="P3",
        title=_BULK,
        warps=(
            lead("mov.u32 %r1, <op>;\n" + _OUT + " [%g], [%x], %r1;\n")
            + "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n",
        ),
        op="16",
        broken="24",
        found=fault("misaligned", "bulk.size", _OUT),
    ),
    _named(
        "one_barrier_two_counts",
        (
            "bar.arrive 1, 64;\nbar.arrive 2, 64;\n",
            "bar.sync 2, 64;\nbar.sync 1, <op>;\n",
            "",
        ),
        "64",
        "96",
        "bar.sync",
    ),
    _named(
        "count_is_no_multiple_of_the_warp",
        ("mov.u32 %r1, <op>;\nbar.sync 1, %r1;\n",),
        "32",
        "48",
        "bar.sync",
    ),
    _named(
        "number_past_the_last",
        ("mov.u32 %r1, <op>;\nbar.sync %r1, 32;\n",),
        "15",
        "16",
        "bar.sync",
    ),
    _named(
        "aligned_barrier_of_one_lane",
        ("<op>bar.sync 1, 32;\n",),
        "",
        "@%one ",
        "bar.sync",
    ),
    Twin(
        name="second_arrival_without_a_wait",
        rule="B2",
        title=_CLUSTER,
        warps=(
            "barrier.cluster.arrive;\n<op>barrier.cluster.arrive;\n"
            "barrier.cluster.wait;\n",
        ),
        ctas=2,
        cluster=2,
        op="barrier.cluster.wait;\n",
        found=fault("barrier", "barrier.cta", "barrier.cluster.arrive"),
    ),
    Twin(
        name="wait_without_an_arrival",
        rule="B2",
        title=_CLUSTER,
        warps=("<op>barrier.cluster.wait;\n",),
        ctas=2,
        cluster=2,
        op="barrier.cluster.arrive;\n",
        found=fault("barrier", "barrier.cta", "barrier.cluster.wait"),
    ),
    Twin(
        name="lanes_that_never_meet",
        rule="B3",
        title=_WARP,
        warps=(
            "setp.lt.u32 %p1, %lane, 16;\nselp.b32 %r5, <op>;\n@%p1 bra $LOW;\n"
            "bar.warp.sync %r5;\nbra $OUT;\n"
            "$LOW: vote.sync.any.pred %p2, %one, %r5;\n$OUT:\n",
        ),
        op="0x0000ffff, 0xffff0000, %p1",
        broken="0xffffffff, 0xffffffff, %p1",
        found=fault(
            "deadlock", "warp.convergence", "bar.warp.sync", "vote.sync.any.pred"
        ),
        finishes=False,
    ),
    Twin(
        name="registers_that_nobody_gave",
        rule="B5",
        title=_NREG,
        warps=("",) * 8,
        setup="setp.gt.u32 %p4, %warp, 3;\n@%p4 bra CONSUMER;\n<op>bra GIVEN;\n"
        "CONSUMER: setmaxnreg.dec.sync.aligned.u32 24;\nbar.sync 1, 128;\n"
        "setmaxnreg.inc.sync.aligned.u32 256;\nGIVEN:\n",
        op="setmaxnreg.dec.sync.aligned.u32 24;\n",
        found=fault("deadlock", "progress", "setmaxnreg.inc.sync.aligned.u32"),
        finishes=False,
    ),
    Twin(
        name="decrease_that_raises",
        rule="B5",
        title=_NREG,
        warps=(
            "setmaxnreg.dec.sync.aligned.u32 40;\n"
            "setmaxnreg.dec.sync.aligned.u32 <op>;\n",
        ),
        op="32",
        broken="48",
        found=fault("contract", "setmaxnreg.count", "setmaxnreg.dec.sync.aligned.u32"),
    ),
    Twin(
        name="registers_of_a_part_of_the_warpgroup",
        rule="B5",
        title=_NREG,
        warps=("",) * 4,
        setup="setp.gt.u32 %p4, %warp, <op>;\n@%p4 bra OTHERS;\n"
        "setmaxnreg.dec.sync.aligned.u32 40;\nOTHERS:\n",
        op="3",
        broken="1",
        found=fault("contract", "setmaxnreg.count", "setmaxnreg.dec.sync.aligned.u32"),
    ),
    Twin(
        name="bytes_that_nobody_expected",
        rule="M1",
        title=_MBAR,
        warps=(lead(expect("<op>") + bulk_load()),),  # type: ignore[arg-type]
        bars=(1,),
        op="256",
        broken="240",
        found=fault("mbarrier", "mbarrier.state", "ret"),
    ),
    _named(
        "reduction_beside_a_plain_barrier",
        (
            "bar.arrive 1, 64;\nbar.arrive 2, 64;\n",
            "bar.sync 2, 64;\n<op>;\n",
        ),
        "bar.sync 1, 64",
        "bar.red.popc.u32 %r3, 1, 64, %one",
        "bar.red.popc.u32",
    ),
)
