"""Exchanges between lanes and matrices in shared memory, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from ptx_case import Case

from sidestream.harness.exec.machine import Options

LANES = np.arange(32)
OUT = """mul.wide.u32 %rd4, %r0, {size}; add.s64 %rd4, %rd4, %rd0;
st.global.{vec}u32 [%rd4], {value};"""


def _out(*names: str) -> str:
    if len(names) == 1:
        return OUT.format(size=4, vec="", value=names[0])
    value = "{" + ", ".join(names) + "}"
    return OUT.format(size=4 * len(names), vec=f"v{len(names)}.", value=value)


def _shuffle(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """Source lane and predicate as the ISA's shfl.sync semantics give them."""
    clamp, segment = c & 31, c >> 8 & 31
    most = (lane & segment) | (clamp & ~segment)
    least = lane & segment
    b &= 31
    if mode == "up":
        j, valid = lane - b, lane - b >= most
    elif mode == "down":
        j, valid = lane + b, lane + b <= most
    elif mode == "bfly":
        j, valid = lane ^ b, lane ^ b <= most
    else:
        j = least | (b & ~segment)
        valid = j <= most
    return (j, True) if valid else (lane, False)


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("width", [1, 2, 8, 32])
def test_shfl(mode: str, width: int) -> None:
    segment = (32 - width) << 8
    c = segment if mode == "up" else segment | 31
    for b in (0, 1, 5, 16, 31, 33):
        out = np.zeros((32, 2), np.uint32)
        body = f"""mad.lo.u32 %r5, %r0, 3, 100;
        shfl.sync.{mode}.b32 %r6|%p1, %r5, {b}, {c}, 0xffffffff;
        selp.u32 %r7, 1, 0, %p1; {_out("%r6", "%r7")}"""
        Case(body).clean(out)
        want = [_shuffle(mode, lane, b, c) for lane in range(32)]
        np.testing.assert_array_equal(out[:, 0], [j * 3 + 100 for j, _ in want])
        np.testing.assert_array_equal(out[:, 1], [p for _, p in want])


def test_shfl_with_operands_per_lane_in_place() -> None:
    out = np.zeros(32, np.uint32)
    body = f"""mul.lo.u32 %r5, %r0, 7; and.b32 %r5, %r5, 31; mov.u32 %r6, %r0;
    shfl.sync.idx.b32 %r6, %r6, %r5, 31, -1; {_out("%r6")}"""
    Case(body).clean(out)
    np.testing.assert_array_equal(out, LANES * 7 % 32)


def test_shfl_of_divergent_halves_and_partial_masks() -> None:
    out = np.zeros(32, np.uint32)
    body = f"""setp.lt.u32 %p1, %r0, 16; mov.u32 %r6, 0; @%p1 bra low;
    shfl.sync.bfly.b32 %r6, %r0, 1, 31, 0xffff0000; bra join;
    low: shfl.sync.bfly.b32 %r6, %r0, 2, 31, 0x0000ffff; join: {_out("%r6")}"""
    Case(body).clean(out)
    np.testing.assert_array_equal(out, np.where(LANES < 16, LANES ^ 2, LANES ^ 1))


def test_full_mask_waits_for_lanes_on_another_path() -> None:
    out = np.zeros(32, np.uint32)
    body = f"""mov.u32 %r5, 0; setp.lt.u32 %p1, %r0, 4; @!%p1 bra rest;
    mov.u32 %r5, 9; shfl.sync.idx.b32 %r6, %r5, 31, 31, -1; bra join;
    rest: mov.u32 %r5, %r0; nanosleep.u32 1;
    shfl.sync.idx.b32 %r6, %r5, 0, 31, -1; join: {_out("%r6")}"""
    result = Case(body).run(out)
    # Two instructions, each with all lanes in its mask: neither can go on.
    assert result.status == "deadlock"
    assert {w.kind for w in result.waiting} == {"warp-sync"}


