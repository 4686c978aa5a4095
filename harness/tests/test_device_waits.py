"""A deadlock names the barrier that lacks an arrival, and the arrival."""

import pytest
from device_case import line_of, run, text_of

from sidestream.harness.cuda.memory import AllocationTable

# Warps 1 to 3 are stages of a pipeline: each waits for the barrier of the one before
# and arrives at its own. Warp 0 waits for the last. One arrival is guarded away.
STAGES = 3


def pipeline(silent):
    declare = ".shared .align 8 .b8 bars[64];"
    lines = [
        "mov.u32 %r2, bars;",
        "shr.u32 %r3, %r0, 5;",
        "setp.ne.u32 %p0, %r0, 0;",
        "setp.ne.u32 %p3, %r0, %r0;",
        "@%p0 bra MADE;",
    ]
    lines += [f"mbarrier.init.shared.b64 [%r2+{8 * k}], 32;" for k in range(STAGES)]
    lines += ["MADE:", "bar.sync 0;"]
    for warp in range(STAGES + 1):
        lines += [f"setp.ne.u32 %p1, %r3, {warp};", f"@%p1 bra NEXT{warp};"]
        before = (warp - 2) if warp else STAGES - 1
        if before >= 0:
            lines += [
                f"WAIT{warp}:",
                f"mbarrier.try_wait.parity.shared.b64 %p2, [%r2+{8 * before}], 0;",
                f"@!%p2 bra WAIT{warp};",
            ]
        if warp:
            if warp - 1 == silent:
                lines.append("@!%p3 bra DONE;")
            lines += [
                f"add.u32 %r{3 + warp}, %r2, {8 * (warp - 1)};",
                f"mbarrier.arrive.shared.b64 _, [%r{3 + warp}];",
            ]
        lines += ["bra DONE;", f"NEXT{warp}:"]
    lines.append("DONE:")
    return text_of("\n".join(lines), declare=declare)


def stuck(text):
    table = AllocationTable()
    buffer = table.allocate(256, "out", fill=b"\0")
    outcome = run(text, table, buffer, threads=32 * (STAGES + 1))
    (found,) = outcome.findings
    assert found.kind == "deadlock"
    return found


@pytest.mark.parametrize("silent", range(STAGES))
def test_the_arrival_that_is_missing_is_the_first_named(silent):
    text = pipeline(silent)
    line = line_of(text, f"_, [%r{4 + silent}]")
    found = stuck(text)
    assert f"byte {8 * silent} of bars" in found.need
    assert "has 0 of 32 arrivals" in found.need
    assert f"PTX line {line}) arrives there, never executed" in found.need


def test_nobody_arrives_where_the_arrival_is_gone():
    text = pipeline(0)
    gone = text.replace("mbarrier.arrive.shared.b64 _, [%r4];", "")
    found = stuck(gone)
    assert "byte 0 of bars" in found.need
    assert "no instruction of the kernel arrives there" in found.need


def test_a_count_too_high_names_those_who_did_arrive():
    text = pipeline(None)
    found = stuck(text.replace("[%r2+8], 32;", "[%r2+8], 33;"))
    line = line_of(text, "_, [%r5]")
    assert "byte 8 of bars" in found.need
    assert "has 32 of 33 arrivals" in found.need
    assert f"PTX line {line}) arrives there, executed 1 times" in found.need


# Warp 0 fills, warp 1 takes: `full` is byte 0, `empty` byte 8. The filler leaves after
# two rounds of three, and warp 2 waits for what the taker would do after the third.
LEAVES = """
mov.u32 %r2, bars;
shr.u32 %r3, %r0, 5;
setp.eq.u32 %p0, %r0, 0;
@%p0 mbarrier.init.shared.b64 [%r2], 32;
@%p0 mbarrier.init.shared.b64 [%r2+8], 32;
@%p0 mbarrier.init.shared.b64 [%r2+16], 32;
bar.sync 0;
mov.u32 %r4, 0;
setp.eq.u32 %p1, %r3, 1;
@%p1 bra TAKER;
setp.eq.u32 %p1, %r3, 2;
@%p1 bra LAST;
setp.eq.u32 %p1, %r3, 3;
@%p1 bra DONE;
FILL:
mbarrier.arrive.shared.b64 _, [%r2];
add.u32 %r4, %r4, 1;
and.b32 %r5, %r4, 1;
xor.b32 %r5, %r5, 1;
W0:
mbarrier.try_wait.parity.shared.b64 %p2, [%r2+8], %r5;
@!%p2 bra W0;
setp.lt.u32 %p3, %r4, 2;
@%p3 bra FILL;
bra DONE;
TAKER:
and.b32 %r5, %r4, 1;
W1:
mbarrier.try_wait.parity.shared.b64 %p2, [%r2], %r5;
@!%p2 bra W1;
mbarrier.arrive.shared.b64 _, [%r2+8];
add.u32 %r4, %r4, 1;
setp.lt.u32 %p3, %r4, 3;
@%p3 bra TAKER;
mbarrier.arrive.shared.b64 _, [%r2+16];
bra DONE;
LAST:
mbarrier.try_wait.parity.shared.b64 %p2, [%r2+16], 0;
@!%p2 bra LAST;
DONE:
"""


