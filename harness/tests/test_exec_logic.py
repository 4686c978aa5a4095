"""Logic, shifts and bit fields against the ISA's own definitions, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from instruction_table import Row, check, operands, signed
from kernel_case import PRED, evaluate, run_kernel

ONES = 0xFFFF_FFFF


def _dtype(bits: int) -> np.dtype[np.generic]:
    return np.dtype(f"u{bits // 8}")


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_bitwise(bits: int) -> None:
    a, b, _ = operands(bits, bits)
    full = (1 << bits) - 1
    table: tuple[tuple[str, Callable[..., int]], ...] = (
        ("and.b{} %d, %a, %b;", lambda a, b: a & b),
        ("or.b{} %d, %a, %b;", lambda a, b: a | b),
        ("xor.b{} %d, %a, %b;", lambda a, b: a ^ b),
        ("not.b{} %d, %a;", lambda a, b: a ^ full),
        ("cnot.b{} %d, %a;", lambda a, b: int(a == 0)),
    )
    check([Row(t.format(bits), f, _dtype(bits)) for t, f in table], a=a, b=b)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_shifts_clamp_to_the_width(bits: int) -> None:
    a, _, c = operands(bits, 3 * bits)
    amounts = [0, 1, bits - 1, bits, bits + 1, 31, 32, 63, 64, 65, 256, 1 << 31, ONES]
    n = np.resize(np.array(amounts, np.uint32), len(a))
    dtype = _dtype(bits)
    rows = [
        Row(f"shl.b{bits} %d, %a, %n;", lambda a, n: a << min(n, 99), dtype),
        Row(f"shr.b{bits} %d, %a, %n;", lambda a, n: a >> n, dtype),
        Row(f"shr.u{bits} %d, %a, %n;", lambda a, n: a >> n, dtype),
        Row(f"shr.s{bits} %d, %a, %n;", lambda a, n: signed(a, bits) >> n, dtype),
    ]
    check(rows, a=a, n=n)
    check(rows, a=c, n=n[::-1].copy())


def test_funnel_shifts() -> None:
    a, b, c = operands(32, 5)
    c = np.where(np.arange(len(c)) % 2, c % 40, c)

    def left(a: int, b: int, n: int) -> int:
        return (b << 32 | a) << n >> 32 & ONES

    def right(a: int, b: int, n: int) -> int:
        return (b << 32 | a) >> n & ONES

    rows = [
        Row("shf.l.clamp.b32 %d, %a, %b, %c;", lambda a, b, c: left(a, b, min(c, 32))),
        Row("shf.r.clamp.b32 %d, %a, %b, %c;", lambda a, b, c: right(a, b, min(c, 32))),
        Row("shf.l.wrap.b32 %d, %a, %b, %c;", lambda a, b, c: left(a, b, c % 32)),
        Row("shf.r.wrap.b32 %d, %a, %b, %c;", lambda a, b, c: right(a, b, c % 32)),
    ]
    check(rows, a=a, b=b, c=c)


def _lop3(table: int) -> Callable[..., int]:
    def want(a: int, b: int, c: int) -> int:
        result = 0
        for row in range(8):
            if table >> row & 1:
                term = ONES
                for value, bit in ((a, 4), (b, 2), (c, 1)):
                    term &= value if row & bit else ~value
                result |= term
        return result & ONES

    return want


def test_every_lop3_table() -> None:
    a = np.array([0xF0F0_F0F0, 0x1234_5678, ONES, 0], np.uint32)
    b = np.array([0xCCCC_CCCC, 0x9ABC_DEF0, 0, ONES], np.uint32)
    c = np.array([0xAAAA_AAAA, 0x0F1E_2D3C, ONES, ONES], np.uint32)
    rows = [Row(f"lop3.b32 %d, %a, %b, %c, {t};", _lop3(t)) for t in range(256)]
    check(rows, a=a, b=b, c=c)
    got = evaluate("lop3.b32 %d, %a, %b, %c, 0x1A;", {"d": "u4"}, a=a, b=b, c=c)
    assert (got["d"] == ((a & b | c) ^ a)).all()  # the ISA's own example


def test_lop3_with_a_predicate() -> None:
    a = np.array([0, 1, 0, 7] * 8, np.uint32)
    q = np.array([0, 0, 1, 1] * 8, np.uint32)
    body = """.reg .pred %q, %g; setp.ne.u32 %q, %t, 0; setp.lt.u32 %g, %thread, 16;
    lop3.or.b32 %d|%p, %a, %a, %a, 0x80, %q;
    lop3.and.b32 _|%r, %a, %a, %a, 0x80, !%q;
    mov.u32 %e, 99; mov.pred %s, 0;
    @%g lop3.or.b32 %e|%g, %a, %a, %a, 0x80, 0;
    mov.pred %s, %g;"""
    outputs = {"d": "u4", "e": "u4", "p": PRED, "r": PRED, "s": PRED}
    got = evaluate(body, outputs, a=a, t=q)
    assert (got["d"] == a).all()
    assert (got["p"] == ((a != 0) | (q != 0))).all()
    assert (got["r"] == ((a != 0) & (q == 0))).all()
    on = np.arange(32) < 16
    assert (got["e"] == np.where(on, a, 99)).all()
    assert (got["s"] == (on & (a != 0))).all()


@pytest.mark.parametrize("bits", [32, 64])
def test_counting(bits: int) -> None:
    a, _, _ = operands(bits, 7 * bits)

    def top(v: int) -> int:
        return v.bit_length() - 1 if v else ONES

    def found(v: int) -> int:
        return top(v ^ (1 << bits) - 1 if v >> (bits - 1) else v)

    def shift(v: int) -> int:
        return v if v == ONES else bits - 1 - v

    rows = [
        Row(f"popc.b{bits} %d, %a;", lambda a: bin(a).count("1")),
        Row(f"clz.b{bits} %d, %a;", lambda a: bits - a.bit_length()),
        Row(
            f"brev.b{bits} %d, %a;",
            lambda a: int(f"{a:0{bits}b}"[::-1], 2),
            _dtype(bits),
        ),
        Row(f"bfind.u{bits} %d, %a;", top),
        Row(f"bfind.s{bits} %d, %a;", found),
        Row(f"bfind.shiftamt.u{bits} %d, %a;", lambda a: shift(top(a))),
        Row(f"bfind.shiftamt.s{bits} %d, %a;", lambda a: shift(found(a))),
    ]
    check(rows, a=a)


def _fns(mask: int, base: int, offset: int) -> int:
    """The loop that the ISA gives as semantics."""
    offset = signed(offset, 32)
    if offset == 0:
        return base if mask >> base & 1 else ONES
    position, count = base, abs(offset) - 1
    step = 1 if offset > 0 else -1
    while 0 <= position < 32:
        if mask >> position & 1:
            if count == 0:
                return position
            count -= 1
        position += step
    return ONES


def test_find_nth_set() -> None:
    rng = np.random.default_rng(8)
    m = rng.integers(0, 1 << 32, 2000, np.uint32) & rng.integers(0, 1 << 32, 2000)
    m = np.concatenate([m.astype(np.uint32), np.full(4, 0xAAAA_AAAA, np.uint32)])
    base = np.concatenate([rng.integers(0, 32, 2000), [3, 3, 2, 2]]).astype(np.uint32)
    n = np.concatenate([rng.integers(-12, 13, 2000), [1, -1, 1, -1]]).astype(np.int32)
    n[:3] = 2**31 - 1, -(2**31), 0
    check([Row("fns.b32 %d, %m, %b, %n;", _fns)], m=m, b=base, n=n)
    got = evaluate("fns.b32 %d, %m, %b, %n;", {"d": "u4"}, m=m, b=base, n=n)
    assert got["d"][-4:].tolist() == [3, 3, 3, 1]  # the ISA's examples


def test_find_nth_set_refuses_a_base_past_the_word() -> None:
    ran = run_kernel("fns.b32 %d, 1, 32, 1;", outputs={"d": "u4"}, threads=1)
    assert [f.kind for f in ran.result.faults] == ["illegal"]


def _positions(count: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    rng = np.random.default_rng(seed)
    some = rng.integers(0, 72, count, np.uint32)
    some[::7] = np.resize(
        np.array([0, 31, 32, 63, 64, 255, 256, ONES], "u4"), some[::7].size
    )
    return some


def _constant(
    field: Callable[..., int], a: int, b: int, *_: int, pos: int, length: int
) -> int:
    return field(a, b, pos, length)


@pytest.mark.parametrize("bits", [32, 64])
def test_bit_fields(bits: int) -> None:
    a, b, _ = operands(bits, 9 * bits)
    p, n = _positions(len(a), 1), _positions(len(a), 2)
    dtype = _dtype(bits)

    def extract(kind: str) -> Callable[..., int]:
        def want(a: int, b: int, p: int, n: int) -> int:
            pos, length, msb = p & 255, n & 255, bits - 1
            sign = 0
            if kind == "s" and length:
                sign = a >> min(pos + length - 1, msb) & 1
            result = 0
            for i in range(bits):
                inside = i < length and pos + i <= msb
                result |= (a >> (pos + i) & 1 if inside else sign) << i
            return result

        return want

    def insert(a: int, b: int, p: int, n: int) -> int:
        pos, length = p & 255, n & 255
        for i in range(length):
            if pos + i >= bits:
                break
            b = b & ~(1 << (pos + i)) | (a >> i & 1) << (pos + i)
        return b

    rows = [
        Row(f"bfe.u{bits} %d, %a, %p, %n;", extract("u"), dtype),
        Row(f"bfe.s{bits} %d, %a, %p, %n;", extract("s"), dtype),
        Row(f"bfi.b{bits} %d, %a, %b, %p, %n;", insert, dtype),
    ]
    # Constant positions take a way of their own.
    for pos, length in ((0, 8), (5, 5), (bits - 4, 9), (0, bits), (3, 0), (99, 4)):
        for kind in "us":
            field = extract(kind)
            text = f"bfe.{kind}{bits} %d, %a, {pos}, {length};"
            rows.append(
                Row(text, partial(_constant, field, pos=pos, length=length), dtype)
            )
    check(rows, a=a, b=b, p=p, n=n)


def test_extension_and_masks() -> None:
    """Szext and bmsk by the ISA's semantics, with its fixed-width shifts."""
    a, _, _ = operands(32, 10)
    n = _positions(len(a), 3)
    p = _positions(len(a), 4)

    def szext(mode: str, kind: str) -> Callable[..., int]:
        def want(a: int, n: int, p: int) -> int:
            b1 = n & 31
            if n >= 32 and mode == "clamp":
                return a
            mask = ONES << b1 & ONES
            sign = kind == "s" and b1 and a >> (b1 - 1) & 1
            return a & ~mask | (mask if sign else 0)

        return want

    def bmsk(mode: str) -> Callable[..., int]:
        def want(a: int, n: int, p: int) -> int:
            start, length = p & 31, n & 31
            if mode == "clamp":
                if p >= 32:
                    return 0
                length = min(n, 32)
            return ((1 << length) - 1) << start & ONES

        return want

    rows = [
        Row(f"szext.{m}.{k}32 %d, %a, %n;", szext(m, k))
        for m in ("clamp", "wrap")
        for k in "us"
    ]
    rows += [Row(f"bmsk.{m}.b32 %d, %p, %n;", bmsk(m)) for m in ("clamp", "wrap")]
    check(rows, a=a, n=n, p=p)


