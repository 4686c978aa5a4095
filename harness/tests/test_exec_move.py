"""Moves, packing, selection and addresses (PTX ISA, Data Movement and Conversion)."""

from __future__ import annotations

import numpy as np
import pytest
from instruction_table import operands
from kernel_case import PRED, evaluate, run_kernel

A32 = np.array([0, 1, 0x8000_0000, 0xFFFF_FFFF, 0x1234_5678, 0x9ABC_DEF0], np.uint32)
B32 = A32[::-1].copy()


def test_moves_of_every_width() -> None:
    body = """mov.b32 %w, %a; mov.f32 %x, 0f3F800000; mov.f32 %y, 0.1;
    mov.u64 %l, %b; mov.f64 %m, 0d3FF0000000000000; mov.f64 %n, 0.1;
    mov.b16 %h, %c; mov.s16 %i, -2; mov.u32 %u, 0x80000000; mov.s64 %v, -1;
    mov.pred %p, 1; mov.pred %q, 0; .reg .pred %r; setp.lt.u32 %r, %thread, 3;
    mov.pred %s, %r; .reg .b128 %t, %o; mov.b128 %t, {%b, %k}; mov.b128 %o, %t;
    mov.b128 {%z0, %z1}, %o;"""
    outputs = {
        **dict.fromkeys(("w", "x", "y", "u"), np.uint32),
        **dict.fromkeys(("l", "m", "n", "v", "z0", "z1"), np.uint64),
        **dict.fromkeys(("h", "i"), np.uint16),
        **dict.fromkeys("pqs", PRED),
    }
    b = A32.astype(np.uint64) << np.uint64(32) | B32
    c, k = A32.astype(np.uint16), ~b
    got = evaluate(body, outputs, a=A32, b=b, c=c, k=k)
    assert (got["w"] == A32).all()
    assert (got["x"] == 0x3F800000).all()
    assert (got["y"].view(np.float32) == np.float32(0.1)).all()
    assert (got["l"] == b).all()
    assert (got["m"].view(np.float64) == 1).all()
    assert (got["n"].view(np.float64) == 0.1).all()
    assert (got["h"] == c).all()
    assert (got["i"] == 0xFFFE).all()
    assert (got["u"] == 0x8000_0000).all()
    assert (got["v"] == np.uint64(2**64 - 1)).all()
    assert got["p"].all()
    assert not got["q"].any()
    assert (got["s"] == (np.arange(6) < 3)).all()
    assert (got["z0"] == b).all()
    assert (got["z1"] == k).all()


def test_packing_and_unpacking() -> None:
    """Every pair of sizes; the lowest element comes first."""
    h = [A32.astype(np.uint16), (A32 >> 16).astype(np.uint16)]
    h += [B32.astype(np.uint16), (B32 >> 16).astype(np.uint16)]
    body = """
    mov.b32 %w, {%h0, %h1}; mov.b64 %l, {%h0, %h1, %h2, %h3}; mov.b64 %m, {%a, %b};
    .reg .b128 %t, %o; mov.b128 %t, {%a, %b, %b, %a}; mov.b128 {%z0, %z1}, %t;
    mov.b128 {%y0, %y1, %y2, %y3}, %t; mov.b128 {_, %x1}, %t;
    mov.b32 {%i0, %i1}, %a; mov.b64 {%i2, _, %i3, %i4}, %l; mov.b64 {_, %u}, %m;
    .reg .b8 %c<6>; mov.b32 {%c0, %c1, %c2, %c3}, %a; mov.b32 %v, {%c3, %c2, %c1, %c0};
    mov.b16 {%c4, %c5}, %h0; mov.b16 %j, {%c5, %c4};
    """
    outputs = {
        **dict.fromkeys(("w", "u", "v", "y0", "y1", "y2", "y3"), np.uint32),
        **dict.fromkeys(("l", "m", "z0", "z1", "x1"), np.uint64),
        **dict.fromkeys(("i0", "i1", "i2", "i3", "i4", "j"), np.uint16),
    }
    halves = {f"h{k}": v for k, v in enumerate(h)}
    got = evaluate(body, outputs, a=A32, b=B32, **halves)
    long = A32 | B32.astype(np.uint64) << np.uint64(32)
    back = B32 | A32.astype(np.uint64) << np.uint64(32)
    assert (got["w"] == A32).all()
    assert (got["l"] == long).all()
    assert (got["m"] == long).all()
    assert (got["z0"] == long).all()
    assert (got["z1"] == back).all()
    assert (got["x1"] == back).all()
    for k, want in enumerate((A32, B32, B32, A32)):
        assert (got[f"y{k}"] == want).all()
    for k, want in enumerate((h[0], h[1], h[0], h[2], h[3])):
        assert (got[f"i{k}"] == want).all()
    assert (got["u"] == B32).all()
    assert (got["v"] == A32.byteswap()).all()
    assert (got["j"] == h[0].byteswap()).all()


