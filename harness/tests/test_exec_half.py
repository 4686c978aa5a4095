"""f16 and bf16 arithmetic with one rounding, single and in pairs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from exact_rounding import BF16, F16, F32, Format, Number, add, finite, mul
from kernel_case import Array, evaluate
from test_exec_float import flushed, patterns32, same

FORMS = {"f16": F16, "bf16": BF16}


def patterns16(seed: int, form: Format) -> tuple[Array, Array, Array]:
    """Edge pairs, random numbers, and sums that sit beside a rounding boundary."""
    rng = np.random.default_rng(seed)
    one = form.round(Number("finite", False, 1))
    tiny = 1 << form.fraction
    edge = [0, 1, 2, tiny - 1, tiny, tiny + 1, one - 1, one, one + 1, 2 * one >> 1]
    edge += [form.largest - 1, form.largest, form.largest + 1, form.largest + 3]
    edge += [e | 0x8000 for e in edge]
    grid = np.meshgrid(np.array(edge, np.uint16), np.array(edge, np.uint16))
    a, b = (g.ravel() for g in grid)
    c = rng.permutation(np.resize(np.array(edge, np.uint16), a.size))
    random = rng.integers(0, 1 << 16, (3, 800), np.uint16)
    # A product of two odd 8-bit numbers plus a small c: ties and near-ties.
    near = rng.integers(0, 1 << 16, (3, 800), np.uint16)
    middle = (form.bias + rng.integers(-9, 9, (3, 800))) << form.fraction
    near = near & (0x8000 | tiny - 1) | middle.astype(np.uint16)
    ties = _beside_ties(form)
    rows = (np.concatenate(r) for r in zip((a, b, c), random, near, ties, strict=True))
    x, y, z = rows
    return x, y, z


def _beside_ties(form: Format) -> tuple[Array, Array, Array]:
    """Products halfway between two numbers, and a c too small for wider sums to keep.

    Rounding such a sum to a wider format first gives a tie, and then the wrong half.
    """
    digits = form.fraction + 1
    out: list[tuple[int, int, int]] = []
    step = 2 * max(1, (1 << digits) // 128)
    for odd in range((1 << digits) + 1, 1 << digits + 1, step):
        for p in range(3, 1 << (digits + 1) // 2, 2):
            q, rest = divmod(odd, p)
            if rest == 0 and q < 1 << digits:
                break
        else:
            continue
        high = form.bias // 4 if form.exponent > 5 else 2
        x = form.round(finite(p * Fraction(2) ** high))
        y = form.round(finite(q))
        for c in (0, 1, form.sign, form.sign + 1, form.sign | 1 << form.fraction):
            out.append((x, y, c))
            out.append((x | form.sign, y, c))
    columns = np.array(out, np.uint16).T
    return columns[0], columns[1], columns[2]


def _exact(name: str, a: Number, b: Number, c: Number) -> Number:
    if name == "add":
        return add(a, b)
    if name == "sub":
        return add(a, b.negated())
    return mul(a, b) if name == "mul" else add(mul(a, b), c)


def _want(name: str, form: Format, rows: tuple[Array, ...], how: str) -> list[int]:
    out = []
    for patterns in zip(*(r.tolist() for r in rows), strict=True):
        if "ftz" in how:
            patterns = tuple(flushed(p, form) for p in patterns)
        a, b, c = (form.read(p) for p in patterns)
        pattern = form.round(_exact(name, a, b, c))
        if "ftz" in how:
            pattern = flushed(pattern, form)
        negative = pattern >= 0 and pattern & form.sign
        if "sat" in how:
            one = form.bias << form.fraction
            pattern = 0 if pattern < 0 or negative else min(pattern, one)
        if "relu" in how and negative:
            pattern = 0
        out.append(pattern)
    return out


HOWS = {
    ("f16", "add"): ("", ".ftz", ".sat", ".ftz.sat"),
    ("f16", "sub"): ("", ".ftz", ".sat"),
    ("f16", "mul"): ("", ".ftz", ".sat"),
    ("f16", "fma"): ("", ".ftz", ".sat", ".relu", ".ftz.relu"),
    ("bf16", "fma"): ("", ".relu"),
}


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
def test_arithmetic(kind: str, name: str) -> None:
    form = FORMS[kind]
    rows = a, b, c = patterns16(1, form)
    hows = HOWS.get((kind, name), ("",))
    sources = "%a, %b" + (", %c" if name == "fma" else "")
    pairs = "%aa, %bb" + (", %cc" if name == "fma" else "")
    body = [
        f".reg .b32 %{x}{x}; mov.b32 %{x}{x}, {{%{x}, %{y}}};"
        for x, y in zip("abc", "bca", strict=True)
    ]
    outputs: dict[str, type] = {}
    for k, how in enumerate(hows):
        body.append(f"{name}.rn{how}.{kind} %s{k}, {sources};")
        body.append(f"{name}.rn{how}.{kind}x2 %p{k}, {pairs};")
        outputs |= {f"s{k}": np.uint16, f"p{k}": np.uint32}
    got = evaluate("".join(body), outputs, a=a, b=b, c=c)
    turned = (b, c, a)
    for k, how in enumerate(hows):
        same(got[f"s{k}"], _want(name, form, rows, how), form, rows)
        pair = got[f"p{k}"]
        assert (pair.astype(np.uint16) == got[f"s{k}"]).all()
        high = (pair >> np.uint32(16)).astype(np.uint16)
        same(high, _want(name, form, turned, how), form, turned)


def test_default_rounding_is_nearest() -> None:
    a, b, _ = patterns16(2, F16)
    body = """add.f16 %d, %a, %b; add.rn.f16 %e, %a, %b; mul.bf16 %f, %a, %b;
    mul.rn.bf16 %g, %a, %b;"""
    got = evaluate(body, dict.fromkeys("defg", np.uint16), a=a, b=b)
    assert (got["d"] == got["e"]).all()
    assert (got["f"] == got["g"]).all()


def test_nan_results_are_canonical() -> None:
    a = np.array([0x7C01, 0xFFFF, 0x7E00], np.uint16)
    b = np.array([0x7F81, 0xFFFF, 0x7FC0], np.uint16)
    body = """add.f16 %d, %a, %a; fma.rn.relu.f16 %e, %a, %a, %a;
    mul.bf16 %f, %b, %b; fma.rn.bf16 %g, %b, %b, %b;"""
    got = evaluate(body, dict.fromkeys("defg", np.uint16), a=a, b=b)
    assert all((got[n] == 0x7FFF).all() for n in "defg")


@pytest.mark.parametrize("kind", FORMS)
def test_mixed_precision(kind: str) -> None:
    """f32 arithmetic on a widened half, in every mode."""
    form = FORMS[kind]
    a, b, _ = patterns16(3, form)
    c = np.resize(patterns32(3)[0], len(a))
    modes = ("rn", "rz", "rm", "rp")
    body, outputs = [], {}
    for mode in modes:
        body.append(f"add.{mode}.f32.{kind} %a{mode}, %a, %c;")
        body.append(f"sub.{mode}.f32.{kind} %s{mode}, %a, %c;")
        body.append(f"fma.{mode}.f32.{kind} %f{mode}, %a, %b, %c;")
        outputs |= {f"{x}{mode}": np.uint32 for x in "asf"}
    body.append(f"add.sat.f32.{kind} %t, %a, %c; add.f32.{kind} %u, %a, %c;")
    outputs |= {"t": np.float32, "u": np.float32}
    got = evaluate("".join(body), outputs, a=a, b=b, c=c)
    rows = (a, b, c)
    numbers = [
        (form.read(x), form.read(y), F32.read(z))
        for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]
    for mode in modes:
        sums = [F32.round(add(x, z, mode), mode) for x, _, z in numbers]
        gaps = [F32.round(add(x, z.negated(), mode), mode) for x, _, z in numbers]
        fused = [F32.round(add(mul(x, y), z, mode), mode) for x, y, z in numbers]
        for name, want in (("a", sums), ("s", gaps), ("f", fused)):
            same(got[f"{name}{mode}"], want, F32, rows)
    assert (got["u"].view(np.uint32) == got["arn"])[got["u"] == got["u"]].all()
    clamped = np.where(got["u"] > 0, np.minimum(got["u"], np.float32(1)), 0)
    assert (got["t"] == clamped).all()
