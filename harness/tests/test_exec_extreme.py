"""min, max, neg, abs, copysign and testp on every floating-point type."""

from __future__ import annotations

import numpy as np
import pytest
from exact_rounding import BF16, F16, F32, F64, Format, Number
from instruction_table import Row, check
from kernel_case import PRED, Array, evaluate
from test_exec_float import flushed, patterns32, patterns64
from test_exec_half import patterns16

FORMS = {"f32": F32, "f64": F64, "f16": F16, "bf16": BF16}


def _inputs(kind: str, seed: int) -> tuple[Array, Array, Array]:
    if kind == "f32":
        return patterns32(seed, 200)
    return patterns64(seed, 200) if kind == "f64" else patterns16(seed, FORMS[kind])


def _canonical(form: Format) -> int:
    return form.sign - 1


def _order(pattern: int, form: Format) -> int:
    """Sorts numbers, -0 before +0."""
    magnitude = pattern & (form.sign - 1)
    return -magnitude - 1 if pattern & form.sign else magnitude


def _two(form: Format, a: int, b: int, how: str, *, largest: bool) -> int:
    """The ISA's two_inputs_min and two_inputs_max on patterns."""
    nan_a, nan_b = form.read(a).kind == "nan", form.read(b).kind == "nan"
    if (nan_a and nan_b) or ("NaN" in how and (nan_a or nan_b)):
        return _canonical(form)
    if nan_a or nan_b:
        return b if nan_a else a
    choose = max if largest else min
    return choose(a, b, key=lambda p: _order(p, form))


def _want(form: Format, how: str, *, largest: bool, three: bool):
    def want(*patterns: int) -> int:
        values = list(patterns[: 3 if three else 2])
        if "ftz" in how:
            values = [flushed(v, form) for v in values]
        sign = (values[0] ^ values[1]) & form.sign
        if "abs" in how:
            values = [v & ~form.sign for v in values]
        result = values[0]
        for v in values[1:]:
            result = _two(form, result, v, how, largest=largest)
        if form is F64 and form.read(result).kind == "nan":
            return None  # f64 keeps some payload, PTX does not say which
        if "xorsign" in how and form.read(result).kind != "nan":
            result |= sign
        return result

    return want


HOWS = {
    "f32": ("", ".ftz", ".NaN", ".ftz.NaN", ".xorsign.abs", ".NaN.xorsign.abs"),
    "f64": ("",),
    "f16": ("", ".ftz", ".NaN", ".ftz.NaN.xorsign.abs", ".xorsign.abs"),
    "bf16": ("", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"),
}


@pytest.mark.parametrize("kind", FORMS)
def test_min_and_max(kind: str) -> None:
    form = FORMS[kind]
    a, b, c = _inputs(kind, 1)
    dtype = a.dtype
    rows = []
    for op in ("min", "max"):
        largest = op == "max"
        for how in HOWS[kind]:
            want = _want(form, how, largest=largest, three=False)
            rows.append(Row(f"{op}{how}.{kind} %d, %a, %b;", want, dtype))
        for how in ("", ".ftz", ".NaN", ".abs", ".NaN.abs") if kind == "f32" else ():
            want = _want(form, how, largest=largest, three=True)
            rows.append(Row(f"{op}{how}.{kind} %d, %a, %b, %c;", want, dtype))
    check(rows, a=a, b=b, c=c)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_pairs_equal_singles(kind: str) -> None:
    a, b, c = patterns16(2, FORMS[kind])
    body, outputs = [], {}
    body.append(".reg .b32 %x, %y; mov.b32 %x, {%a, %b}; mov.b32 %y, {%b, %c};")
    names = [f"{op}{how}" for op in ("min", "max") for how in HOWS[kind]]
    for k, name in enumerate(names):
        body.append(f"{name}.{kind} %l{k}, %a, %b; {name}.{kind} %h{k}, %b, %c;")
        body.append(f"{name}.{kind}x2 %p{k}, %x, %y;")
        outputs |= {f"l{k}": "u2", f"h{k}": "u2", f"p{k}": "u4"}
    for op in ("neg", "abs"):
        body.append(f"{op}.{kind} %l{op}, %a; {op}.{kind} %h{op}, %b;")
        body.append(f"{op}.{kind}x2 %p{op}, %x;")
        outputs |= {f"l{op}": "u2", f"h{op}": "u2", f"p{op}": "u4"}
    got = evaluate("".join(body), outputs, a=a, b=b, c=c)
    for k in [*range(len(names)), "neg", "abs"]:
        want = got[f"l{k}"] | got[f"h{k}"].astype(np.uint32) << np.uint32(16)
        assert (got[f"p{k}"] == want).all()


@pytest.mark.parametrize("kind", FORMS)
def test_signs(kind: str) -> None:
    form = FORMS[kind]
    a, b, _ = _inputs(kind, 3)
    dtype = a.dtype

    def quiet(pattern: int, result: int) -> int:
        # Recorded on an H200: NaN becomes the canonical one, but in f64.
        nan = form.read(pattern).kind == "nan" and kind != "f64"
        return _canonical(form) if nan else result

    rows = [
        Row(f"neg.{kind} %d, %a;", lambda a, b: quiet(a, a ^ form.sign), dtype),
        Row(f"abs.{kind} %d, %a;", lambda a, b: quiet(a, a & ~form.sign), dtype),
    ]
    if kind in ("f32", "f16"):
        rows += [
            Row(
                f"neg.ftz.{kind} %d, %a;",
                lambda a, b: quiet(a, flushed(a, form) ^ form.sign),
                dtype,
            ),
            Row(
                f"abs.ftz.{kind} %d, %a;",
                lambda a, b: quiet(a, flushed(a, form) & ~form.sign),
                dtype,
            ),
        ]
    if kind in ("f32", "f64"):
        rows.append(
            Row(
                f"copysign.{kind} %d, %a, %b;",
                lambda a, b: a & form.sign | b & ~form.sign,
                dtype,
            )
        )
    check(rows, a=a, b=b)


def _property(form: Format, name: str, pattern: int) -> bool:
    number: Number = form.read(pattern)
    tiny = pattern & (form.sign - 1) < 1 << form.fraction
    return {
        "finite": number.kind == "finite",
        "infinite": number.kind == "inf",
        "number": number.kind != "nan",
        "notanumber": number.kind == "nan",
        "normal": number.kind == "finite" and (not tiny or number.magnitude == 0),
        "subnormal": number.kind == "finite" and tiny and number.magnitude != 0,
    }[name]


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_properties(kind: str) -> None:
    a, _, _ = _inputs(kind, 4)
    form = FORMS[kind]
    names = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    rows = [
        Row(
            f"testp.{name}.{kind} %d, %a;",
            lambda a, n=name: int(_property(form, n, a)),
            PRED,
        )
        for name in names
    ]
    check(rows, a=a)
