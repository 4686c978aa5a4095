"""Forms of the PTX ISA chapters on floating point: single, double, half and mixed."""

from __future__ import annotations

from sidestream.harness.ptx.forms import Family, Form

_ROUND = "round=rn|rz|rm|rp"
_HALF = "f16|f16x2"
_BRAIN = "bf16|bf16x2"
_ONE = "=d:type a:type"
_TWO = "=d:type a:type b:type"
_THREE = "=d:type a:type b:type c:type"


def _section(name: str) -> str:
    return f"Floating Point Instructions: {name}"


def _half_section(name: str) -> str:
    return f"Half Precision Floating Point Instructions: {name}"


def _mixed_section(name: str) -> str:
    return f"Mixed Precision Floating Point Instructions: {name}"


def _arithmetic(spelling: str) -> tuple[Family, ...]:
    """`add`, `sub` and `mul`, which take the same words."""
    return (
        Family(
            spelling,
            _section(spelling),
            (
                Form(f"{_ROUND}? ftz? sat? type=f32", _TWO),
                Form(f"{_ROUND}? ftz? type=f32x2", _TWO),
                Form(f"{_ROUND}? type=f64", _TWO),
            ),
        ),
        Family(
            spelling,
            _half_section(spelling),
            (
                Form(f"round=rn? ftz? sat? type={_HALF}", _TWO),
                Form(f"round=rn? type={_BRAIN}", _TWO),
            ),
        ),
    )


def _extreme(spelling: str) -> tuple[Family, ...]:
    """`min` and `max`; three inputs are an operation of their own."""
    return (
        Family(
            spelling,
            _section(spelling),
            (
                Form("ftz? nan=NaN? type=f32", _TWO),
                Form("ftz? nan=NaN? xorsign abs type=f32", _TWO),
                Form("ftz? nan=NaN? abs? type=f32", _THREE, op=f"{spelling}3"),
                Form("type=f64", _TWO),
            ),
        ),
        Family(
            spelling,
            _half_section(spelling),
            (
                Form(f"ftz? nan=NaN? type={_HALF}", _TWO),
                Form(f"ftz? nan=NaN? xorsign abs type={_HALF}", _TWO),
                Form(f"nan=NaN? type={_BRAIN}", _TWO),
                Form(f"nan=NaN? xorsign abs type={_BRAIN}", _TWO),
            ),
        ),
    )


def _sign(spelling: str) -> tuple[Family, ...]:
    return (
        Family(
            spelling,
            _section(spelling),
            (Form("ftz? type=f32", _ONE), Form("type=f64", _ONE)),
        ),
        Family(
            spelling,
            _half_section(spelling),
            (Form(f"ftz? type={_HALF}", _ONE), Form(f"type={_BRAIN}", _ONE)),
        ),
    )


def _root(spelling: str) -> Family:
    """`rcp` and `sqrt`: approximate, or correctly rounded."""
    forms = [
        Form("approx ftz? type=f32", _ONE),
        Form(f"{_ROUND} ftz? type=f32", _ONE),
        Form(f"{_ROUND} type=f64", _ONE),
    ]
    if spelling == "rcp":
        forms.append(Form("approx ftz type=f64", _ONE))
    return Family(spelling, _section(spelling), tuple(forms))


FAMILIES: tuple[Family, ...] = (
    Family(
        "testp",
        _section("testp"),
        (
            Form(
                "op=finite|infinite|number|notanumber|normal|subnormal type=f32|f64",
                "=p a:type",
            ),
        ),
    ),
    Family("copysign", _section("copysign"), (Form("type=f32|f64", _TWO),)),
    *_arithmetic("add"),
    *_arithmetic("sub"),
    *_arithmetic("mul"),
    Family(
        "fma",
        _section("fma"),
        (
            Form(f"{_ROUND} ftz? sat? type=f32", _THREE),
            Form(f"{_ROUND} ftz? type=f32x2", _THREE),
            Form(f"{_ROUND} type=f64", _THREE),
        ),
    ),
    Family(
        "fma",
        _half_section("fma"),
        (
            Form(f"round=rn ftz? sat? type={_HALF}", _THREE),
            Form(f"round=rn ftz? relu type={_HALF}", _THREE),
            Form(f"round=rn relu? type={_BRAIN}", _THREE),
            Form(f"round=rn oob relu? type={_HALF}|{_BRAIN}", _THREE),
        ),
    ),
    Family(
        "mad",
        _section("mad"),
        (
            Form(f"{_ROUND} ftz? sat? type=f32", _THREE, op="fma"),
            Form(f"{_ROUND} type=f64", _THREE, op="fma"),
        ),
    ),
    Family(
        "div",
        _section("div"),
        (
            Form("approx ftz? type=f32", _TWO),
            Form("full ftz? type=f32", _TWO),
            Form(f"{_ROUND} ftz? type=f32", _TWO),
            Form(f"{_ROUND} type=f64", _TWO),
        ),
    ),
    *_sign("abs"),
    *_sign("neg"),
    *_extreme("min"),
    *_extreme("max"),
    _root("rcp"),
    _root("sqrt"),
    Family(
        "rsqrt",
        _section("rsqrt"),
        (Form("approx ftz? type=f32", _ONE), Form("approx ftz? type=f64", _ONE)),
    ),
    Family("sin", _section("sin"), (Form("approx ftz? type=f32", _ONE),)),
    Family("cos", _section("cos"), (Form("approx ftz? type=f32", _ONE),)),
    Family("lg2", _section("lg2"), (Form("approx ftz? type=f32", _ONE),)),
    Family("ex2", _section("ex2"), (Form("approx ftz? type=f32", _ONE),)),
    Family(
        "ex2",
        _half_section("ex2"),
        (
            Form(f"approx type={_HALF}", _ONE),
            Form(f"approx ftz type={_BRAIN}", _ONE),
        ),
    ),
    Family("tanh", _section("tanh"), (Form("approx type=f32", _ONE),)),
    Family(
        "tanh", _half_section("tanh"), (Form(f"approx type={_HALF}|{_BRAIN}", _ONE),)
    ),
    *(
        Family(
            spelling,
            _mixed_section(spelling),
            (
                Form(
                    f"{_ROUND}? sat? type=f32 atype=f16|bf16",
                    "=d:type a:atype b:type",
                    op=f"{spelling}.mixed",
                ),
            ),
        )
        for spelling in ("add", "sub")
    ),
    Family(
        "fma",
        _mixed_section("fma"),
        (
            Form(
                f"{_ROUND} sat? type=f32 atype=f16|bf16",
                "=d:type a:atype b:atype c:type",
                op="fma.mixed",
            ),
        ),
    ),
)
