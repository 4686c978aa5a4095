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
