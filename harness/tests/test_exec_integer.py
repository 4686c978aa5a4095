"""Integer arithmetic against Python's integers (PTX ISA, Integer Arithmetic)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from instruction_table import Row, check, operands, signed
from kernel_case import evaluate, run_kernel

SIZES = (16, 32, 64)


def _dtype(bits: int) -> np.dtype[np.generic]:
    return np.dtype(f"u{bits // 8}")


def _number(kind: str, value: int) -> int:
    """A pattern as the number that type `kind` reads in it."""
    bits = int(kind[1:])
    return signed(value, bits) if kind[0] == "s" else value


def _div(a: int, b: int) -> int:
    """Quotient towards zero."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def _rem(a: int, b: int) -> int:
    return a - b * _div(a, b)


@pytest.mark.parametrize("bits", SIZES)
def test_sums_and_signs(bits: int) -> None:
    a, b, c = operands(bits, bits)
    dtype = _dtype(bits)
    rows = []
    for s in "us":
        kind = f"{s}{bits}"

        def on(f: Callable[..., int], kind: str = kind) -> Callable[..., int]:
            return lambda a, b, c: f(*(_number(kind, v) for v in (a, b, c)))

        rows += [
            Row(f"add.{kind} %d, %a, %b;", on(lambda a, b, c: a + b), dtype),
            Row(f"sub.{kind} %d, %a, %b;", on(lambda a, b, c: a - b), dtype),
            Row(f"min.{kind} %d, %a, %b;", on(lambda a, b, c: min(a, b)), dtype),
            Row(f"max.{kind} %d, %a, %b;", on(lambda a, b, c: max(a, b)), dtype),
            Row(
                f"sad.{kind} %d, %a, %b, %c;",
                on(lambda a, b, c: c + abs(a - b)),
                dtype,
            ),
            Row(f"mul.lo.{kind} %d, %a, %b;", on(lambda a, b, c: a * b), dtype),
            Row(
                f"mul.hi.{kind} %d, %a, %b;",
                on(lambda a, b, c: a * b >> bits),
                dtype,
            ),
            Row(f"mad.lo.{kind} %d, %a, %b, %c;", on(lambda a, b, c: a * b + c), dtype),
            Row(
                f"mad.hi.{kind} %d, %a, %b, %c;",
                on(lambda a, b, c: (a * b >> bits) + c),
                dtype,
            ),
        ]
    kind = f"s{bits}"
    rows += [
        Row(f"neg.{kind} %d, %a;", lambda a, b, c: (1 << bits) - a, dtype),
        Row(f"abs.{kind} %d, %a;", lambda a, b, c: abs(signed(a, bits)) + 0, dtype),
    ]
    check(rows, a=a, b=b, c=c)


@pytest.mark.parametrize("bits", SIZES)
def test_division(bits: int) -> None:
    a, b, _ = operands(bits, 3 * bits)
    b = np.where(b == 0, _dtype(bits).type(3), b)
    rows = []
    for s in "us":
        kind = f"{s}{bits}"

        def on(f: Callable[..., int], kind: str = kind) -> Callable[..., int]:
            # The least number by -1 wraps to itself.
            return lambda a, b: f(_number(kind, a), _number(kind, b)) % (1 << bits)

        rows += [
            Row(f"div.{kind} %d, %a, %b;", on(_div), _dtype(bits)),
            Row(f"rem.{kind} %d, %a, %b;", on(_rem), _dtype(bits)),
        ]
    check(rows, a=a, b=b)


def test_division_by_zero_does_what_hardware_does() -> None:
    a = np.array([0, 5, 0x8000_0000, 0xFFFF_FFFF], np.uint32)
    got = evaluate(
        """div.u32 %q, %a, 0; rem.u32 %r, %a, 0; div.s32 %p, %a, 0; rem.s32 %s, %a, 0;
        """,
        dict.fromkeys("qrps", np.uint32),
        a=a,
    )
    assert (got["q"] == 0xFFFF_FFFF).all()
    assert (got["p"] == 0xFFFF_FFFF).all()
    assert (got["r"] == a).all()
    assert (got["s"] == a).all()


@pytest.mark.parametrize("bits", [16, 32])
def test_wide_products(bits: int) -> None:
    a, b, c = operands(bits, 5 * bits)
    wide = _dtype(2 * bits)
    c = c.astype(wide) * wide.type(0x10001)
    rows = []
    for s in "us":
        kind = f"{s}{bits}"

        def product(a: int, b: int, kind: str = kind) -> int:
            return _number(kind, a) * _number(kind, b)

        rows += [
            Row(
                f"mul.wide.{kind} %d, %a, %b;",
                lambda a, b, c, f=product: f(a, b) % (1 << 2 * bits),
                wide,
            ),
            Row(
                f"mad.wide.{kind} %d, %a, %b, %c;",
                lambda a, b, c, f=product: (f(a, b) + c) % (1 << 2 * bits),
                wide,
            ),
        ]
    check(rows, a=a, b=b, c=c)


