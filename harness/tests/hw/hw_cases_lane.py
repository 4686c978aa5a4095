"""Cases of what every lane executes alone: conversion, arithmetic, bits."""

from __future__ import annotations

from hw_case import (
    Case,
    Lanewise,
    Words,
    f32_words,
    halves,
    hashed,
    integers,
    plain_f32,
)

_TO_HALF = "cvt.u32.u16 %o0, %h0;"


def _lane(
    name: str,
    body: str,
    *inputs: Words,
    outputs: int = 1,
    ulp: int | None = None,
    form: str = "b32",
) -> Case:
    return Lanewise(
        name=name, body=body, inputs=inputs, outputs=outputs, ulp=ulp, form=form
    ).case()


def _conversions(n: int) -> list[Case]:
    x, y = f32_words(100, n), f32_words(200, n)
    found = []
    for to in ("f16", "bf16"):
        for mods in ("rn", "rz", "rn.relu", "rz.relu"):
            found.append(
                _lane(
                    f"cvt {mods}.{to}.f32",
                    f"cvt.{mods}.{to}.f32 %h0, %i0;{_TO_HALF}",
                    x,
                )
            )
            found.append(
                _lane(
                    f"cvt {mods}.{to}x2.f32",
                    f"cvt.{mods}.{to}x2.f32 %o0, %i0, %i1;",
                    x,
                    y,
                )
            )
    for to in ("e4m3x2", "e5m2x2"):
        for relu in ("", ".relu"):
            found += [
                _lane(
                    f"cvt {to}.f32{relu}",
                    f"cvt.rn.satfinite{relu}.{to}.f32 %h0, %i0, %i1;{_TO_HALF}",
                    x,
                    y,
                ),
                _lane(
                    f"cvt {to}.f16x2{relu}",
                    f"cvt.rn.satfinite{relu}.{to}.f16x2 %h0, %i0;{_TO_HALF}",
                    halves(300, n),
                ),
                _lane(
                    f"cvt f16x2.{to}{relu}",
                    f"cvt.u16.u32 %h0, %i0; cvt.rn{relu}.f16x2.{to} %o0, %h0;",
                    hashed(301, n),
                ),
            ]
    for mods in ("rna", "rn", "rz", "rn.relu", "rz.relu"):
        found.append(_lane(f"cvt {mods}.tf32.f32", f"cvt.{mods}.tf32.f32 %o0, %i0;", x))
    for source in ("f16", "bf16"):
        found.append(
            _lane(
                f"cvt f32.{source}",
                f"cvt.u16.u32 %h0, %i0; cvt.f32.{source} %o0, %h0;",
                halves(302, n),
            )
        )
    for to in ("s32", "u32"):
        for mode in ("rni", "rzi", "rmi", "rpi", "rni.ftz"):
            found.append(
                _lane(f"cvt {mode}.{to}.f32", f"cvt.{mode}.{to}.f32 %o0, %i0;", x)
            )
        for mode in ("rn", "rz", "rm", "rp"):
            found.append(
                _lane(
                    f"cvt {mode}.f32.{to}",
                    f"cvt.{mode}.f32.{to} %o0, %i0;",
                    integers(303, n),
                )
            )
        found.append(
            _lane(
                f"cvt rzi.{to[0]}16.f32",
                f"cvt.rzi.{to[0]}16.f32 %h0, %i0;{_TO_HALF}",
                x,
            )
        )
        found.append(
            _lane(
                f"cvt sat.{to[0]}8.{to}",
                f"cvt.sat.{to[0]}8.{to} %h0, %i0;{_TO_HALF}",
                integers(304, n),
            )
        )
        found.append(
            _lane(
                f"cvt rzi.{to[0]}64.f32",
                f"cvt.rzi.{to[0]}64.f32 %x1, %i0; mov.b64 {{%o0, %o1}}, %x1;",
                x,
                outputs=2,
            )
        )
        found.append(
            _lane(
                f"cvt rn.f32.{to[0]}64",
                f"mov.b64 %x1, {{%i0, %i1}}; cvt.rn.f32.{to[0]}64 %o0, %x1;",
                integers(305, n),
                integers(306, n),
            )
        )
        found.append(
            _lane(
                f"cvt rni.{to}.f16",
                f"cvt.u16.u32 %h0, %i0; cvt.rni.{to}.f16 %o0, %h0;",
                halves(307, n),
            )
        )
    for mode in ("rni", "rzi", "rmi", "rpi", "rni.ftz", "sat", "ftz.sat"):
        found.append(_lane(f"cvt {mode}.f32.f32", f"cvt.{mode}.f32.f32 %o0, %i0;", x))
    found += [
        _lane(
            "cvt f64.f32 and back",
            "cvt.f64.f32 %x1, %i0; mov.b64 {%o0, %o1}, %x1; cvt.rm.f32.f64 %o2, %x1;",
            x,
            outputs=3,
        ),
        _lane(
            "cvt f32.f64",
            "shr.b32 %t3, %i1, 3; and.b32 %t3, %t3, "
            "0x8fffffff; or.b32 %t3, %t3, 0x30000000; mov.b64 %x1, {%i0, %t3}; "
            "cvt.rn.f32.f64 %o0, %x1; cvt.rz.f32.f64 %o1, %x1; "
            "cvt.rp.f32.f64 %o2, %x1; cvt.rn.ftz.f32.f64 %o3, %x1;",
            integers(308, n),
            hashed(309, n),
            outputs=4,
        ),
    ]
    return found