def test_source_lane_that_is_not_there_gives_a_pattern() -> None:
    out = np.zeros(20, np.uint32)
    body = f"shfl.sync.down.b32 %r6, %r0, 4, 31, -1; {_out('%r6')}"
    Case(body, threads=20, options=Options(register_fill=0xABCD1234)).clean(out)
    np.testing.assert_array_equal(out[:16], LANES[4:20])
    assert (out[16:] == 0xABCD1234).all()
    out = np.zeros(32, np.uint32)
    body = f"""and.b32 %r5, %r0, 3; setp.ne.u32 %p1, %r5, 3; mov.u32 %r6, 5;
    @%p1 shfl.sync.bfly.b32 %r6, %r0, 1, 31, -1; {_out("%r6")}"""
    Case(body, options=Options(register_fill=0xABCD1234)).clean(out)
    want = np.choose(LANES & 3, [LANES ^ 1, LANES ^ 1, 0xABCD1234, 5])
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize(
    "body",
    [
        "shfl.sync.idx.b32 %r6, %r0, 0, 31, 0x7fffffff;",
        "vote.sync.any.pred %p2, %p1, 0x1;",
        "elect.sync _|%p2, 0xfffffffe;",
        "bar.warp.sync 0xf;",
        "redux.sync.add.u32 %r6, %r0, 1;",
        "match.any.sync.b32 %r6, %r0, 1;",
    ],
)
def test_a_lane_outside_its_own_mask_is_a_fault(body: str) -> None:
    Case("setp.eq.u32 %p1, %r0, 0;" + body).faulty("illegal")


def test_votes() -> None:
    out = np.zeros((32, 4), np.uint32)
    body = f"""rem.u32 %r5, %r0, 3; setp.eq.u32 %p1, %r5, 0;
    setp.lt.u32 %p5, %r0, 24; @!%p5 bra skip;
    vote.sync.ballot.b32 %r6, %p1, 0x00ffffff; vote.sync.all.pred %p2, %p1, 0xffffff;
    vote.sync.any.pred %p3, !%p1, 0xffffff; vote.sync.uni.pred %p4, 1, 0xffffff;
    selp.u32 %r7, 1, 0, %p2; selp.u32 %r8, 1, 0, %p3; selp.u32 %r9, 1, 0, %p4;
    activemask.b32 %r10; add.u32 %r9, %r9, %r10; {_out("%r6", "%r7", "%r8", "%r9")}
    skip:"""
    Case(body).clean(out)
    ballot = sum(1 << k for k in range(0, 24, 3))
    np.testing.assert_array_equal(out[:24], [[ballot, 0, 1, 0x1000000]] * 24)
    assert not out[24:].any()


@pytest.mark.parametrize(("limit", "want"), [(0, 1), (5, 0), (32, 1)])
def test_vote_of_one_mind(limit: int, want: int) -> None:
    out = np.zeros(32, np.uint32)
    body = f"""setp.lt.u32 %p1, %r0, {limit}; vote.sync.uni.pred %p2, %p1, -1;
    selp.u32 %r6, 1, 0, %p2; {_out("%r6")}"""
    Case(body).clean(out)
    assert (out == want).all()


def test_match() -> None:
    out = np.zeros((32, 4), np.uint32)
    body = f"""rem.u32 %r5, %r0, 5; match.any.sync.b32 %r6, %r5, -1;
    match.all.sync.b32 %r7|%p1, %r5, -1; selp.u32 %r9, 1, 0, %p1;
    mov.u64 %rd7, 77; match.all.sync.b64 %r8|%p2, %rd7, -1; selp.u32 %r10, 2, 0, %p2;
    add.u32 %r9, %r9, %r10; {_out("%r6", "%r7", "%r8", "%r9")}"""
    Case(body).clean(out)
    want = [sum(1 << k for k in range(32) if k % 5 == n % 5) for n in range(32)]
    np.testing.assert_array_equal(out[:, 0], want)
    np.testing.assert_array_equal(out[:, 1:], [[0, 0xFFFF_FFFF, 2]] * 32)
    part = np.zeros(32, np.uint32)
    body = f"""setp.lt.u32 %p1, %r0, 9; mov.u32 %r6, 0;
    @%p1 match.any.sync.b32 %r6, 7, 0x1ff; {_out("%r6")}"""
    Case("mov.u32 %r9, 7;" + body).clean(part)
    np.testing.assert_array_equal(part, np.where(LANES < 9, 0x1FF, 0))


@pytest.mark.parametrize(
    ("op", "reduce"),
    [
        ("add.u32", lambda v: v.sum(dtype=np.uint32)),
        ("add.s32", lambda v: v.sum(dtype=np.uint32)),
        ("min.u32", np.min),
        ("max.u32", np.max),
        ("min.s32", lambda v: v.view(np.int32).min().view(np.uint32)),
        ("max.s32", lambda v: v.view(np.int32).max().view(np.uint32)),
        ("and.b32", np.bitwise_and.reduce),
        ("or.b32", np.bitwise_or.reduce),
        ("xor.b32", np.bitwise_xor.reduce),
    ],
)
def test_integer_redux(op: str, reduce: object) -> None:
    values = np.frombuffer(np.random.default_rng(5).bytes(128), np.uint32).copy()
    out = np.zeros(32, np.uint32)
    body = f"""mul.wide.u32 %rd5, %r0, 4; add.s64 %rd5, %rd5, %rd1;
    ld.global.u32 %r5, [%rd5]; setp.lt.u32 %p1, %r0, 16; mov.u32 %r7, 0xffff0000;
    selp.b32 %r7, 0x0000ffff, %r7, %p1; redux.sync.{op} %r6, %r5, %r7; {_out("%r6")}"""
    Case(body).clean(out, values)
    assert callable(reduce)
    np.testing.assert_array_equal(out[:16], reduce(values[:16]))
    np.testing.assert_array_equal(out[16:], reduce(values[16:]))


