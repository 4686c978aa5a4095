"""`sidestream mutate` on waits for loads of tensor memory."""

import json

import pytest
from device_case import launch_of, line_of, text_of

from sidestream.harness.commands import mutate
from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.dsl.record import write_launch
from sidestream.harness.run.settings import Settings

# Warp 0 loads a column and tells warp 4, which sees the same lanes and writes it.
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r4];"
WAIT = "tcgen05.wait::ld.sync.aligned;"
STORE = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r4], {%r3};"
USE = "mul.lo.u32 %r5, %r6, 3;"
BARRIER = ("bar.sync 1, 64;", "bar.sync 1, 64;")
RELAXED = (
    "mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%r7];",
    """
PASS:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], 0;
    @!%p2 bra PASS;
    """,
)
BODY = """
    shr.u32 %r1, %r0, 5;
    setp.ne.u32 %p0, %r1, 0;
    mov.u32 %r3, slot;
    mov.u32 %r7, full;
    setp.ne.u32 %p3, %r0, 0;
    @!%p3 mbarrier.init.shared::cta.b64 [%r7], 32;
    @!%p0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 32;
    bar.sync 0;
    ld.shared.b32 %r4, [slot];
    @%p0 bra OTHER;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r4], {%r0};
    tcgen05.wait::st.sync.aligned;
    LOAD
    mov.b32 %r6, %r2;
    WAIT
    FIRST
    tcgen05.fence::before_thread_sync;
    GIVE
    SECOND
    bra DONE;
OTHER:
    setp.ne.u32 %p1, %r1, 4;
    @%p1 bra DONE;
    TAKE
    tcgen05.fence::after_thread_sync;
    STORE
    tcgen05.wait::st.sync.aligned;
DONE:
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @!%p0 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    @!%p0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 32;
"""


def judged(tmp_path, *, first, second, told, profile):
    """Change -> row of the wait for the load, its register read first or second."""
    body = BODY.replace("LOAD", LOAD).replace("WAIT", WAIT).replace("STORE", STORE)
    body = body.replace("FIRST", first).replace("SECOND", second)
    body = body.replace("GIVE", told[0]).replace("TAKE", told[1])
    text = text_of(
        body,
        declare=".shared .align 8 .b64 full;\n.shared .align 8 .b32 slot;",
        target="sm_100a",
    )
    table = AllocationTable()
    buffer = table.allocate(256, "out", fill=b"\0")
    launch = launch_of(text, buffer.va, threads=160)
    folder = write_launch(tmp_path / "launch", launch, table, "sm_100a")
    mutate.run(
        [folder],
        only=("tensor-wait",),
        jobs=1,
        settings=Settings(profile=profile),
        out=tmp_path / "out",
        command="mutate",
    )
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    rows = report["mutants"]["rows"]
    return {r["change"]: r for r in rows if r["line"] == line_of(text, WAIT)}


@pytest.mark.parametrize(
    ("first", "second", "told", "profile", "status"),
    [
        (USE, "", BARRIER, "practice", "equivalent"),
        (USE, "", RELAXED, "practice", "equivalent"),
        ("", USE, BARRIER, "practice", "caught"),
        (USE, "", BARRIER, "isa", "caught"),
    ],
    ids=["read-before", "read-before-a-relaxed-arrival", "read-behind", "isa"],
)
def test_a_read_before_the_hand_over_stands_for_a_wait_by_practice(
    tmp_path, first, second, told, profile, status
):
    """The register was moved before the wait, which is no read of it."""
    rows = judged(tmp_path, first=first, second=second, told=told, profile=profile)
    assert {change: row["status"] for change, row in rows.items()} == {
        "weaken": status,
        "delete": status,
    }
