"""f32 and f64 arithmetic in every rounding mode, against exact rational arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from exact_rounding import F32, F64, Format, Number, add, div, finite, mul, sqrt
from kernel_case import Array, evaluate

MODES = ("rn", "rz", "rm", "rp")
ONE = finite(1)

_EDGE32 = (
    *(0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x00000002, 0x007FFFFF),
    *(0x807FFFFF, 0x00800000, 0x80800000, 0x00800001, 0x00FFFFFF, 0x01000000),
    *(0x3F800000, 0xBF800000, 0x3F800001, 0x3F7FFFFF, 0xBF7FFFFF, 0x40000000),
    *(0x3F000000, 0x34000000, 0x33800000, 0x4B800001, 0x5F000000, 0x1F800000),
    *(0x7F7FFFFF, 0xFF7FFFFF, 0x7F7FFFFE, 0x7F000000, 0x7E800000, 0x73000000),
    *(0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0x7FFFFFFF),
)


def patterns32(seed: int, count: int = 600) -> tuple[Array, Array, Array]:
    """Operands: every pair of edge values, then random ones of related exponents."""
    rng = np.random.default_rng(seed)
    edge = np.array(_EDGE32, np.uint32)
    a, b = (g.ravel() for g in np.meshgrid(edge, edge))
    c = rng.permutation(np.resize(edge, a.size))
    near = rng.integers(0, 1 << 32, (3, count), np.uint32)
    # Exponents close to each other, so that sums cancel and round.
    exponents = rng.integers(0, 256, count, np.uint32)
    shift = rng.integers(-26, 27, (3, count))
    close = np.clip(exponents.astype(int) + shift, 0, 254).astype(np.uint32) << 23
    near[:, ::2] = (near & 0x807FFFFF | close)[:, ::2]
    # c near -(a * b), so that fused sums cancel.
    with np.errstate(all="ignore"):
        product = -(near[0].view(np.float32) * near[1].view(np.float32))
    near[2, ::3] = product.view(np.uint32)[::3] ^ rng.integers(0, 4, count)[::3].astype(
        np.uint32
    )
    return (
        np.concatenate([a, near[0]]),
        np.concatenate([b, near[1]]),
        np.concatenate([c, near[2]]),
    )


def patterns64(seed: int, count: int = 600) -> tuple[Array, Array, Array]:
    """The same for f64: the f32 edges widened, its own edges, and random ones."""
    rng = np.random.default_rng(seed)
    top = [0x0010000000000000, 0x000FFFFFFFFFFFFF, 1, 0x7FEFFFFFFFFFFFFF]
    top += [0x7FF0000000000000, 0x7FF8000000000000, 0x3FF0000000000000]
    top += [0x3FF0000000000001, 0, 0x3CA0000000000000, 0x0360000000000000]
    edge = np.array(top + [t | 1 << 63 for t in top], np.uint64)
    a, b = (g.ravel() for g in np.meshgrid(edge, edge))
    c = rng.permutation(np.resize(edge, a.size))
    near = rng.integers(0, 1 << 63, (3, count), np.uint64)
    near |= rng.integers(0, 2, (3, count), np.uint64) << np.uint64(63)
    exponents = rng.integers(0, 2047, count)
    shift = rng.integers(-60, 61, (3, count))
    close = np.clip(exponents + shift, 0, 2046).astype(np.uint64) << np.uint64(52)
    keep = np.uint64(0x800FFFFFFFFFFFFF)
    near[:, ::2] = (near & keep | close)[:, ::2]
    with np.errstate(all="ignore"):
        product = -(near[0].view(np.float64) * near[1].view(np.float64))
    near[2, ::3] = product.view(np.uint64)[::3]
    return (
        np.concatenate([a, near[0]]),
        np.concatenate([b, near[1]]),
        np.concatenate([c, near[2]]),
    )


Exact = Callable[[Number, Number, Number, str], Number]
OPERATIONS: dict[str, tuple[int, Exact]] = {
    "add": (2, lambda a, b, c, mode: add(a, b, mode)),
    "sub": (2, lambda a, b, c, mode: add(a, b.negated(), mode)),
    "mul": (2, lambda a, b, c, mode: mul(a, b)),
    "fma": (3, lambda a, b, c, mode: add(mul(a, b), c, mode)),
    "div": (2, lambda a, b, c, mode: div(a, b)),
    "rcp": (1, lambda a, b, c, mode: div(ONE, a)),
    "sqrt": (1, lambda a, b, c, mode: sqrt(a)),
}


def same(got: Array, want: list[int], form: Format, inputs: tuple[Array, ...]) -> None:
    """Patterns must be equal; -1 stands for any NaN."""
    for k, (g, w) in enumerate(zip(got.tolist(), want, strict=True)):
        ok = form.read(g).kind == "nan" if w < 0 else g == w
        given = [hex(int(x[k])) for x in inputs]
        assert ok, f"{given}: got {g:#x}, want {w:#x}"


def flushed(pattern: int, form: Format) -> int:
    """A subnormal pattern as the zero of its sign."""
    exponent = pattern & (form.sign - 1)
    return (
        pattern & form.sign
        if pattern >= 0 and exponent >> form.fraction == 0
        else (pattern)
    )


def _expected(
    name: str, mode: str, form: Format, rows: tuple[Array, ...], *, ftz: bool
) -> list[int]:
    exact = OPERATIONS[name][1]
    out = []
    for patterns in zip(*(r.tolist() for r in rows), strict=True):
        if ftz:
            patterns = tuple(flushed(p, form) for p in patterns)
        a, b, c = (form.read(p) for p in patterns)
        pattern = form.round(exact(a, b, c, mode), mode)
        out.append(flushed(pattern, form) if ftz else pattern)
    return out


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("ftz", ["", ".ftz"])
def test_single(name: str, ftz: str) -> None:
    rows = patterns32(1)
    operands = ", ".join(("%a", "%b", "%c")[: OPERATIONS[name][0]])
    body = "".join(f"{name}.{m}{ftz}.f32 %{m}, {operands};" for m in MODES)
    a, b, c = rows
    got = evaluate(body, dict.fromkeys(MODES, np.uint32), a=a, b=b, c=c)
    for mode in MODES:
        same(got[mode], _expected(name, mode, F32, rows, ftz=bool(ftz)), F32, rows)


@pytest.mark.parametrize("name", OPERATIONS)
def test_double(name: str) -> None:
    rows = patterns64(2)
    operands = ", ".join(("%a", "%b", "%c")[: OPERATIONS[name][0]])
    body = "".join(f"{name}.{m}.f64 %{m}, {operands};" for m in MODES)
    a, b, c = rows
    got = evaluate(body, dict.fromkeys(MODES, np.uint64), a=a, b=b, c=c)
    for mode in MODES:
        same(got[mode], _expected(name, mode, F64, rows, ftz=False), F64, rows)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
@pytest.mark.parametrize("ftz", ["", ".ftz"])
def test_packed_equals_single(name: str, ftz: str) -> None:
    """Both numbers of an f32x2 give what the f32 instruction gives."""
    a, b, c = patterns32(3)
    n = OPERATIONS[name][0]
    lines, outputs = [], {}
    pairs = "".join(
        f".reg .b64 %{x}{x}; mov.b64 %{x}{x}, {{%{x}, %{y}}};"
        for x, y in zip("abc", "bca", strict=True)
    )
    for m in MODES:
        first = ", ".join(("%a", "%b", "%c")[:n])
        second = ", ".join(("%b", "%c", "%a")[:n])
        both = ", ".join(("%aa", "%bb", "%cc")[:n])
        lines += [
            f"{name}.{m}{ftz}.f32 %lo_{m}, {first};",
            f"{name}.{m}{ftz}.f32 %hi_{m}, {second};",
            f"{name}.{m}{ftz}.f32x2 %d_{m}, {both};",
        ]
        outputs |= {f"lo_{m}": np.uint32, f"hi_{m}": np.uint32, f"d_{m}": np.uint64}
    got = evaluate(pairs + "".join(lines), outputs, a=a, b=b, c=c)
    for m in MODES:
        want = got[f"lo_{m}"].astype(np.uint64)
        want |= got[f"hi_{m}"].astype(np.uint64) << np.uint64(32)
        assert (got[f"d_{m}"] == want).all()


def test_saturation_and_default_rounding() -> None:
    """.sat clamps to [+0, 1] and kills NaN; without a mode PTX rounds to nearest."""
    a, b, c = patterns32(4)
    body = """
    add.f32 %plain, %a, %b; add.sat.f32 %sum, %a, %b; sub.ftz.sat.f32 %gap, %a, %b;
    mul.rz.sat.f32 %product, %a, %b; fma.rn.ftz.sat.f32 %fused, %a, %b, %c;
    add.rn.f32 %u, %a, %b; sub.ftz.f32 %v, %a, %b; mul.rz.f32 %w, %a, %b;
    fma.rn.ftz.f32 %x, %a, %b, %c;"""
    names = ("plain", "sum", "gap", "product", "fused", "u", "v", "w", "x")
    got = evaluate(body, dict.fromkeys(names, np.float32), a=a, b=b, c=c)
    assert (got["plain"].view(np.uint32) == got["u"].view(np.uint32)).all()
    for clamped, free in (("sum", "u"), ("gap", "v"), ("product", "w"), ("fused", "x")):
        value = got[free]
        want = np.where(value > 0, np.minimum(value, np.float32(1)), np.float32(0))
        assert (got[clamped].view(np.uint32) == want.view(np.uint32)).all()


def test_approximate_divisions_round_within_two_ulp() -> None:
    """div.full and div.approx; the latter gives zero where 1/b is flushed."""
    a, b, c = patterns32(5)
    body = """div.full.f32 %full, %a, %b; div.approx.f32 %fast, %a, %b;
    div.approx.ftz.f32 %flush, %a, %b; rcp.approx.f32 %inverse, %b;
    sqrt.approx.ftz.f32 %root, %a;"""
    names = ("full", "fast", "flush", "inverse", "root")
    got = evaluate(body, dict.fromkeys(names, np.uint32), a=a, b=b, c=c)
    rows = (a, b, c)
    same(got["full"], _expected("div", "rn", F32, rows, ftz=False), F32, rows)
    turned = (b, a, c)
    same(got["inverse"], _expected("rcp", "rn", F32, turned, ftz=False), F32, rows)
    same(got["root"], _expected("sqrt", "rn", F32, rows, ftz=True), F32, rows)
    for name, ftz in (("fast", False), ("flush", True)):
        want = _expected("div", "rn", F32, rows, ftz=ftz)
        for k, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
            over, divisor = F32.read(x), F32.read(y)
            if divisor.kind == "finite" and divisor.magnitude > 2**126:
                sign = (x ^ y) & F32.sign
                want[k] = -1 if over.kind != "finite" else sign
        same(got[name], want, F32, rows)


def test_gross_double_approximations() -> None:
    """rcp and rsqrt .approx.ftz.f64 read and write upper words only."""
    a, _, _ = patterns64(6)
    body = """rcp.approx.ftz.f64 %r, %a; rsqrt.approx.ftz.f64 %q, %a;
    rsqrt.approx.f64 %s, %a;"""
    got = evaluate(body, dict.fromkeys("rqs", np.float64), a=a)
    upper = a & np.uint64(0xFFFFFFFF00000000)
    tiny = upper & np.uint64(0x7FF0000000000000) == 0
    x = np.where(tiny, upper & np.uint64(1 << 63), upper).view(np.float64)
    with np.errstate(all="ignore"):
        for name, want in (("r", 1 / x), ("q", 1 / np.sqrt(x))):
            bits = got[name].view(np.uint64)
            assert (bits & np.uint64(0xFFFFFFFF) == 0).all()
            nan = np.isnan(want)
            assert (bits[nan] == np.uint64(0x7FFFFFFF00000000)).all()
            normal = ~nan & (np.abs(want) >= 2.0**-1022)
            close = np.isclose(got[name][normal], want[normal], rtol=2.0**-19, atol=0)
            assert close.all()
            flush = ~nan & (np.abs(want) < 2.0**-1022)
            assert (got[name][flush] == 0).all()
            assert (np.signbit(got[name]) == np.signbit(want))[flush].all()
        exact = 1 / np.sqrt(a.view(np.float64))
    nan = np.isnan(exact)
    assert (np.isnan(got["s"]) == nan).all()
    assert np.allclose(got["s"][~nan], exact[~nan], rtol=1e-15, atol=0)