FLOATS = [
    ("min", [1.5, -0.0, 0.0], -0.0),
    ("max", [-1.5, -0.0, 0.0, -7], 0.0),
    ("max", [np.nan, -3.0, -np.inf], -3.0),
    ("min", [np.nan, 3.0, np.inf], 3.0),
    ("min", [np.nan], np.nan),
    ("max.NaN", [np.nan, 5.0], np.nan),
    ("min.abs", [-3.0, 2.0, -1.0], 1.0),
    ("max.abs", [-3.0, 2.0], 3.0),
    ("min", [-1e-45, 1e-45], -1e-45),
]


@pytest.mark.parametrize(("op", "values", "want"), FLOATS)
def test_float_redux(op: str, values: list[float], want: float) -> None:
    data = np.resize(np.array(values, np.float32), 32)
    out = np.zeros(32, np.uint32)
    body = f"""mul.wide.u32 %rd5, %r0, 4; add.s64 %rd5, %rd5, %rd1;
    ld.global.u32 %r5, [%rd5]; redux.sync.{op}.f32 %r6, %r5, -1; {_out("%r6")}"""
    Case(body, target="sm_100a").clean(out, data)
    bits = np.float32(want).view(np.uint32) if want == want else 0x7FFF_FFFF
    assert (out == bits).all()


def test_elect_names_one_lane() -> None:
    out = np.zeros((32, 2), np.uint32)
    body = f"""setp.ge.u32 %p1, %r0, 5; mov.u32 %r6, 99; mov.u32 %r7, 99;
    @%p1 elect.sync %r6|%p2, 0xffffffe0; selp.u32 %r7, 1, 0, %p2;
    {_out("%r6", "%r7")}"""
    Case("setp.eq.u32 %p2, %r0, 99;" + body).clean(out)
    np.testing.assert_array_equal(out[:, 0], np.where(LANES < 5, 99, 5))
    np.testing.assert_array_equal(out[:, 1], LANES == 5)


# --- matrices ------------------------------------------------------------------------
SMEM = ".shared .align 128 .b8 tile[2048];"
FILL = """shl.b32 %r5, %r0, 4; mov.u32 %r6, tile; add.u32 %r7, %r6, %r5;
mul.wide.u32 %rd5, %r0, 16; add.s64 %rd5, %rd5, %rd1;
ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd5];
st.shared.v4.u32 [%r7], {%r10, %r11, %r12, %r13}; bar.warp.sync -1;"""
# Rows are taken in a scrambled order, so that addresses matter.
ROWS = """mul.lo.u32 %r8, %r0, 5; add.u32 %r8, %r8, 3; and.b32 %r8, %r8, 31;
shl.b32 %r8, %r8, 4; add.u32 %r8, %r8, %r6;"""
SCRAMBLED = (LANES * 5 + 3) % 32


