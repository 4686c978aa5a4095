"""Broken rules of tensor memory as findings: what, where, and what puts it right."""

import pytest
from device_case import line_of, run, text_of

from sidestream.harness.cuda.memory import AllocationTable

DECLARE = ".shared .align 4 .b32 slot;"
ALLOC = """mov.u32 %r1, slot;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 64;
ld.shared.b32 %r2, [%r1];
"""
FREE = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 64;\n"
GIVE_UP = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"
MORE = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], {};\n"
LD = "tcgen05.ld.sync.aligned.32x32b.x4.b32 {{%r4, %r5, %r6, %r7}}, [%r2 + {}];\n"
LD += "tcgen05.wait::ld.sync.aligned;\n"
ST = "tcgen05.st.sync.aligned.32x32b.x4.b32 [%r2 + {}], {{%r4, %r5, %r6, %r7}};\n"
ST += "tcgen05.wait::st.sync.aligned;\n"


def outcome_of(body, **how):
    table = AllocationTable()
    text = text_of(body, declare=DECLARE, target="sm_100a")
    return text, run(text, table, table.allocate(64, "v"), budget=100_000, **how)


def one(body, **how):
    text, outcome = outcome_of(body, **how)
    assert len(outcome.findings) == 1, outcome.findings
    assert outcome.incomplete == ()
    return text, outcome.findings[0]


def test_a_kernel_that_keeps_the_rules_has_no_findings():
    _, outcome = outcome_of(ALLOC + ST.format(8) + LD.format(8) + GIVE_UP + FREE)
    assert outcome.findings == ()
    assert outcome.incomplete == ()
    assert outcome.finished


@pytest.mark.parametrize(
    ("body", "kind", "rule", "words", "need"),
    [
        (
            ALLOC,
            "tmem-alloc",
            "tmem.alloc",
            "still allocated when the CTA exits: 64 columns at column 0",
            "tcgen05.dealloc",
        ),
        (
            ALLOC + FREE + GIVE_UP + MORE.format(32),
            "tmem-alloc",
            "tmem.alloc",
            "allocates after the CTA has relinquished its right to",
            "relinquish_alloc_permit after the last allocation",
        ),
        (
            ALLOC + FREE + MORE.format(128) + FREE.replace("64", "128"),
            "tmem-alloc",
            "tmem.alloc",
            "more columns than an earlier allocation",
            "never increase",
        ),
        (
            ALLOC + FREE + MORE.format(48),
            "tmem-alloc",
            "tmem.alloc",
            "no power of two from 32 to 512: 48 columns",
            "32, 64, 128, 256 or 512",
        ),
        (
            ALLOC + FREE + FREE,
            "tmem-alloc",
            "tmem.alloc",
            "no live allocation begins",
            "given back once",
        ),
        (
            ALLOC + LD.format(62) + FREE,
            "out-of-bounds",
            "tmem.access",
            "belong to no allocation, or to two: 4 columns from 62 of 32 lanes from 0",
            "within one allocation",
        ),
        (
            ALLOC + LD.format(32 << 16) + FREE,
            "out-of-bounds",
            "tmem.access",
            "belong to another warp of the warpgroup: 4 columns from 0 of 32 lanes "
            "from 32",
            "32 (w % 4)",
        ),
        (
            ALLOC
            + ST.format(0)
            + "setp.eq.u32 %p1, %r0, 3;\n@%p1 "
            + LD.format(0)
            + FREE,
            "contract",
            "tcgen05.operand",
            "is aligned, and executed by a part of the warp's lanes",
            "all 32 lanes",
        ),
        (
            ALLOC
            + ST.format(8)
            + LD.format(10)
            + "st.global.b32 [%rd0], %r7;\n"
            + FREE,
            "uninit-read",
            "tmem.init",
            "cells that nothing has written: 4 columns from 10 of 32 lanes from 0",
            "ordered before the read",
        ),
    ],
)
@pytest.mark.parametrize("seed", [0, 2])
def test_each_broken_rule_is_told(body, kind, rule, words, need, seed):
    _, found = one(body, seed=seed)
    assert (found.kind, found.rule.id) == (kind, rule)
    assert words in found.message
    assert need in found.need
    assert found.sites[0].agent.startswith("cta 0 warp 0")


def test_a_leak_points_at_the_allocation():
    text, found = one(ALLOC + FREE + MORE.format(32))
    assert found.sites[0].ptx_line == line_of(text, "[%r1], 32;")


def test_an_allocation_without_room_is_a_deadlock_that_says_so():
    _, outcome = outcome_of(ALLOC + MORE.format(64) * 8)
    found = next(f for f in outcome.findings if f.kind == "deadlock")
    assert "1 warp waits for tmem-alloc" in found.message
    assert "free columns of tensor memory" in found.message
    assert not outcome.finished
