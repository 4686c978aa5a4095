"""Broken protocols and deadlocks: what is wrong, who waits, and what never came."""

import re
from pathlib import Path

import pytest
from device_case import line_of, run, text_of

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device import misuse
from sidestream.harness.exec.build import SOURCE

BAR = ".shared .align 8 .b64 pad;\n.shared .align 8 .b64 bar;"
INIT = "mov.u32 %r1, bar;\nmbarrier.init.shared.b64 [%r1], 2;\n"
ARRIVE = "mbarrier.arrive.shared.b64 %rd1, [%r1];\n"
WAIT = "W:\nmbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;\n@!%p1 bra W;"


def outcome_of(body, declare=BAR, **how):
    table = AllocationTable()
    text = text_of(body, declare=declare)
    how = {"threads": 32, "budget": 100_000} | how
    return text, run(text, table, table.allocate(64, "v"), **how)


def one(body, declare=BAR, **how):
    text, outcome = outcome_of(body, declare, **how)
    assert len(outcome.findings) == 1, outcome.findings
    assert outcome.incomplete == ()
    return text, outcome.findings[0]


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (
            "mov.u32 %r1, bar;\n" + ARRIVE,
            "mbarrier",
            "an mbarrier that was not initialised, or was invalidated: shared address "
            "0x408, byte 0 of bar",
        ),
        (INIT + INIT, "mbarrier", "is initialised while it is live"),
        (
            "mov.u32 %r1, bar;\nmov.u32 %r2, 0;\nmbarrier.init.shared.b64 [%r1], %r2;",
            "mbarrier",
            "is given a count outside 1 to 2^20 - 1",
        ),
        (
            INIT + "mbarrier.arrive.shared.b64 %rd1, [%r1], 3;",
            "mbarrier",
            "gets more arrivals than its phase has pending",
        ),
        (
            "mov.u32 %r1, bar;\nst.shared.u32 [%r1+4096], %r0;",
            "out-of-bounds",
            "shared memory outside the CTA's: shared address 0x1408",
        ),
        (
            "mov.u32 %r1, bar;\nst.shared.u32 [%r1+2], %r0;",
            "misaligned",
            "a misaligned shared address: shared address 0x40a, byte 2 of bar",
        ),
    ],
)
def test_misuse_of_shared_memory(body, kind, words):
    _, found = one(body, threads=1)
    assert found.kind == kind
    assert words in found.message
    assert found.need
    assert found.sites[0].agent == "cta 0 warp 0 lane 0"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("mov.u32 %r2, 48;\nbar.sync 1, %r2;", "multiple of the warp size"),
        ("bar.sync 1, 64;", "more than the CTA has: barrier 1"),
        ("mov.u32 %r2, 17;\nbar.sync %r2, 32;", "a number outside 0 to 15: barrier 17"),
    ],
)
def test_misuse_of_named_barriers(body, words):
    _, found = one(body)
    assert (found.kind, found.rule.id) == ("barrier", "barrier.cta")
    assert words in found.message


def test_two_wrongs_of_one_instruction_are_two_findings():
    """The third init repeats the second's wrong, and is folded into it."""
    body = (
        "mov.u32 %r1, bar;\nmov.u32 %r2, 0;\nI:\n"
        "mbarrier.init.shared.b64 [%r1], %r2;\nadd.u32 %r2, %r2, 1;\n"
        "setp.lt.u32 %p1, %r2, 4;\n@%p1 bra I;"
    )
    _, outcome = outcome_of(body, threads=1)
    told = {f.message.partition(": ")[0]: f for f in outcome.findings}
    assert set(told) == {
        "mbarrier.init.shared.b64 uses an mbarrier that is given a count outside "
        "1 to 2^20 - 1",
        "mbarrier.init.shared.b64 uses an mbarrier that is initialised while it is "
        "live",
    }
    assert [f.count for f in outcome.findings] == [1, 2]
    first, second = outcome.findings
    assert first.sites == second.sites
    assert first.id != second.id


def test_local_memory_is_bounded_by_the_thread():
    local = ".local .align 4 .b8 stack[16];"
    _, found = one("ld.local.u32 %r1, [stack+64];", local, threads=1)
    assert (found.kind, found.rule.id) == ("out-of-bounds", "local.bounds")
    assert "4 bytes at 64 of 16" in found.message


