"""ld and st: widths, sign extension, spaces, masks, faults."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_case import Case
from text_launch import BASE, STRIDE

from sidestream.harness.exec import abi
from sidestream.harness.exec.machine import Options

LANES = np.arange(32)


@pytest.mark.parametrize("cast", ["", ".relaxed.gpu", ".acquire.sys", ".volatile"])
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("u8", "u1"), ("s8", "i1"), ("u16", "u2"), ("s16", "i2"), ("u32", "u4")],
)
def test_narrow_loads_extend_to_the_register(kind: str, dtype: str, cast: str) -> None:
    src = np.frombuffer(np.random.default_rng(1).bytes(256), dtype).copy()[:32]
    wide, words = np.zeros(32, np.int64), np.zeros(32, np.int32)
    size = src.itemsize
    Case(
        f"""mul.wide.u32 %rd4, %r0, {size};
        add.s64 %rd5, %rd0, %rd4;
        ld{cast}.global.{kind} %rd6, [%rd5];
        ld{cast}.global.{kind} %r5, [%rd5];
        mul.wide.u32 %rd4, %r0, 8;  add.s64 %rd5, %rd1, %rd4;
        st.global.u64 [%rd5], %rd6;
        mul.wide.u32 %rd4, %r0, 4;  add.s64 %rd5, %rd2, %rd4;
        st.global.u32 [%rd5], %r5;"""
    ).clean(src, wide, words)
    np.testing.assert_array_equal(wide, src.astype(np.int64))
    np.testing.assert_array_equal(words, src.astype(np.int64).astype(np.int32))


def test_signed_byte_in_a_16_bit_register_stays_canonical() -> None:
    src = np.array([-1, 127, -128, 0] * 8, np.int8)
    out = np.zeros(32, np.uint32)
    Case(
        """cvt.u64.u32 %rd4, %r0; add.s64 %rd5, %rd0, %rd4;
        ld.global.s8 %h1, [%rd5];
        setp.eq.s16 %p1, %h1, -1; setp.eq.b16 %p2, %h1, 0xffff;
        cvt.u32.u16 %r5, %h1; @%p1 add.u32 %r5, %r5, 65536;
        @%p2 add.u32 %r5, %r5, 131072;
        mul.wide.u32 %rd4, %r0, 4; add.s64 %rd5, %rd1, %rd4;
        st.global.u32 [%rd5], %r5;"""
    ).clean(src, out)
    want = src.astype(np.int16).view(np.uint16)
    np.testing.assert_array_equal(out, want + 196608 * (src == -1))


VECTORS = [
    ("v2", "b32", "%r", 4),
    ("v4", "b32", "%r", 4),
    ("v8", "b32", "%r", 4),
    ("v2", "b64", "%rd1", 8),
    ("v4", "b64", "%rd1", 8),
    ("v2", "b16", "%h", 2),
    ("v4", "b16", "%h", 2),
    ("v4", "b8", "%r", 1),
]


@pytest.mark.parametrize(("vec", "kind", "prefix", "size"), VECTORS)
@pytest.mark.parametrize("hop", ["global", "shared", "generic", "local"])
def test_vectors_round_trip(
    vec: str, kind: str, prefix: str, size: int, hop: str
) -> None:
    n = int(vec[1:])
    total = n * size
    if total == 32 and hop != "global":
        pytest.skip("256-bit vectors are global only")
    src = np.frombuffer(np.random.default_rng(2).bytes(32 * total), np.uint8).copy()
    out = np.zeros_like(src)
    names = ", ".join(f"{prefix}{k + 10 if prefix == '%r' else k}" for k in range(n))
    # Loads and stores differ in the order of the elements only if both are wrong.
    first = f"ld.global.{vec}.{kind} {{{names}}}, [%rd5];"
    via = {
        "global": "",
        "shared": f"""mov.u32 %r60, tile; mad.lo.u32 %r60, %r0, {total}, %r60;
            st.shared.{vec}.{kind} [%r60], {{{names}}};
            ld.shared.{vec}.{kind} {{{names}}}, [%r60];""",
        "generic": f"""mov.u64 %rd20, tile; cvta.shared.u64 %rd20, %rd20;
            add.s64 %rd20, %rd20, %rd4;
            st.{vec}.{kind} [%rd20], {{{names}}};
            ld.{vec}.{kind} {{{names}}}, [%rd20];""",
        "local": f"""st.local.{vec}.{kind} [own+16], {{{names}}};
            ld.local.{vec}.{kind} {{{names}}}, [own+16];""",
    }[hop]
    Case(
        f"""mul.wide.u32 %rd4, %r0, {total}; add.s64 %rd5, %rd0, %rd4;
        {first} {via}
        add.s64 %rd6, %rd1, %rd4;
        st.global.{vec}.{kind} [%rd6], {{{names}}};""",
        declare=".shared .align 16 .b8 tile[1024];\n.local .align 16 .b8 own[64];",
    ).clean(src, out)
    np.testing.assert_array_equal(out, src)


def test_128_bit_registers_and_sinks() -> None:
    src = np.arange(64, dtype=np.uint64) * 0x0123_4567_89AB
    out = np.zeros(64, np.uint64)
    Case(
        """mul.wide.u32 %rd4, %r0, 16; add.s64 %rd5, %rd0, %rd4;
        add.s64 %rd6, %rd1, %rd4;
        ld.global.b128 %q1, [%rd5];
        st.global.b128 [%rd6], %q1;"""
    ).clean(src, out)
    np.testing.assert_array_equal(out, src)
    out[:] = 0
    Case(
        """mul.wide.u32 %rd4, %r0, 16; add.s64 %rd5, %rd0, %rd4;
        add.s64 %rd6, %rd1, %rd4;
        ld.global.v2.b64 {_, %rd10}, [%rd5];
        st.global.b64 [%rd6+8], %rd10;"""
    ).clean(src, out)
    np.testing.assert_array_equal(out[1::2], src[1::2])
    assert not out[::2].any()


def test_masked_lanes_neither_load_nor_store() -> None:
    src, out = np.arange(32, dtype=np.uint32) + 5, np.full(32, 7, np.uint32)
    Case(
        """and.b32 %r5, %r0, 1; setp.eq.u32 %p1, %r5, 1;
        mov.u32 %r6, 99;
        mul.wide.u32 %rd4, %r0, 4; add.s64 %rd5, %rd0, %rd4; add.s64 %rd6, %rd1, %rd4;
        selp.b64 %rd5, %rd5, 0, %p1;
        @%p1 ld.global.b32 %r6, [%rd5];
        setp.lt.u32 %p2, %r0, 16;
        @%p2 st.global.b32 [%rd6], %r6;"""
    ).clean(src, out)
    want = np.where(LANES < 16, np.where(LANES & 1, src, 99), 7)
    np.testing.assert_array_equal(out, want)


def test_highest_lane_wins_and_stores_narrow() -> None:
    out = np.zeros(4, np.uint16)
    Case("add.u32 %r5, %r0, 0x12340000; st.global.u16 [%rd0+2], %r5;").clean(out)
    np.testing.assert_array_equal(out, [0, 31, 0, 0])


def test_lanes_may_hit_two_allocations() -> None:
    a, b = np.arange(32, dtype=np.uint32), np.arange(32, dtype=np.uint32) + 100
    out = np.zeros(32, np.uint32)
    Case(
        """and.b32 %r5, %r0, 1; setp.eq.u32 %p1, %r5, 1;
        mul.wide.u32 %rd4, %r0, 4;
        selp.b64 %rd5, %rd0, %rd1, %p1; add.s64 %rd5, %rd5, %rd4;
        ld.global.b32 %r6, [%rd5]; add.s64 %rd6, %rd2, %rd4;
        st.global.b32 [%rd6], %r6;"""
    ).clean(a, b, out)
    np.testing.assert_array_equal(out, np.where(LANES & 1, a, b))


STORE = """mul.wide.u32 %rd4, %r0, 4; add.s64 %rd6, %rd1, %rd4;
st.global.b32 [%rd6], %r6;"""


def test_out_of_bounds_read_gives_zero_and_tells_where() -> None:
    src, out = np.arange(16, dtype=np.uint32) + 1, np.full(32, 7, np.uint32)
    result = Case(
        f"""mul.wide.u32 %rd4, %r0, 4; add.s64 %rd5, %rd0, %rd4;
        ld.global.b32 %r6, [%rd5]; {STORE}"""
    ).faulty("oob-read", src, out)
    (found,) = result.faults
    assert (found.lane, found.address, found.size) == (16, BASE + 64, 4)
    assert (found.count, found.allocation) == (16, 0)
    np.testing.assert_array_equal(out, np.where(LANES < 16, LANES + 1, 0))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("st.global.b32 [%rd0+64], %r0;", "oob-write"),
        ("st.global.b32 [%rd0+2], %r0;", "misaligned"),
        ("ld.global.v2.b32 {%r5, %r6}, [%rd0+4];", "misaligned"),
        ("ld.global.b32 %r5, [%rd0+-4];", "oob-read"),
        ("ld.shared.b32 %r5, [tile+16];", "smem-oob"),
        ("mov.u32 %r5, 0; ld.shared.b32 %r6, [%r5];", "smem-oob"),
        ("st.shared.b32 [tile+2], %r0;", "smem-misaligned"),
        ("mov.u32 %r5, 0xfffffffc; ld.shared.b64 %rd7, [%r5];", "smem-misaligned"),
        ("mov.u32 %r5, 0xfffffff8; ld.shared.b64 %rd7, [%r5];", "smem-oob"),
        ("ld.local.b32 %r5, [own+8192];", "local-oob"),
        ("mov.u64 %rd7, 0xffffffffffffffff; ld.global.u8 %r5, [%rd7];", "oob-read"),
        ("mov.u64 %rd7, 0x9000000000000000; ld.u8 %r5, [%rd7];", "oob-read"),
        ("mov.u64 %rd7, 0x3000000000000100; ld.u8 %r5, [%rd7];", "param-oob"),
    ],
)
def test_faults(body: str, kind: str) -> None:
    buffer = np.zeros(64, np.uint8)
    declare = ".shared .align 16 .b8 tile[16];\n.local .align 8 .b8 own[16];"
    Case(body, declare=declare).faulty(kind, buffer)
    assert not buffer.any()


def test_one_lane_below_shared_memory_while_others_are_inside() -> None:
    body = """mov.u32 %r5, tile; setp.eq.u32 %p1, %r0, 9; selp.b32 %r5, 16, %r5, %p1;
    mov.u32 %r6, 5; st.shared.b32 [tile], 3; ld.shared.b32 %r6, [%r5];"""
    out = np.full(32, 7, np.uint32)
    declare = ".shared .align 16 .b8 tile[16];"
    result = Case(body + STORE.replace("%rd1", "%rd0"), declare=declare).faulty(
        "smem-oob", out
    )
    assert (result.faults[0].lane, result.faults[0].count) == (9, 1)
    np.testing.assert_array_equal(out, np.where(LANES == 9, 0, 3))


def test_lanes_may_mix_address_windows() -> None:
    out = np.zeros(32, np.uint32)
    body = """mov.u64 %rd7, tile; cvta.shared.u64 %rd7, %rd7; st.b32 [%rd7], 3;
    st.global.b32 [%rd0], 8; setp.lt.u32 %p1, %r0, 16; selp.b64 %rd7, %rd7, %rd0, %p1;
    bar.warp.sync -1; ld.b32 %r6, [%rd7];"""
    declare = ".shared .align 16 .b8 tile[16];"
    Case(body + STORE.replace("%rd1", "%rd0"), declare=declare).clean(out)
    np.testing.assert_array_equal(out, np.where(LANES < 16, 3, 8))


def test_read_only_freed_and_uninitialised_memory() -> None:
    buffer = np.zeros(64, np.uint32)
    Case("st.global.b32 [%rd0], %r0;", flags=abi.ALLOC_READ).faulty("readonly", buffer)
    body = "ld.global.b32 %r5, [%rd0];"
    Case(body, flags=abi.ALLOC_FREED | abi.ALLOC_READ).faulty("freed", buffer)
    init = np.zeros(256, np.uint8)
    init[:3] = 1
    Case(body, init=init).faulty("uninit", buffer)
    init[:] = 0
    both = "st.global.b32 [%rd0+8], %r0; ld.global.b32 %r5, [%rd0+8];"
    Case(both, init=init).clean(buffer)
    np.testing.assert_array_equal(np.flatnonzero(init), [8, 9, 10, 11])


def test_uninitialised_shared_memory_has_the_fill_pattern() -> None:
    out = np.zeros(32, np.uint32)
    Case(
        f"ld.shared.b32 %r6, [tile]; {STORE.replace('%rd1', '%rd0')}",
        declare=".shared .align 16 .b8 tile[16];",
        options=Options(smem_fill=0xDEADBEEF),
    ).clean(out)
    assert (out == 0xDEADBEEF).all()


def test_shared_symbols_lie_in_the_own_window_of_every_rank() -> None:
    out = np.zeros(4, np.uint32)
    Case(
        """mov.u32 %r5, %cluster_ctarank; mov.u32 %r6, tile;
        st.shared.b32 [tile], %r5; st.shared.b32 [%r6+4], %r5;
        ld.shared::cta.v2.b32 {%r7, %r8}, [tile]; add.u32 %r7, %r7, %r8;
        shr.u32 %r6, %r6, 24; mad.lo.u32 %r7, %r6, 100, %r7;
        mul.wide.u32 %rd4, %r5, 4; add.s64 %rd5, %rd0, %rd4;
        st.global.b32 [%rd5], %r7;""",
        declare=".shared .align 16 .b8 tile[16];",
        grid=4,
        cluster=4,
    ).clean(out)
    np.testing.assert_array_equal(out, [0, 102, 204, 306])


def test_st_bulk_zeroes_and_discard_poisons() -> None:
    out = np.zeros(96, np.uint32)
    Case(
        """setp.eq.u32 %p1, %r0, 0;
        mul.lo.u32 %r5, %r0, 4; mov.u32 %r6, tile; add.u32 %r6, %r6, %r5;
        st.shared.b32 [%r6], 1; bar.warp.sync -1;
        mov.u64 %rd7, 64; mov.u64 %rd8, tile;
        @%p1 st.bulk.weak.shared::cta [%rd8+32], %rd7, 0; bar.warp.sync -1;
        ld.shared.b32 %r6, [%r6]; mul.wide.u32 %rd4, %r0, 4; add.s64 %rd5, %rd0, %rd4;
        st.global.b32 [%rd5], %r6;
        @%p1 discard.global.L2 [%rd0+256], 128;""",
        declare=".shared .align 16 .b8 tile[128];",
    ).clean(out)
    np.testing.assert_array_equal(out[:32], [1] * 8 + [0] * 16 + [1] * 8)
    assert not out[32:64].any()
    assert (out[64:] == 0xFFFF_FFFF).all()


def test_param_and_const_forms() -> None:
    out = np.zeros(32, np.uint64)
    Case(
        """ld.param.v2.b32 {%r5, %r6}, [buf1]; mov.b64 %rd7, {%r5, %r6};
        mul.wide.u32 %rd4, %r0, 8; add.s64 %rd5, %rd0, %rd4;
        st.global.b64 [%rd5], %rd7;"""
    ).clean(out)
    assert (out == BASE + STRIDE).all()


def test_hints_change_nothing_and_the_rest_is_refused() -> None:
    Case(
        """prefetch.global.L2 [%rd0]; prefetchu.L1 [%rd0];
        createpolicy.fractional.L2::evict_last.b64 %rd7, 0f3F800000;
        ld.global.nc.L1::no_allocate.L2::cache_hint.L2::128B.b32 %r5, [%rd0], %rd7;
        st.global.L2::cache_hint.b32 [%rd0], %r5, %rd7;"""
    ).clean(np.zeros(4, np.uint32))
    assert "param::func" in Case("ld.param::func.b32 %r5, [%rd0];").unsupported()
