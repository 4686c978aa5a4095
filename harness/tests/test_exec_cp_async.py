"""cp.async: sizes, zero fill, groups, mbarrier arrival, landing order."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_case import Case

from sidestream.harness.exec.machine import Options

DECLARE = ".shared .align 16 .b8 tile[2048];\n.shared .align 8 .b8 bar[8];"
AT = """mov.u32 %r6, tile; mul.lo.u32 %r7, %r0, {size}; add.u32 %r6, %r6, %r7;
mul.wide.u32 %rd4, %r0, {size}; add.s64 %rd5, %rd0, %rd4; add.s64 %rd6, %rd1, %rd4;"""
MOVE_16 = """ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r6];
st.global.v4.u32 [%rd6], {%r10, %r11, %r12, %r13};"""
SEEDS = [Options(seed=s, quantum=2) for s in range(6)]


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("options", SEEDS)
def test_copies_arrive_before_the_wait_ends(size: int, options: Options) -> None:
    src = np.arange(32 * size, dtype=np.uint8)
    out = np.zeros_like(src)
    load = {4: ("u32", "%r10"), 8: ("u64", "%rd10")}
    move = MOVE_16
    if size in load:
        kind, name = load[size]
        move = f"ld.shared.{kind} {name}, [%r6]; st.global.{kind} [%rd6], {name};"
    for wait in (
        "cp.async.commit_group; cp.async.wait_group 0;",
        "cp.async.wait_all;",
    ):
        body = f"""{AT.format(size=size)}
        cp.async.ca.shared.global [%r6], [%rd5], {size}; {wait} {move}"""
        out[:] = 0
        Case(body, declare=DECLARE, options=options).clean(src, out)
        np.testing.assert_array_equal(out, src)


def test_partial_and_ignored_sources_are_zero_filled() -> None:
    src = np.arange(1, 513, dtype=np.uint16).view(np.uint8)[:512].copy()
    out = np.full_like(src, 9)
    body = f"""{AT.format(size=16)} rem.u32 %r8, %r0, 17;
    cp.async.cg.shared.global.L2::128B [%r6], [%rd5], 16, %r8;
    cp.async.wait_all; {MOVE_16}"""
    Case(body, declare=DECLARE).clean(src, out)
    kept = np.arange(16) < (np.arange(32) % 17)[:, None]
    np.testing.assert_array_equal(out.reshape(32, 16), src.reshape(32, 16) * kept)
    body = f"""{AT.format(size=16)} setp.lt.u32 %p1, %r0, 5;
    selp.b64 %rd5, 3, %rd5, %p1;
    cp.async.cg.shared.global [%r6], [%rd5], 16, %p1; cp.async.wait_all; {MOVE_16}"""
    Case(body, declare=DECLARE).clean(src, out)
    want = src.reshape(32, 16) * (np.arange(32) >= 5)[:, None]
    np.testing.assert_array_equal(out.reshape(32, 16), want)


RACY = """{at} st.shared.u32 [%r6], 0; st.shared.u32 [%r6+512], 0;
cp.async.ca.shared.global [%r6], [%rd5], 4; cp.async.commit_group;
cp.async.ca.shared.global [%r6+512], [%rd5], 4; cp.async.commit_group;
cp.async.wait_group {pending}; ld.shared.u32 %r10, [%r6]; ld.shared.u32 %r11, [%r6+512];
add.s64 %rd6, %rd6, %rd4; st.global.v2.u32 [%rd6], {{%r10, %r11}};
cp.async.wait_all;"""


def _seen(pending: int) -> set[tuple[bool, bool]]:
    """Which of the two groups' copies were seen complete, over many schedules."""
    src = np.arange(1, 33, dtype=np.uint32)
    seen = set()
    for seed in range(1, 40):
        out = np.zeros((32, 2), np.uint32)
        body = RACY.format(at=AT.format(size=4), pending=pending)
        options = Options(seed=seed, quantum=3)
        Case(body, declare=DECLARE, options=options).clean(src, out)
        for k in (0, 1):
            assert set(out[:, k] == src) == {bool((out[:, k] == src)[0])}
        seen.add((bool(out[0, 0]), bool(out[0, 1])))
    return seen


def test_groups_wait_for_exactly_what_they_must() -> None:
    """Schedules show that nothing more than the ISA's promise is relied on."""
    assert _seen(0) == {(True, True)}
    assert _seen(1) == {(True, False), (True, True)}
    unordered = {(False, False), (True, False), (False, True), (True, True)}
    assert _seen(2) == unordered