def _clamp(value: int, bits: int, *, sign: bool) -> int:
    low, high = (
        (-(1 << bits - 1), (1 << bits - 1) - 1) if sign else (0, (1 << bits) - 1)
    )
    return max(low, min(high, value)) % (1 << bits)


def _24(value: int, *, sign: bool) -> int:
    return signed(value & 0xFFFFFF, 24) if sign else value & 0xFFFFFF


def test_saturating_and_24_bit_forms() -> None:
    a, b, c = operands(32, 7)

    def s(v: int) -> int:
        return signed(v, 32)

    def p24(a: int, b: int, *, sign: bool) -> int:
        return _24(a, sign=sign) * _24(b, sign=sign)

    def m(v: int) -> int:
        return v % (1 << 32)

    rows = [
        Row(
            "add.sat.s32 %d, %a, %b;",
            lambda a, b, c: _clamp(s(a) + s(b), 32, sign=True),
        ),
        Row(
            "sub.sat.s32 %d, %a, %b;",
            lambda a, b, c: _clamp(s(a) - s(b), 32, sign=True),
        ),
        Row("add.sat.u32 %d, %a, %b;", lambda a, b, c: _clamp(a + b, 32, sign=False)),
        Row(
            "mad.hi.sat.s32 %d, %a, %b, %c;",
            lambda a, b, c: _clamp((s(a) * s(b) >> 32) + s(c), 32, sign=True),
        ),
        Row("min.relu.s32 %d, %a, %b;", lambda a, b, c: max(0, min(s(a), s(b)))),
        Row("max.relu.s32 %d, %a, %b;", lambda a, b, c: max(0, s(a), s(b))),
        Row(
            "mad24.hi.sat.s32 %d, %a, %b, %c;",
            lambda a, b, c: _clamp(
                signed(m(p24(a, b, sign=True) >> 16), 32) + s(c), 32, sign=True
            ),
        ),
    ]
    for t, sign in (("u", False), ("s", True)):
        rows += [
            Row(
                f"mul24.lo.{t}32 %d, %a, %b;",
                lambda a, b, c, k=sign: m(p24(a, b, sign=k)),
            ),
            Row(
                f"mul24.hi.{t}32 %d, %a, %b;",
                lambda a, b, c, k=sign: m(p24(a, b, sign=k) >> 16),
            ),
            Row(
                f"mad24.lo.{t}32 %d, %a, %b, %c;",
                lambda a, b, c, k=sign: m(p24(a, b, sign=k) + c),
            ),
            Row(
                f"mad24.hi.{t}32 %d, %a, %b, %c;",
                lambda a, b, c, k=sign: m((p24(a, b, sign=k) >> 16) + c),
            ),
        ]
    check(rows, a=a, b=b, c=c)


_PARTS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "min": min,
    "max": max,
}


def test_packed_parts() -> None:
    a, b, _ = operands(32, 11)

    def packed(op: str, kind: str, how: str) -> Callable[..., int]:
        bits = 16 if kind.endswith("x2") else 8
        sign = kind[0] == "s"

        def parts(v: int) -> list[int]:
            each = [v >> at & (1 << bits) - 1 for at in range(0, 32, bits)]
            return [signed(e, bits) if sign else e for e in each]

        def want(a: int, b: int) -> int:
            total = 0
            for k, (x, y) in enumerate(zip(parts(a), parts(b), strict=True)):
                r = -x if op == "neg" else _PARTS[op](x, y)
                r = _clamp(r, bits, sign=sign) if how == ".sat" else r
                r = max(r, 0) if how == ".relu" else r
                total |= r % (1 << bits) << k * bits
            return total

        return want

    rows = []
    for op, kinds, hows in (
        ("add", ("u16x2", "s16x2", "u8x4", "s8x4"), ("", ".sat")),
        ("sub", ("u8x4", "s8x4"), ("", ".sat")),
        ("min", ("u16x2", "u8x4"), ("",)),
        ("max", ("u16x2", "u8x4"), ("",)),
        ("min", ("s16x2", "s8x4"), ("", ".relu")),
        ("max", ("s16x2", "s8x4"), ("", ".relu")),
    ):
        rows += [
            Row(f"{op}{how}.{kind} %d, %a, %b;", packed(op, kind, how))
            for kind in kinds
            for how in hows
        ]
    rows.append(Row("neg.s8x4 %d, %a;", packed("neg", "s8x4", "")))
    check(rows, a=a, b=b)