def _floats(n: int) -> list[Case]:
    x, y, z = f32_words(400, n), f32_words(410, n), f32_words(420, n)
    found = []
    for op in ("add", "sub", "mul"):
        for mode in ("rn", "rz", "rm", "rp", "rn.ftz", "rn.sat", "rn.ftz.sat"):
            found.append(
                _lane(f"{op} {mode}.f32", f"{op}.{mode}.f32 %o0, %i0, %i1;", x, y)
            )
    for mode in ("rn", "rz", "rm", "rp", "rn.ftz", "rn.sat"):
        found.append(
            _lane(f"fma {mode}.f32", f"fma.{mode}.f32 %o0, %i0, %i1, %i2;", x, y, z)
        )
    for op in ("min", "max"):
        for mods in ("", ".ftz", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"):
            found.append(
                _lane(f"{op}{mods}.f32", f"{op}{mods}.f32 %o0, %i0, %i1;", x, y)
            )
    for op in ("rcp.rn", "rcp.rz", "rcp.rp", "sqrt.rn", "sqrt.rm", "rcp.rn.ftz"):
        found.append(_lane(f"{op}.f32", f"{op}.f32 %o0, %i0;", x))
    for mode in ("rn", "rz", "rp", "rn.ftz"):
        found.append(_lane(f"div {mode}.f32", f"div.{mode}.f32 %o0, %i0, %i1;", x, y))
    for op in ("neg", "abs", "neg.ftz", "abs.ftz"):
        found.append(_lane(f"{op}.f32", f"{op}.f32 %o0, %i0;", x))
    tests = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    body = "".join(
        f"testp.{t}.f32 %p0, %i0; selp.b32 %t2, {1 << k}, 0, %p0; "
        "or.b32 %o0, %o0, %t2; "
        for k, t in enumerate(tests)
    )
    found.append(_lane("testp", body, x))
    orders = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu")
    orders += ("geu", "num", "nan")
    body = "".join(
        f"setp.{o}{f}.f32 %p0, %i0, %i1; selp.b32 %t2, {1 << k}, 0, %p0; "
        f"or.b32 %o{number}, %o{number}, %t2; "
        for number, f in enumerate(("", ".ftz"))
        for k, o in enumerate(orders)
    )
    found.append(_lane("setp f32", body, x, y, outputs=2))
    found.append(_lane("copysign", "copysign.f32 %o0, %i0, %i1;", f32_words(430, n), y))
    wide = "mov.b64 %x1, {%i0, %i1}; mov.b64 %x2, {%i2, %i3}; mov.b64 %x3, {%i1, %i3};"
    close = (
        "and.b32 %t2, %i1, 0x803fffff; or.b32 %t2, %t2, 0x3fc00000; "
        "and.b32 %t3, %i3, 0x803fffff; or.b32 %t3, %t3, 0x3fc00000; "
        "mov.b64 %x1, {%i0, %t2}; mov.b64 %x2, {%i2, %t3}; mov.b64 %x3, {%i3, %t2};"
    )
    args = [hashed(440 + k, n) for k in range(4)]
    for op, operands in (
        ("add.rn", "%x1, %x2"),
        ("mul.rz", "%x1, %x2"),
        ("fma.rn", "%x1, %x2, %x3"),
        ("fma.rp", "%x1, %x2, %x3"),
        ("div.rn", "%x1, %x2"),
        ("sqrt.rn", "%x1"),
        ("min", "%x1, %x2"),
    ):
        for what, start in (("any bits", wide), ("common", close)):
            found.append(
                _lane(
                    f"{op}.f64 {what}",
                    f"{start} {op}.f64 %x4, {operands}; mov.b64 {{%o0, %o1}}, %x4;",
                    *args,
                    outputs=2,
                )
            )
    return found


def _packed(n: int) -> list[Case]:
    x, y, z = halves(500, n), halves(510, n), halves(520, n)
    found = []
    for kind in ("f16x2", "bf16x2"):
        ops = ["add", "sub", "mul", "fma.rn", "fma.rn.relu", "min", "max", "min.NaN"]
        ops += ["max.NaN", "max.xorsign.abs", "neg", "abs"]
        if kind == "f16x2":
            ops += ["add.ftz", "mul.sat", "fma.rn.ftz", "fma.rn.sat", "min.ftz"]
        for op in ops:
            count = 3 if "fma" in op else 1 if op in ("neg", "abs") else 2
            operands = ", ".join(f"%i{k}" for k in range(count))
            found.append(
                _lane(f"{op}.{kind}", f"{op}.{kind} %o0, {operands};", x, y, z)
            )
    body = "".join(
        f"setp.{o}.f16x2 %p0|%p1, %i0, %i1; selp.b32 %t2, {1 << 2 * k}, 0, %p0; "
        f"selp.b32 %t3, {2 << 2 * k}, 0, %p1; or.b32 %o0, %o0, %t2; "
        "or.b32 %o0, %o0, %t3; "
        for k, o in enumerate(("eq", "lt", "geu", "neu", "nan"))
    )
    found.append(_lane("setp f16x2", body, x, y))
    for kind in ("s16x2", "u16x2"):
        for op in ("add", "min", "max"):
            found.append(_lane(f"{op}.{kind}", f"{op}.{kind} %o0, %i0, %i1;", x, y))
    found.append(_lane("max.relu.s16x2", "max.relu.s16x2 %o0, %i0, %i1;", x, y))
    return found


def _integer(n: int) -> list[Case]:
    x, y, z = integers(600, n), integers(610, n), integers(620, n)
    rows: list[tuple[str, str, int]] = []
    for kind in ("s32", "u32"):
        rows += [
            (f"mul.hi.{kind}", f"mul.hi.{kind} %o0, %i0, %i1;", 1),
            (f"mad.hi.{kind}", f"mad.hi.{kind} %o0, %i0, %i1, %i2;", 1),
            (
                f"mad.wide.{kind}",
                f"mov.b64 %x1, {{%i2, %i0}}; mad.wide.{kind} %x1, %i0, %i1, %x1; "
                "mov.b64 {%o0, %o1}, %x1;",
                2,
            ),
            (f"mul24.lo.{kind}", f"mul24.lo.{kind} %o0, %i0, %i1;", 1),
            (f"mul24.hi.{kind}", f"mul24.hi.{kind} %o0, %i0, %i1;", 1),
            (f"sad.{kind}", f"sad.{kind} %o0, %i0, %i1, %i2;", 1),
            (f"min.{kind}", f"min.{kind} %o0, %i0, %i1;", 1),
            (f"max.{kind}", f"max.{kind} %o0, %i0, %i1;", 1),
            (f"bfe.{kind}", f"bfe.{kind} %o0, %i0, %i1, %i2;", 1),
            (f"bfind.{kind}", f"bfind.{kind} %o0, %i0;", 1),
            (
                f"bfind.shiftamt.{kind}",
                f"bfind.shiftamt.{kind} %o0, %i0;",
                1,
            ),
            (f"shr.{kind}", f"shr.{kind} %o0, %i0, %i1;", 1),
            (f"dp4a.{kind}", f"dp4a.{kind}.{kind} %o0, %i0, %i1, %i2;", 1),
            (f"dp2a.lo.{kind}", f"dp2a.lo.{kind}.{kind} %o0, %i0, %i1, %i2;", 1),
            (f"dp2a.hi.{kind}", f"dp2a.hi.{kind}.{kind} %o0, %i0, %i1, %i2;", 1),
            (
                f"div rem {kind}",
                f"setp.eq.u32 %p0, %i1, 0; selp.b32 %t2, 3, %i1, %p0; "
                f"div.{kind} %o0, %i0, %t2; rem.{kind} %o1, %i0, %t2;",
                2,
            ),
            (
                f"mul.wide.{kind[0]}16",
                f"cvt.u16.u32 %h0, %i0; cvt.u16.u32 %h1, %i1; "
                f"mul.wide.{kind[0]}16 %o0, %h0, %h1;",
                1,
            ),
            (
                f"mul.hi.{kind[0]}64",
                f"mov.b64 %x1, {{%i0, %i1}}; mov.b64 %x2, {{%i2, %i0}}; "
                f"mul.hi.{kind[0]}64 %x3, %x1, %x2; mov.b64 {{%o0, %o1}}, %x3;",
                2,
            ),
        ]
    rows += [
        ("add.sat.s32", "add.sat.s32 %o0, %i0, %i1;", 1),
        ("sub.sat.s32", "sub.sat.s32 %o0, %i0, %i1;", 1),
        ("mad.hi.sat.s32", "mad.hi.sat.s32 %o0, %i0, %i1, %i2;", 1),
        (
            "carry chain",
            "add.cc.u32 %o0, %i0, %i1; addc.cc.u32 %o1, %i1, %i2; "
            "addc.u32 %o2, %i2, 0; sub.cc.u32 %o3, %i0, %i1; subc.u32 %o4, %i1, %i2;",
            5,
        ),
        (
            "mad carry",
            "mad.lo.cc.u32 %o0, %i0, %i1, %i2; madc.hi.u32 %o1, %i0, %i1, %i2;",
            2,
        ),
        ("popc clz brev", "popc.b32 %o0, %i0; clz.b32 %o1, %i0; brev.b32 %o2, %i0;", 3),
        (
            "popc clz brev b64",
            "mov.b64 %x1, {%i0, %i1}; popc.b64 %o0, %x1; clz.b64 %o1, %x1; "
            "brev.b64 %x2, %x1; mov.b64 {%o2, %o3}, %x2;",
            4,
        ),
        ("bfi.b32", "bfi.b32 %o0, %i0, %i1, %i2, 7; bfi.b32 %o1, %i0, %i1, 5, %i2;", 2),
        ("shl.b32", "shl.b32 %o0, %i0, %i1; shr.b32 %o1, %i0, %i1;", 2),
        (
            "shf",
            "shf.l.wrap.b32 %o0, %i0, %i1, %i2; shf.r.wrap.b32 %o1, %i0, %i1, %i2; "
            "shf.l.clamp.b32 %o2, %i0, %i1, %i2; shf.r.clamp.b32 %o3, %i0, %i1, %i2;",
            4,
        ),
        (
            "lop3",
            "lop3.b32 %o0, %i0, %i1, %i2, 0x96; lop3.b32 %o1, %i0, %i1, %i2, 0xca; "
            "lop3.b32 %o2, %i0, %i1, %i2, 0x17; lop3.b32 %o3, %i0, %i1, %i2, 0x2d;",
            4,
        ),
        ("prmt", "prmt.b32 %o0, %i0, %i1, %i2;", 1),
        (
            "prmt modes",
            "".join(
                f"prmt.b32.{m} %o{k}, %i0, %i1, %i2; "
                for k, m in enumerate(("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"))
            ),
            6,
        ),
        (
            "szext bmsk",
            "szext.clamp.s32 %o0, %i0, %i1; szext.wrap.u32 %o1, %i0, %i1; "
            "bmsk.clamp.b32 %o2, %i0, %i1; bmsk.wrap.b32 %o3, %i0, %i1;",
            4,
        ),
        (
            "fns",
            "and.b32 %t2, %i1, 31; shr.s32 %t3, %i2, 27; fns.b32 %o0, %i0, %t2, %t3;",
            1,
        ),
        (
            "slct",
            "slct.f32.s32 %o0, %i0, %i1, %i2; slct.b32.f32 %o1, %i0, %i1, %i2;",
            2,
        ),
        ("cnot", "cnot.b32 %o0, %i0; not.b32 %o1, %i0;", 2),
    ]
    return [_lane(name, body, x, y, z, outputs=out) for name, body, out in rows]


def _approximations(n: int) -> list[Case]:
    x, y = f32_words(700, n), f32_words(710, n)
    found = []
    for op, ulp in (
        ("ex2.approx", 2),
        ("ex2.approx.ftz", 2),
        ("lg2.approx", 64),
        ("lg2.approx.ftz", 64),
        ("rcp.approx", 1),
        ("rcp.approx.ftz", 1),
        ("rsqrt.approx", 2),
        ("rsqrt.approx.ftz", 2),
        ("sqrt.approx", 2),
        ("sqrt.approx.ftz", 2),
        ("tanh.approx", 128),
    ):
        found.append(_lane(f"{op}.f32", f"{op}.f32 %o0, %i0;", x, ulp=ulp, form="f32"))
    for op in ("sin.approx", "cos.approx"):
        # The error is bounded absolutely, in [-pi, pi].
        found.append(
            _lane(
                f"{op}.f32",
                f"{op}.f32 %o0, %i0;",
                plain_f32(740, n, -20, 0),
                ulp=1,
                form="absolute",
            )
        )
    for op in ("div.approx", "div.approx.ftz", "div.full", "div.full.ftz"):
        found.append(
            _lane(f"{op}.f32", f"{op}.f32 %o0, %i0, %i1;", x, y, ulp=2, form="f32")
        )
    for kind in ("f16x2", "bf16x2"):
        ftz = ".ftz" if kind == "bf16x2" else ""
        found += [
            _lane(
                f"ex2.{kind}",
                f"ex2.approx{ftz}.{kind} %o0, %i0;",
                halves(720, n),
                ulp=1,
                form=kind,
            ),
            _lane(
                f"tanh.{kind}",
                f"tanh.approx.{kind} %o0, %i0;",
                halves(730, n),
                ulp=1,
                form=kind,
            ),
        ]
    return found


def cases(scale: int) -> list[Case]:
    """All cases; `scale` multiplies the elements of each."""
    n = 512 * scale
    return [
        *_conversions(n),
        *_floats(n),
        *_packed(n),
        *_integer(n // 2),
        *_approximations(n),
    ]