@pytest.mark.parametrize("options", SEEDS)
@pytest.mark.parametrize("noinc", ["", ".noinc"])
def test_mbarrier_tracks_copies(options: Options, noinc: str) -> None:
    """A consumer warp sees what the producer warp's copies brought."""
    src = np.arange(512, dtype=np.uint8)
    out = np.zeros_like(src)
    count = 32
    arrive = "" if noinc else "mbarrier.arrive.shared.b64 _, [bar];"
    body = f"""setp.eq.u32 %p1, %r0, 0;
    @%p1 mbarrier.init.shared.b64 [bar], {count}; bar.sync 0;
    setp.ge.u32 %p2, %r0, 32; and.b32 %r0, %r0, 31; {AT.format(size=16)}
    @%p2 bra consume;
    cp.async.cg.shared.global [%r6], [%rd5], 16;
    cp.async.mbarrier.arrive{noinc}.shared.b64 [bar]; {arrive} bra end;
    consume: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra consume;
    {MOVE_16} end:"""
    Case(body, declare=DECLARE, threads=64, options=options).clean(src, out)
    np.testing.assert_array_equal(out, src)


def test_the_arrival_never_comes_before_the_copy() -> None:
    """One thread, one copy, one arrival: whichever lands first, the wait sees both."""
    src, out = np.array([77], np.uint32), np.zeros(1, np.uint32)
    body = """setp.ne.u32 %p1, %r0, 0; @%p1 bra end;
    mbarrier.init.shared.b64 [bar], 1; st.shared.u32 [tile], 0;
    cp.async.ca.shared.global [tile], [%rd0], 4;
    cp.async.mbarrier.arrive.noinc.shared.b64 [bar];
    wait: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra wait;
    ld.shared.u32 %r10, [tile]; st.global.u32 [%rd1], %r10; end:"""
    for seed in range(1, 30):
        out[:] = 0
        Case(body, declare=DECLARE, options=Options(seed=seed)).clean(src, out)
        assert out[0] == 77


@pytest.mark.parametrize(("noinc", "want"), [(".noinc", 1), ("", 0)])
def test_without_noinc_the_arrival_is_an_extra_one(noinc: str, want: int) -> None:
    out = np.zeros(1, np.uint32)
    body = f"""setp.ne.u32 %p1, %r0, 0; @%p1 bra end;
    mbarrier.init.shared.b64 [bar], 1; cp.async.mbarrier.arrive{noinc}.shared.b64 [bar];
    mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; selp.u32 %r5, 1, 0, %p3;
    st.global.u32 [%rd0], %r5; end:"""
    Case(body, declare=DECLARE).clean(out)
    assert out[0] == want


def test_mixed_groups_of_divergent_lanes() -> None:
    """Lanes with different numbers of groups wait for their own only."""
    src = np.arange(1, 33, dtype=np.uint32)
    for seed in range(12):
        out = np.zeros(32, np.uint32)
        body = f"""{AT.format(size=4)} setp.lt.u32 %p1, %r0, 7;
        @%p1 cp.async.commit_group;
        cp.async.ca.shared.global [%r6], [%rd5], 4; cp.async.commit_group;
        cp.async.wait_group 0; ld.shared.u32 %r10, [%r6]; st.global.u32 [%rd6], %r10;"""
        options = Options(seed=seed, quantum=2)
        Case(body, declare=DECLARE, options=options).clean(src, out)
        np.testing.assert_array_equal(out, src)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("cp.async.ca.shared.global [tile], [%rd0+126], 4;", "misaligned"),
        ("cp.async.ca.shared.global [tile], [%rd0+128], 4;", "oob-read"),
        ("cp.async.ca.shared.global [tile+2], [%rd0], 4;", "smem-misaligned"),
        ("cp.async.ca.shared.global [tile+2056], [%rd0], 4;", "smem-oob"),
        (
            "mov.u32 %r5, 5; cp.async.ca.shared.global [tile], [%rd0], 4, %r5;",
            "illegal",
        ),
        ("cp.async.mbarrier.arrive.shared.b64 [bar];", "mbarrier"),
    ],
)
def test_faults(body: str, kind: str) -> None:
    Case(f"{body} cp.async.wait_all;", declare=DECLARE).faulty(
        kind, np.zeros(32, np.uint32)
    )


def test_copies_of_a_finished_cta_still_land() -> None:
    """An exit without a wait leaves nothing in flight for the next CTA."""
    src = np.arange(1, 33, dtype=np.uint32)
    body = f"{AT.format(size=4)} cp.async.ca.shared.global [%r6], [%rd5], 4;"
    Case(body, declare=DECLARE, grid=9, options=Options(seed=5, sms=1)).clean(src)