def test_who_came_before_and_not_now_is_named_with_its_victims():
    text = text_of(LEAVES, declare=".shared .align 8 .b8 bars[64];")
    found = stuck(text)
    line = line_of(text, "mbarrier.arrive.shared.b64 _, [%r2];")
    assert "byte 0 of bars has 0 of 32 arrivals; missing: " in found.need
    assert f"PTX line {line}) of cta 0 warp 0 came in 2 phases" in found.need
    assert "now (phase 2) none: it has exited" in found.need
    root, victim = found.sites
    assert root.agent == "cta 0 warp 1"
    assert "byte 0 of bars" in root.detail
    assert "victim" not in root.detail
    assert victim.agent == "cta 0 warp 2"
    assert "byte 16 of bars; a victim of the first" in victim.detail


def test_a_circle_is_told_as_one():
    turned = LEAVES.replace("%r4, 2;\n", "%r4, 9;\n", 1)
    # The taker waits for the filler's third arrival before it tells of the second.
    turned = turned.replace(
        "mbarrier.arrive.shared.b64 _, [%r2+8];\nadd.u32 %r4, %r4, 1;",
        "add.u32 %r4, %r4, 1;\nsetp.ne.u32 %p4, %r4, 2;\n"
        "@%p4 mbarrier.arrive.shared.b64 _, [%r2+8];",
    )
    found = stuck(text_of(turned, declare=".shared .align 8 .b8 bars[64];"))
    assert "byte 8 of bars has 0 of 32 arrivals; missing: " in found.need
    assert "of cta 0 warp 1 came in 1 phase, now (phase 1) none: it waits" in found.need
    assert any("in a circle, for the mbarrier" in line for line in found.witness)


def test_a_waiter_that_was_lapped_is_told_so():
    lapped = LEAVES.replace("%r4, 2;\n", "%r4, 3;\n", 1).replace(
        "LAST:\n",
        "LAST:\nmbarrier.arrive.shared.b64 _, [%r2+16];\n"
        "mbarrier.arrive.shared.b64 _, [%r2+16];\nbar.warp.sync -1;\nLAST1:\n",
    )
    lapped = lapped.replace("@!%p2 bra LAST;", "@!%p2 bra LAST1;")
    lapped = lapped.replace("_, [%r2+16];\nbra DONE;", "_, [%r2+24];\nbra DONE;")
    lapped = lapped.replace("bar.sync 0;", "", 1).replace(
        "mov.u32 %r4, 0;",
        "@%p0 mbarrier.init.shared.b64 [%r2+24], 32;\nbar.sync 0;\nmov.u32 %r4, 0;",
        1,
    )
    found = stuck(text_of(lapped, declare=".shared .align 8 .b8 bars[64];"))
    assert "byte 16 of bars has 0 of 32 arrivals" in found.need
    assert "parity lap: warp 2 has seen 0 phases end, and 2 have" in found.need


def test_lanes_that_wait_apart_are_each_told():
    body = """
mov.u32 %r2, bars;
setp.eq.u32 %p0, %r0, 0;
@%p0 mbarrier.init.shared.b64 [%r2], 1;
bar.sync 0;
@!%p0 bra MEET;
WAIT:
mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;
@!%p2 bra WAIT;
MEET:
bar.warp.sync -1;
"""
    found = stuck(text_of(body, declare=".shared .align 8 .b8 bars[64];"))
    assert found.rule.id == "progress"
    first, second = found.sites
    assert first.operation.startswith("mbarrier.try_wait")
    assert second.operation == "bar.warp.sync"
    assert "a victim of the first" in second.detail


def test_an_arrive_drop_that_never_executes_is_the_one_that_lacks():
    text = pipeline(1).replace(
        "mbarrier.arrive.shared.b64 _, [%r5]",
        "mbarrier.arrive_drop.shared.b64 _, [%r5]",
    )
    line = line_of(text, "arrive_drop")
    found = stuck(text)
    assert "byte 8 of bars has 0 of 32 arrivals" in found.need
    drop = f"mbarrier.arrive_drop.shared.b64 (PTX line {line})"
    assert f"{drop} arrives there, never executed" in found.need


# All three warps are due in phases 0 and 1, and warp 0 leaves in the second. Warp 1
# then waits for phase 2, in which warp 2 should come again.
DROPS = """
mov.u32 %r2, bars;
shr.u32 %r3, %r0, 5;
setp.eq.u32 %p0, %r0, 0;
@%p0 mbarrier.init.shared.b64 [%r2], 96;
bar.sync 0;
setp.eq.u32 %p1, %r3, 3;
@%p1 bra DONE;
mbarrier.arrive.shared.b64 _, [%r2];
W0:
mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;
@!%p2 bra W0;
setp.ne.u32 %p1, %r3, 0;
@%p1 bra STAY;
mbarrier.arrive_drop.shared.b64 _, [%r2];
bra DONE;
STAY:
mbarrier.arrive.shared.b64 _, [%r2];
W1:
mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 1;
@!%p2 bra W1;
setp.eq.u32 %p1, %r3, 2;
@%p1 bra DONE;
add.u32 %r4, %r2, 0;
mbarrier.arrive.shared.b64 _, [%r4];
W2:
mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;
@!%p2 bra W2;
DONE:
"""


def test_who_has_dropped_is_not_missed_and_is_told_of():
    text = text_of(DROPS, declare=".shared .align 8 .b8 bars[64];")
    found = stuck(text)
    assert "byte 0 of bars has 32 of 64 arrivals; missing: " in found.need
    missing = [line for line in found.witness if line.startswith("missing: ")]
    assert any(" of cta 0 warp 2 came in " in line for line in missing)
    assert not any(" of cta 0 warp 0 came in " in line for line in missing)
    line = line_of(text, "arrive_drop")
    assert (
        f"mbarrier.arrive_drop.shared.b64 (PTX line {line}) of cta 0 warp 0 took 32 "
        "off the arrivals expected after phase 1"
    ) in found.witness