def test_unpacking_over_its_own_source() -> None:
    """A register may be both source and destination, whatever the order."""
    body = """.reg .b64 %t; mov.b64 %t, {%a, %b}; mov.b64 {%b, %a}, %t;
    mov.b32 %c, {%h, %i}; mov.b32 {%i, %h}, %c; mov.b32 %d, {%h, %i};"""
    h, i = A32.astype(np.uint16), B32.astype(np.uint16)
    outputs = {"a": np.uint32, "b": np.uint32, "c": np.uint32, "d": np.uint32}
    got = evaluate(body, outputs, a=A32, b=B32, h=h, i=i)
    assert (got["a"] == B32).all()
    assert (got["b"] == A32).all()
    assert (got["c"] == (h | i.astype(np.uint32) << np.uint32(16))).all()
    assert (got["d"] == (i | h.astype(np.uint32) << np.uint32(16))).all()


def test_guards_leave_other_lanes_alone() -> None:
    a = np.arange(100, dtype=np.uint32)
    d = np.full(100, 7, np.uint32)
    w = np.full(100, 9, np.uint64)
    body = """.reg .pred %p; setp.lt.u32 %p, %a, 50; @%p mov.u32 %d, %a;
    @!%p mov.u32 %e, %tid.x; @%p add.f32x2 %w, %w, %w; @%p mov.u32 %f, WARP_SZ;
    @%p mov.b64 {%x, %y}, %w;"""
    e = f = x = y = d
    outputs = {**dict.fromkeys("defxy", np.uint32), "w": np.uint64}
    got = evaluate(body, outputs, a=a, d=d, e=e, f=f, w=w, x=x, y=y)
    low = a < 50
    assert (got["d"] == np.where(low, a, 7)).all()
    assert (got["e"] == np.where(low, 7, a)).all()
    assert (got["f"] == np.where(low, 32, 7)).all()
    assert (got["w"] == np.where(low, 18, 9)).all()  # 9 + 9 subnormal units
    assert (got["x"] == np.where(low, 18, 7)).all()
    assert (got["y"] == np.where(low, 0, 7)).all()


def test_selection() -> None:
    a, b, c = operands(32, 1)
    f = c.view(np.float32)
    body = """.reg .pred %p, %q; setp.lt.s32 %p, %c, 0; setp.gt.u32 %q, %a, %b;
    selp.b32 %d0, %a, %b, %p; selp.f32 %d1, %a, 0f3F800000, !%p;
    .reg .b64 %x, %y, %z; cvt.u64.u32 %x, %a; cvt.u64.u32 %y, %b;
    selp.b64 %w0, %x, %y, %p; .reg .b16 %h, %i; cvt.u16.u32 %h, %a;
    selp.b16 %v, %h, -1, %p; slct.u32.s32 %d2, %a, %b, %c; slct.b64.s32 %w1, %x, %y, %c;
    slct.f32.f32 %d3, %a, %b, %c; slct.ftz.s32.f32 %d4, %a, %b, %c;
    slct.u64.f32 %w2, %x, %y, %c;"""
    outputs = {
        **dict.fromkeys(("d0", "d1", "d2", "d3", "d4"), np.uint32),
        **dict.fromkeys(("w0", "w1", "w2"), np.uint64),
        "v": np.uint16,
    }
    got = evaluate(body, outputs, a=a, b=b, c=c)
    negative = c.view(np.int32) < 0
    with np.errstate(invalid="ignore"):
        ordered = f >= 0
    tiny = c & 0x7F80_0000 == 0
    assert (got["d0"] == np.where(negative, a, b)).all()
    assert (got["d1"] == np.where(negative, 0x3F80_0000, a)).all()
    assert (got["w0"] == np.where(negative, a, b)).all()
    assert (got["v"] == np.where(negative, a & 0xFFFF, 0xFFFF)).all()
    assert (got["d2"] == np.where(negative, b, a)).all()
    assert (got["w1"] == np.where(negative, b, a)).all()
    assert (got["d3"] == np.where(ordered, a, b)).all()
    assert (got["d4"] == np.where(ordered | tiny, a, b)).all()
    assert (got["w2"] == np.where(ordered, a, b)).all()