def test_dot_products() -> None:
    a, b, c = operands(32, 13)

    def part(v: int, at: int, bits: int, kind: str) -> int:
        p = v >> at & (1 << bits) - 1
        return signed(p, bits) if kind == "s32" else p

    def four(ta: str, tb: str) -> Callable[..., int]:
        return lambda a, b, c: (
            (c + sum(part(a, k, 8, ta) * part(b, k, 8, tb) for k in (0, 8, 16, 24)))
            % (1 << 32)
        )

    def two(ta: str, tb: str, first: int) -> Callable[..., int]:
        return lambda a, b, c: (
            (
                c
                + sum(
                    part(a, 16 * k, 16, ta) * part(b, first + 8 * k, 8, tb)
                    for k in (0, 1)
                )
            )
            % (1 << 32)
        )

    kinds = [(x, y) for x in ("u32", "s32") for y in ("u32", "s32")]
    rows = [Row(f"dp4a.{x}.{y} %d, %a, %b, %c;", four(x, y)) for x, y in kinds]
    rows += [
        Row(f"dp2a.{half}.{x}.{y} %d, %a, %b, %c;", two(x, y, first))
        for x, y in kinds
        for half, first in (("lo", 0), ("hi", 16))
    ]
    check(rows, a=a, b=b, c=c)


@pytest.mark.parametrize("bits", [32, 64])
def test_carry_chains(bits: int) -> None:
    """Chains of the extended-precision instructions equal one wide operation."""
    a, b, c = operands(bits, 17 * bits)
    e = b[::-1].copy()
    t, dtype = f"u{bits}", _dtype(bits)
    body = f"""
    add.cc.{t} %s0, %a, %c; addc.cc.{t} %s1, %b, %e; addc.{t} %s2, 0, 0;
    sub.cc.{t} %t0, %a, %c; subc.cc.{t} %t1, %b, %e; subc.{t} %t2, 0, 0;
    mul.lo.{t} %p0, %a, %c;
    mul.hi.{t} %p1, %a, %c;
    mad.lo.cc.{t} %p1, %b, %c, %p1; madc.hi.{t} %p2, %b, %c, 0;
    mad.lo.cc.{t} %p1, %a, %e, %p1; madc.hi.cc.{t} %p2, %a, %e, %p2;
    addc.{t} %p3, 0, 0;
    mad.lo.cc.{t} %p2, %b, %e, %p2; madc.hi.{t} %p3, %b, %e, %p3;
    mad.hi.cc.s{bits} %h, %a, %b, %c; madc.lo.{t} %k, %a, %b, %c;
    """
    names = ("s0", "s1", "s2", "t0", "t1", "t2", "p0", "p1", "p2", "p3", "h", "k")
    got = evaluate(body, dict.fromkeys(names, dtype), a=a, b=b, c=c, e=e)

    def joined(prefix: str, count: int) -> list[int]:
        columns = [got[f"{prefix}{k}"].tolist() for k in range(count)]
        return [
            sum(v << k * bits for k, v in enumerate(words))
            for words in zip(*columns, strict=True)
        ]

    sums, gaps, products = joined("s", 3), joined("t", 3), joined("p", 4)
    rows = zip(a.tolist(), b.tolist(), c.tolist(), e.tolist(), strict=True)
    for k, (x0, x1, y0, y1) in enumerate(rows):
        x, y = x0 | x1 << bits, y0 | y1 << bits
        assert sums[k] == x + y
        assert gaps[k] == (x - y) % (1 << 3 * bits)
        assert products[k] == x * y
        high = (signed(x0, bits) * signed(x1, bits) >> bits) % (1 << bits) + y0
        assert int(got["h"][k]) == high % (1 << bits)
        low = (x0 * x1 + y0 + (high >> bits)) % (1 << bits)
        assert int(got["k"][k]) == low


def test_carry_is_kept_by_lanes_that_are_off() -> None:
    a = np.arange(64, dtype=np.uint32)
    body = """.reg .pred %p; setp.lt.u32 %p, %a, 20;
    add.cc.u32 %d, 0xFFFFFFFF, 1; @%p add.cc.u32 %d, 0, 0; addc.u32 %d, 0, 0;"""
    got = evaluate(body, {"d": np.uint32}, a=a)
    assert (got["d"] == (a >= 20)).all()


def test_sixteen_bit_results_stay_sixteen_bit() -> None:
    """Literals and results of narrow types are cut to their type."""
    a = np.array([0xFFFF, 0x8000, 1], np.uint16)
    body = """.reg .b16 %t, %n; mov.b16 %n, -1; add.u16 %t, %a, -1;
    mov.b32 %d, {%t, %n}; or.b16 %t, %a, -2; mov.b32 %o, {%n, %t};
    mov.b32 %m, {%n, %n}; neg.s16 %t, %a; cvt.u32.u16 %z, %t;"""
    got = evaluate(body, dict.fromkeys("domz", np.uint32), a=a)
    assert got["d"].tolist() == [0xFFFFFFFE, 0xFFFF7FFF, 0xFFFF0000]
    assert got["o"].tolist() == [0xFFFFFFFF, 0xFFFEFFFF, 0xFFFFFFFF]
    assert (got["m"] == 0xFFFFFFFF).all()
    assert got["z"].tolist() == [1, 0x8000, 0xFFFF]


def test_unknown_forms_are_incomplete() -> None:
    ran = run_kernel(
        "add.f32 %d, %a, 1;", outputs={"d": "f4"}, inputs={"a": np.ones(4, "f4")}
    )
    assert ran.result.status == "unsupported"
    assert "integer literal" in ran.program.unsupported[0][1]