def test_a_phase_that_never_ends_names_the_mbarrier_and_who_waits():
    text, found = one(INIT + ARRIVE + WAIT, threads=1)
    assert (found.kind, found.rule.id) == ("deadlock", "progress")
    assert "1 warp waits for mbarrier" in found.message
    assert (
        "a phase of parity 0 of the mbarrier at shared address 0x408, byte 0 of bar"
        in (found.message)
    )
    (site,) = found.sites
    assert site.agent == "cta 0 warp 0"
    assert site.ptx_line == line_of(text, "mbarrier.try_wait")
    assert "byte 0 of bar has 1 of 2 arrivals; mbarrier.arrive" in found.need
    assert any(w.startswith("cta 0 warp 0 lanes 0x00000001") for w in found.witness)


def test_an_arrival_that_never_executes_is_what_a_deadlock_needs():
    skipped = (
        "setp.eq.u32 %p2, %r0, 7;\n@!%p2 bra W;\nmbarrier.arrive.shared.b64 _, [%r1];\n"
    )
    text, found = one(INIT + ARRIVE + skipped + WAIT, threads=1)
    line = line_of(text, "mbarrier.arrive.shared.b64 _")
    named = (
        f"mbarrier.arrive.shared.b64 (PTX line {line}) arrives there, never executed"
    )
    assert named in found.need
    assert named in found.witness


def test_arrivals_that_did_execute_are_not_blamed():
    _, found = one(INIT + ARRIVE + WAIT, threads=1)
    assert not any("never executed" in line for line in found.witness)


def test_warps_of_one_wait_are_told_together():
    # Two warps wait for three at barrier 3; the third has left.
    body = "setp.ge.u32 %p1, %r0, 64;\n@%p1 bra OUT;\nbar.sync 3, 96;\nOUT:\n"
    body += "bar.sync 4, 96;"
    _, outcome = outcome_of(body, threads=96)
    found = next(f for f in outcome.findings if f.kind == "deadlock")
    assert not outcome.finished
    assert "3 warps wait for barrier" in found.message
    agents = {site.agent: site.detail for site in found.sites}
    assert agents == {
        "cta 0 warps 0, 1": "96 threads at named barrier 3",
        "cta 0 warp 2": "96 threads at named barrier 4",
    }
    assert len(found.witness) >= 3


def test_lanes_that_do_not_meet_are_told_by_mask():
    body = """setp.lt.u32 %p1, %r0, 16;
@%p1 bra B;
shfl.sync.idx.b32 %r1, %r0, 0, 31, 0xffffffff;
ret;
B:
bar.warp.sync 0xffffffff;"""
    _, found = one(body, "")
    assert (found.kind, found.rule.id) == ("deadlock", "warp.convergence")
    assert "membermask 0xffffffff" in found.message
    assert found.need == "every lane of the membermask at one .sync instruction"


# The tables know every code of the core.


def codes(file: str, name: str) -> set[int]:
    """Nonzero values of an enumeration in the core's sources."""
    text = re.sub(r"/\*.*?\*/", "", Path(SOURCE / file).read_text(), flags=re.S)
    body = re.search(rf"enum {name}\s*\{{(.*?)\}}", text, flags=re.S)
    assert body, name
    value, values = -1, set()
    for entry in filter(str.strip, body.group(1).split(",")):
        _, equal, given = entry.partition("=")
        value = int(given, 0) if equal else value + 1
        values.add(value)
    return values - {0}


@pytest.mark.parametrize(
    ("file", "name", "table"),
    [
        ("mbarrier.h", "MbarError", misuse.MBARRIER),
        ("named_barrier.h", "BarrierError", misuse.BARRIER),
        ("tensormap.h", "TmapError", misuse.TENSORMAP),
        ("setmaxnreg.c", "SetmaxnregError", misuse.SETMAXNREG),
        ("tcgen05.h", "TmemError", misuse.TENSOR_MEMORY),
        ("tcgen05.h", "Tcgen05Error", misuse.TCGEN05),
        ("cluster.h", "ClusterError", misuse.CLUSTER),
        ("clc.h", "ClcError", misuse.CLC),
    ],
)
def test_every_code_is_told(file, name, table):
    unmodelled = {1} if name == "TmapError" else set()  # stops the launch instead
    assert codes(file, name) - unmodelled <= set(table)
    assert all(wrong and need for wrong, need in table.values())
