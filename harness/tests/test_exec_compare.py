"""setp and set on every type, with NaN, predicates and pairs of halves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from exact_rounding import BF16, F16, F32, F64, Format
from instruction_table import Row, check, operands, signed
from kernel_case import PRED, Array, evaluate
from test_exec_float import flushed, patterns32, patterns64

ORDER: dict[str, Callable[..., bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
FLOAT = (*ORDER, *(f"{c}u" for c in ORDER), "num", "nan")


def _integer(kind: str, name: str) -> Callable[..., int]:
    bits = int(kind[1:])
    test = ORDER[UNSIGNED.get(name, name)]

    def number(v: int) -> int:
        return signed(v, bits) if kind[0] == "s" else v

    return lambda a, b: int(test(number(a), number(b)))


def _chosen(test: Callable[..., int], true: int) -> Callable[..., int]:
    """What `set` writes: `true` or zero."""
    return lambda a, b: true if test(a, b) else 0


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_integers(bits: int) -> None:
    a, b, _ = operands(bits, bits)
    b = np.where(np.arange(len(b)) % 5 == 0, a, b)
    kinds = [(f"u{bits}", (*ORDER, *UNSIGNED)), (f"s{bits}", tuple(ORDER))]
    kinds.append((f"b{bits}", ("eq", "ne")))
    rows = [
        Row(f"setp.{c}.{k} %d, %a, %b;", _integer(k, c), PRED)
        for k, names in kinds
        for c in names
    ]
    rows += [
        Row(f"set.{c}.{d}.{k} %d, %a, %b;", _chosen(_integer(k, c), true))
        for k, names in kinds
        for c in names[:3]
        for d, true in (("u32", 0xFFFF_FFFF), ("f32", 0x3F80_0000))
    ]
    check(rows, a=a, b=b)


def _float(form: Format, name: str, *, ftz: bool = False) -> Callable[..., int]:
    def test(a: int, b: int) -> bool:
        if ftz:
            a, b = flushed(a, form), flushed(b, form)
        x, y = form.read(a), form.read(b)
        unordered = "nan" in (x.kind, y.kind)
        if name in ("num", "nan"):
            return unordered == (name == "nan")
        if unordered:
            return name.endswith("u")

        def key(n: object) -> object:
            if n.kind == "inf":
                return float("-inf") if n.negative else float("inf")
            return n.value

        return ORDER[name[:2]](key(x), key(y))

    return lambda a, b: int(test(a, b))


def _ftz_forms(kind: str) -> tuple[str, ...]:
    return ("", ".ftz") if kind in ("f32", "f16") else ("",)


def _halves(seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    edge = [0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x83FF, 0x3C00, 0xBC00, 0x7BFF, 0x7C00]
    edge += [0xFC00, 0x7E00, 0xFFFF, 0x7F80, 0xFF80, 0x7FC0, 0x7F, 0x80, 0x3F80, 0x7F7F]
    grid = np.meshgrid(np.array(edge, np.uint16), np.array(edge, np.uint16))
    random = rng.integers(0, 1 << 16, (2, 300), np.uint16)
    return tuple(
        np.concatenate([g.ravel(), r]) for g, r in zip(grid, random, strict=True)
    )


@pytest.mark.parametrize(
    ("kind", "form"), [("f32", F32), ("f64", F64), ("f16", F16), ("bf16", BF16)]
)
def test_floats(kind: str, form: Format) -> None:
    if kind in ("f32", "f64"):
        a, b, _ = patterns32(1, 200) if kind == "f32" else patterns64(1, 200)
    else:
        a, b = _halves(2)
    b = np.where(np.arange(len(b)) % 5 == 0, a, b)
    true = {"u32": 0xFFFF_FFFF, "f32": 0x3F80_0000}
    rows = []
    for ftz in _ftz_forms(kind):
        for name in FLOAT:
            want = _float(form, name, ftz=bool(ftz))
            rows.append(Row(f"setp.{name}{ftz}.{kind} %d, %a, %b;", want, PRED))
        for dtype in ("u32",) if kind in ("f16", "bf16") else true:
            less = _float(form, "ltu", ftz=bool(ftz))
            text = f"set.ltu{ftz}.{dtype}.{kind} %d, %a, %b;"
            rows.append(Row(text, _chosen(less, true[dtype])))
    check(rows, a=a, b=b)


def test_set_into_sixteen_bits() -> None:
    a, b = _halves(3)
    f = a.astype(np.float32)
    body = """set.le.f16.f16 %d0, %a, %b; set.le.bf16.bf16 %d1, %a, %b;
    set.le.u16.f16 %d2, %a, %b; set.le.s16.bf16 %d3, %a, %b;
    set.ge.f16.u16 %d4, %a, %b; set.ge.bf16.f32 %d5, %f, 0f42C80000;"""
    got = evaluate(body, {f"d{k}": np.uint16 for k in range(6)}, a=a, b=b, f=f)
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    le16 = np.array([_float(F16, "le")(x, y) for x, y in pairs])
    leb = np.array([_float(BF16, "le")(x, y) for x, y in pairs])
    assert (got["d0"] == le16 * 0x3C00).all()
    assert (got["d1"] == leb * 0x3F80).all()
    assert (got["d2"] == le16 * 0xFFFF).all()
    assert (got["d3"] == leb * 0xFFFF).all()
    assert (got["d4"] == (a >= b) * 0x3C00).all()
    assert (got["d5"] == (f >= 100) * 0x3F80).all()


@pytest.mark.parametrize(("kind", "form"), [("f16x2", F16), ("bf16x2", BF16)])
def test_pairs_of_halves(kind: str, form: Format) -> None:
    low, other = _halves(4)
    high = low[::-1].copy()
    a = low | high.astype(np.uint32) << np.uint32(16)
    b = other | np.roll(other, 7).astype(np.uint32) << np.uint32(16)
    one = 0x3C00 if form is F16 else 0x3F80
    body = f"""setp.lt.{kind} %p|%q, %a, %b; set.lt.u32.{kind} %d, %a, %b;
    set.lt.{kind}.{kind} %e, %a, %b; .reg .pred %g; setp.lt.u32 %g, %thread, 300;
    setp.gtu.and.{kind} %r|_, %a, %b, %g; setp.gtu.or.{kind} _|%s, %a, %b, !%g;
    mov.pred %t, 0; @%g setp.lt.{kind} %g|%t, %a, %b;"""
    outputs = {**dict.fromkeys("de", np.uint32), **dict.fromkeys("pqrst", PRED)}
    got = evaluate(body, outputs, a=a, b=b)
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    halves = [[(x >> s & 0xFFFF, y >> s & 0xFFFF) for x, y in pairs] for s in (0, 16)]
    lt = [np.array([_float(form, "lt")(*p) for p in h]) for h in halves]
    gtu = [np.array([_float(form, "gtu")(*p) for p in h]) for h in halves]
    on = np.arange(len(a)) < 300
    assert (got["p"] == lt[0]).all()
    assert (got["q"] == lt[1]).all()
    assert (got["d"] == lt[0] * 0xFFFF + (lt[1] * 0xFFFF << 16)).all()
    assert (got["e"] == lt[0] * one + (lt[1] * one << 16)).all()
    assert (got["r"] == (gtu[0] & on)).all()
    assert (got["s"] == (gtu[1] | ~on)).all()
    assert (got["t"] == (lt[1] & on)).all()


def test_booleans_and_second_predicate() -> None:
    """p = BoolOp(t, c), q = BoolOp(!t, c); guards may be a destination."""
    a = np.arange(64, dtype=np.uint32)
    body = """.reg .pred %c; setp.lt.u32 %c, %a, 32;
    setp.lt.and.u32 %p0|%q0, %b, 5, %c; setp.lt.or.u32 %p1|%q1, %b, 5, !%c;
    setp.lt.xor.u32 %p2|%q2, %b, 5, %c; setp.lt.u32 %p3|%q3, %b, 5;
    setp.lt.and.u32 _|%q4, %b, 5, %c; set.lt.xor.s32.u32 %d, %b, 5, %c;
    mov.pred %p5, %c; @%p5 setp.lt.u32 %p5|%q5, %b, 5;"""
    b = a % 10
    names = [f"{x}{k}" for k in range(6) for x in "pq" if x + str(k) != "p4"]
    outputs = {**dict.fromkeys(names, PRED), "d": np.uint32}
    body = "mov.pred %q5, 0;" + body
    got = evaluate(body, outputs, a=a, b=b)
    t, c = b < 5, a < 32
    want = {
        "p0": t & c,
        "q0": ~t & c,
        "p1": t | ~c,
        "q1": ~t | ~c,
        "p2": t ^ c,
        "q2": ~t ^ c,
        "p3": t,
        "q3": ~t,
        "q4": ~t & c,
        "p5": c & t,
        "q5": c & ~t,
    }
    for name, truth in want.items():
        assert (got[name] == truth).all(), name
    assert (got["d"] == (t ^ c) * np.uint32(0xFFFF_FFFF)).all()