_SELECTORS = {  # PTX ISA, prmt: source of d.b3, d.b2, d.b1, d.b0 for c[1:0] = 0..3
    "f4e": ("3210", "4321", "5432", "6543"),
    "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"),
    "rc16": ("1010", "3232", "1010", "3232"),
}


def test_permutations() -> None:
    a, b, c = operands(32, 12)

    def pick(a: int, b: int, selector: int) -> int:
        word, result = b << 32 | a, 0
        for k in range(4):
            s = selector >> 4 * k & 15
            byte = word >> 8 * (s & 7) & 255
            if s & 8:
                byte = 255 if byte & 128 else 0
            result |= byte << 8 * k
        return result

    rows = [Row("prmt.b32 %d, %a, %b, %c;", pick)]
    rows += [
        Row(
            f"prmt.b32.{mode} %d, %a, %b, %c;",
            lambda a, b, c, t=table: pick(a, b, int(t[c & 3], 16)),
        )
        for mode, table in _SELECTORS.items()
    ]
    rows += [
        Row(f"prmt.b32 %d, %a, %b, {s:#x};", lambda a, b, c, s=s: pick(a, b, s))
        for s in (0x5410, 0x7632, 0x3210, 0xFEDC, 0x8888, 0x0123, 0xFFFF1234)
    ]
    check(rows, a=a, b=b, c=c)