def _fragments(rows: NDArray[np.uint16], *, trans: bool) -> NDArray[np.uint16]:
    """(matrix, lane, 2) elements of 8x8 matrices given as (matrix, 8, 8)."""
    if trans:
        rows = rows.transpose(0, 2, 1)
    lane = np.arange(32)
    return rows[:, lane // 4][:, lane, :].reshape(-1, 32, 8)[
        :, lane[:, None], 2 * (lane % 4)[:, None] + [0, 1]
    ]


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("space", [".shared", ".shared::cta", ""])
def test_ldmatrix(count: int, trans: str, space: str) -> None:
    data = np.random.default_rng(6).integers(0, 65536, (32, 8)).astype(np.uint16)
    out = np.zeros((32, count, 2), np.uint16)
    names = [f"%r{20 + k}" for k in range(count)]
    address = "[%r8]"
    generic = ""
    if not space:
        generic = "cvt.u64.u32 %rd6, %r8; cvta.shared.u64 %rd6, %rd6;"
        address = "[%rd6]"
    body = f"""{FILL} {ROWS} {generic}
    ldmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16 {{{", ".join(names)}}},
    {address}; {_out(*names)}"""
    Case(body, declare=SMEM).clean(out, data)
    rows = data[SCRAMBLED][: 8 * count].reshape(count, 8, 8)
    want = _fragments(rows, trans=bool(trans))
    np.testing.assert_array_equal(out.transpose(1, 0, 2), want)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_stmatrix_undoes_ldmatrix(count: int, trans: str) -> None:
    data = np.random.default_rng(7).integers(0, 65536, (32, 8)).astype(np.uint16)
    out = np.zeros((32, 8), np.uint16)
    names = ", ".join(f"%r{20 + k}" for k in range(count))
    body = f"""{FILL} {ROWS}
    ldmatrix.sync.aligned.m8n8.x{count}.shared.b16 {{{names}}}, [%r7];
    st.shared.v4.u32 [%r7+512], {{0, 0, 0, 0}};
    bar.warp.sync -1;
    stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r8+512], {{{names}}};
    bar.warp.sync -1; ld.shared.v4.u32 {{%r10, %r11, %r12, %r13}}, [%r7+512];
    mul.wide.u32 %rd4, %r0, 16; add.s64 %rd4, %rd4, %rd0;
    st.global.v4.u32 [%rd4], {{%r10, %r11, %r12, %r13}};"""
    Case(body, declare=SMEM).clean(out, data)
    matrices = data.reshape(4, 8, 8)[:count]
    if trans:
        matrices = matrices.transpose(0, 2, 1)
    want = np.zeros((32, 8), np.uint16)
    want[SCRAMBLED[: 8 * count]] = matrices.reshape(-1, 8)
    np.testing.assert_array_equal(out, want)


def test_ldmatrix_of_bytes() -> None:
    data = np.random.default_rng(8).integers(0, 256, (32, 16)).astype(np.uint8)
    out = np.zeros((32, 4, 4), np.uint8)
    body = f"""{FILL}
    ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {{%r20, %r21, %r22, %r23}}, [%r7];
    {_out("%r20", "%r21", "%r22", "%r23")}"""
    Case(body, declare=SMEM).clean(out, data)
    for lane in range(32):
        for register in range(4):
            rows = data.reshape(2, 16, 16)[register // 2].T  # the matrix itself
            row = rows[lane // 4 + 8 * (register % 2)]
            want = row[4 * (lane % 4) : 4 * (lane % 4) + 4]
            np.testing.assert_array_equal(out[lane, register], want)


def test_movmatrix() -> None:
    data = np.random.default_rng(9).integers(0, 65536, (8, 8)).astype(np.uint16)
    out = np.zeros((32, 2), np.uint16)
    body = f"""mul.wide.u32 %rd5, %r0, 4; add.s64 %rd5, %rd5, %rd1;
    ld.global.u32 %r5, [%rd5];
    movmatrix.sync.aligned.m8n8.trans.b16 %r5, %r5; {_out("%r5")}"""
    Case(body).clean(out, data)
    np.testing.assert_array_equal(out.reshape(8, 8), data.T)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (
            "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [tile+8];",
            "smem-misaligned",
        ),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [tile+2048];", "smem-oob"),
        ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [tile+2048], {%r9};", "smem-oob"),
        ("ldmatrix.sync.aligned.m8n8.x1.b16 {%r9}, [%rd0];", "illegal"),
        (
            "setp.lt.u32 %p1, %r0, 8;"
            "@%p1 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [tile];",
            "illegal",
        ),
        (
            "setp.ge.u32 %p1, %r0, 8; @%p1 exit;"
            "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [tile];",
            "illegal",
        ),
    ],
)
def test_matrix_faults(body: str, kind: str) -> None:
    Case(body, declare=SMEM).faulty(kind, np.zeros(4, np.uint32))


def test_ldmatrix_waits_for_lanes_held_elsewhere() -> None:
    """Half a warp is at the load while the other half still waits at an mbarrier."""
    body = """setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [tile], 1;
    bar.sync 1; setp.ge.u32 %p2, %r0, 32; @%p2 bra other; setp.lt.u32 %p3, %r0, 16;
    @%p3 bra meet;
    spin: mbarrier.try_wait.parity.shared.b64 %p4, [tile], 0; @!%p4 bra spin;
    meet: ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [tile+16]; bra end;
    other: nanosleep.u32 1; setp.eq.u32 %p5, %r0, 32;
    @%p5 mbarrier.arrive.shared.b64 _, [tile]; end:"""
    for seed in range(4):
        options = Options(seed=seed, quantum=2)
        Case(body, declare=SMEM, threads=64, options=options).clean()


def test_addresses_of_unused_rows_are_not_checked() -> None:
    body = """setp.lt.u32 %p1, %r0, 8; mov.u32 %r5, tile; selp.b32 %r5, %r5, 3, %p1;
    ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [%r5];"""
    Case(body, declare=SMEM).clean()