def test_addresses_of_variables_and_windows() -> None:
    """`mov` takes the address in the space, `cvta` the generic one and back."""
    module = ".shared .align 16 .b8 first[48]; .shared .align 16 .b8 second[64];"
    body = """.local .align 8 .b8 stack[32];
    .reg .b64 %s, %g, %l, %p, %o, %t; .reg .pred %q;
    mov.u64 %s, second; mov.u32 %n, second+8; cvta.shared.u64 %g, %s;
    cvta.to.shared.u64 %u, %g; mov.u64 %v, %s; cvta.shared.u64 %w, second+4;
    mov.u64 %l, stack; cvta.local.u64 %t, %l; cvta.to.local.u64 %x, %t; mov.u64 %y, %l;
    cvta.to.global.u64 %o, %out; mov.u64 %z, %o; mov.u64 %e, %out;
    mov.b64 %p, kc_out; cvta.param.u64 %p, %p;
    isspacep.shared %is0, %g; isspacep.global %is1, %g; isspacep.local %is2, %g;
    isspacep.global %is3, %o; isspacep.shared %is4, %o; isspacep.local %is5, %t;
    isspacep.param %is6, %p; isspacep.global %is7, %p;
    isspacep.shared::cluster %is8, %g;
    .reg .b32 %k; mov.u32 %k, 77; st.shared.u32 [second+4], %k; ld.u32 %m, [%w];
    st.local.u32 [stack+8], %k; ld.u32 %r, [%t+8];"""
    outputs = {
        **dict.fromkeys("nmr", np.uint32),
        **dict.fromkeys("uvwxyze", np.uint64),
        **{f"is{k}": PRED for k in range(9)},
    }
    buffers = {"out": np.zeros(4, np.uint32)}
    ran = run_kernel(body, outputs=outputs, buffers=buffers, threads=32, module=module)
    assert not ran.program.unsupported
    assert ran.result.status == "done"
    assert not ran.result.faults
    got = ran.outputs
    assert (got["n"] == got["v"] + 8).all()
    for there, back in ("vu", "yx", "ez"):
        assert (got[there] == got[back]).all()
    truths = [int(got[f"is{k}"][0]) for k in range(9)]
    assert truths == [1, 0, 0, 1, 0, 1, 1, 1, 1]
    assert (got["m"] == 77).all()
    assert (got["r"] == 77).all()


def test_predicate_logic() -> None:
    a = np.arange(32, dtype=np.uint32)
    body = """.reg .pred %p, %q; setp.lt.u32 %p, %a, 20; setp.gt.u32 %q, %a, 10;
    and.pred %r0, %p, %q; or.pred %r1, %p, %q; xor.pred %r2, %p, %q; not.pred %r3, %p;
    and.pred %r4, %p, !%q;"""
    got = evaluate(body, {f"r{k}": PRED for k in range(5)}, a=a)
    p, q = a < 20, a > 10
    for k, want in enumerate((p & q, p | q, p ^ q, ~p, p & ~q)):
        assert (got[f"r{k}"] == want).all()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cvta.shared.u32 %d, %a;", "32-bit generic"),
        ("isspacep.const %p, %a;", "isspacep.const"),
    ],
)
def test_what_is_not_modelled_is_incomplete(text: str, reason: str) -> None:
    outputs = {"d": np.uint32, "p": PRED}
    ran = run_kernel(text, inputs={"a": A32}, outputs=outputs)
    assert ran.result.status == "unsupported"
    assert reason in ran.program.unsupported[0][1]
