"""Cases of warp-level matrix instructions: `mma.sync`, `ldmatrix`, `stmatrix`."""

from __future__ import annotations

import numpy as np
from hw_case import Case, Lanewise, Words, hashed, plain_f32

_FORMATS = {
    # exponent bits, mantissa bits
    "f16": (5, 10),
    "bf16": (8, 7),
    "tf32": (8, 10),
    "e4m3": (4, 3),
    "e5m2": (5, 2),
}
KINDS = 8
"""Kinds of operands; trial `t` takes kind `t % KINDS`."""


def _element(kind: str, seed: int, trials: int, j: int, spread: str) -> Words:
    """One element of every lane of every trial, as the low bits of a word."""
    exponent_bits, mantissa_bits = _FORMATS[kind]
    count = 32 * trials
    bits = hashed(seed + 7 * j, count)
    other = hashed(seed + 7 * j + 1000, count)
    bias = (1 << (exponent_bits - 1)) - 1
    top = (1 << exponent_bits) - 1
    mantissa = bits & ((1 << mantissa_bits) - 1)
    sign = (bits >> 31) & 1
    wide = other % (top - (kind != "e4m3"))
    exponent = {
        "common": bias - 2 + other % 4,
        "wide": wide,
        "low": other % 3,
        "any": other % (top + 1),
        "high": top - 1 - (kind != "e4m3") - other % 3,
    }[spread]
    word = (sign << (exponent_bits + mantissa_bits)) | (exponent << mantissa_bits)
    return (word | mantissa).astype(np.uint32)


def _pack(kind: str, elements: list[Words]) -> Words:
    exponent_bits, mantissa_bits = _FORMATS[kind]
    width = 32 if kind == "tf32" else 1 + exponent_bits + mantissa_bits
    word = np.zeros_like(elements[0])
    for j, element in enumerate(elements):
        shift = 13 if kind == "tf32" else j * width
        word |= element << np.uint32(shift)
    return word


def _register(kind: str, seed: int, trials: int, other: str | None = None) -> Words:
    """One A or B register of every lane; what a trial holds depends on its kind."""
    per = {"tf32": 1, "f16": 2, "bf16": 2}.get(kind, 4)
    exponent_bits, mantissa_bits = _FORMATS[kind]
    spreads = ("common", "wide", "common", "low", "any", "common", "high", "common")
    made: dict[str, Words] = {}
    for spread in set(spreads):
        made[spread] = _pack(
            kind, [_element(kind, seed, trials, j, spread) for j in range(per)]
        )
    trial = np.repeat(np.arange(trials), 32)
    out = made["common"].copy()
    for number, spread in enumerate(spreads):
        out = np.where(trial % KINDS == number, made[spread], out)
    width = 1 + exponent_bits + mantissa_bits
    if per > 1:
        # Kind 2 cancels: the upper half repeats the lower, negated in A.
        half = np.uint32(16)
        low = out & 0xFFFF
        flip = np.uint32(0x8000 if width == 16 else 0x8080) if other is None else 0
        twin = low ^ np.uint32(flip)
        noise = (hashed(seed + 5, len(out)) % 5 == 0).astype(np.uint32)
        out = np.where(trial % KINDS == 2, low | ((twin ^ noise) << half), out)
    # Kind 5 is sparse: most elements are zero, of either sign.
    zero = hashed(seed + 6, len(out)) % 8 < 5
    signs = 0x80008000 if width == 16 else 0x80808080 if width == 8 else 0x80000000
    out = np.where((trial % KINDS == 5) & zero, out & np.uint32(signs), out)
    return out.astype(np.uint32)


def _accumulator(kind: str, wide: bool, seed: int, trials: int) -> Words:
    count = 32 * trials
    bits = hashed(seed, count)
    trial = np.repeat(np.arange(trials), 32)
    if not wide:
        common = (bits & 0x83FF83FF) | (hashed(seed + 1, count) % 4 + 13) * 0x04000400
        out = np.where(trial % KINDS == 4, bits, common)
        out = np.where(trial % KINDS == 1, bits & 0xBFFFBFFF, out)
        out = np.where(trial % KINDS == 3, bits & 0x87FF87FF, out)
        return np.where(trial % KINDS == 5, bits & 0x80008000, out).astype(np.uint32)
    span = {"f16": 12, "e4m3": 8, "e5m2": 14, "bf16": 100, "tf32": 100}[kind]
    out = plain_f32(seed, count, -3, 3)
    out = np.where(trial % KINDS == 1, plain_f32(seed + 2, count, -span, span), out)
    tiny = plain_f32(seed + 4, count, -30, -12)
    if kind in ("bf16", "tf32"):
        tiny = bits & 0x81FFFFFF
    out = np.where(trial % KINDS == 3, tiny, out)
    out = np.where(trial % KINDS == 4, bits, out)
    out = np.where(trial % KINDS == 5, bits & 0x80000000, out)
    return np.where(trial % KINDS == 7, plain_f32(seed + 3, count, 10, 26), out).astype(
        np.uint32
    )


def _mma(
    shape: str, dtype: str, atype: str, btype: str, *, trials: int, seed: int
) -> Case:
    k = int(shape.split("k")[1])
    per = {"tf32": 1, "f16": 2, "bf16": 2}.get(atype, 4)
    half_registers = k // (4 * per)
    n_cd = 4 if dtype == "f32" else 2
    a = [_register(atype, seed + 100 * r, trials) for r in range(2 * half_registers)]
    b = [
        _register(btype, seed + 5000 + 100 * r, trials, "B")
        for r in range(half_registers)
    ]
    c = [
        _accumulator(atype, dtype == "f32", seed + 9000 + 100 * r, trials)
        for r in range(n_cd)
    ]

    def braces(prefix: str, start: int, n: int) -> str:
        return "{" + ", ".join(f"%{prefix}{start + r}" for r in range(n)) + "}"

    body = (
        f"mma.sync.aligned.{shape}.row.col.{dtype}.{atype}.{btype}.{dtype} "
        f"{braces('o', 0, n_cd)}, {braces('i', 0, len(a))}, "
        f"{braces('i', len(a), len(b))}, {braces('i', len(a) + len(b), n_cd)};"
    )
    return Lanewise(
        name=f"mma {shape}.{dtype}.{atype}.{btype}",
        body=body,
        inputs=(*a, *b, *c),
        outputs=n_cd,
        block=32,
    ).case()


def _underflow(shape: str, dtype: str, atype: str, trials: int) -> Case:
    """Sums below the accumulator's least subnormal, beside zeros of either sign.

    Magnitudes of A and B are powers of two around the square root of that least
    number, with short mantissas; C is a signed zero or one of the least subnormals.
    """
    exponent_bits, mantissa_bits = _FORMATS[atype]
    width = 1 + exponent_bits + mantissa_bits
    bias = (1 << (exponent_bits - 1)) - 1
    least = -149 if dtype == "f32" else -24
    count = 32 * trials
    per = 32 // width
    shift = 13 if atype == "tf32" else 0

    def register(seed: int) -> Words:
        word = np.zeros(count, np.uint32)
        for j in range(max(per, 1)):
            bits = hashed(seed + j, count)
            exponent = bias + least // 2 - 2 + bits % 4
            element = (bits >> 31) << (width - 1) | exponent << mantissa_bits
            element |= ((bits >> 8) & 3) << (mantissa_bits - 2)
            element = np.where((bits >> 12) % 8 < 5, 0, element)
            word |= element.astype(np.uint32) << np.uint32(width * j + shift)
        return word

    k = int(shape.split("k")[1])
    halves = k // (4 * max(per, 1))
    a = [register(3000 + 50 * r) for r in range(2 * halves)]
    b = [register(4000 + 50 * r) for r in range(halves)]
    n_cd = 4 if dtype == "f32" else 2
    mask = 0x80000003 if dtype == "f32" else 0x80038003
    c = [hashed(5000 + r, count) & np.uint32(mask) for r in range(n_cd)]
    c = [np.where(hashed(5100, count) % 3 == 0, w & 0x80008000, w) for w in c]

    def braces(prefix: str, start: int, n: int) -> str:
        return "{" + ", ".join(f"%{prefix}{start + r}" for r in range(n)) + "}"

    body = (
        f"mma.sync.aligned.{shape}.row.col.{dtype}.{atype}.{atype}.{dtype} "
        f"{braces('o', 0, n_cd)}, {braces('i', 0, len(a))}, "
        f"{braces('i', len(a), len(b))}, {braces('i', len(a) + len(b), n_cd)};"
    )
    return Lanewise(
        name=f"mma underflow {shape}.{dtype}.{atype}",
        body=body,
        inputs=(*a, *b, *c),
        outputs=n_cd,
        block=32,
    ).case()


def _mma_int(shape: str, atype: str, btype: str, sat: str, count: int) -> Case:
    regs = int(shape.split("k")[1]) // 16
    n = 3 * regs + 4
    words = [hashed(40 + r, count) for r in range(n)]
    if sat:
        ends = np.array([0x7FFFFFFF, 0x80000000, 0x7FFFFFF0], np.uint32)
        words[-4:] = [ends[w % 3] for w in words[-4:]]

    def braces(prefix: str, start: int, size: int) -> str:
        return "{" + ", ".join(f"%{prefix}{start + r}" for r in range(size)) + "}"

    body = (
        f"mma.sync.aligned.{shape}.row.col{sat}.s32.{atype}.{btype}.s32 "
        f"{braces('o', 0, 4)}, {braces('i', 0, 2 * regs)}, "
        f"{braces('i', 2 * regs, regs)}, {braces('i', 3 * regs, 4)};"
    )
    return Lanewise(
        name=f"mma {shape}.{atype}.{btype}{sat}",
        body=body,
        inputs=tuple(words),
        outputs=4,
        block=32,
    ).case()


def _matrix(name: str, body: str, outputs: int, inputs: int, count: int) -> Case:
    """Shared-memory matrices: every warp owns 2 KiB, 16 bytes a lane and more."""
    declare = ".shared .align 128 .b8 tile[2048];\n.reg .b32 %s<4>;"
    return Lanewise(
        name=name,
        body="mov.u32 %s0, tile;\n" + body,
        inputs=tuple(hashed(900 + r, count) for r in range(inputs)),
        outputs=outputs,
        declare=declare,
        block=32,
    ).case()


def _ldmatrix(num: int, trans: str, count: int) -> Case:
    outputs = ", ".join(f"%o{r}" for r in range(num))
    body = (
        "shl.b32 %s1, %lane, 4; add.u32 %s1, %s0, %s1;\n"
        "st.shared.v4.b32 [%s1], {%i0, %i1, %i2, %i3};\n"
        "bar.sync 0;\n"
        # Rows in an order of their own: lane l gives row (5 l + 3) mod 32.
        "mad.lo.u32 %s2, %lane, 5, 3; and.b32 %s2, %s2, 31;\n"
        "shl.b32 %s2, %s2, 4; add.u32 %s2, %s0, %s2;\n"
        f"ldmatrix.sync.aligned.m8n8.x{num}{trans}.shared.b16 {{{outputs}}}, [%s2];"
    )
    return _matrix(f"ldmatrix x{num}{trans}", body, num, 4, count)


def _stmatrix(num: int, trans: str, count: int) -> Case:
    values = ", ".join(f"%i{r}" for r in range(num))
    body = (
        "shl.b32 %s1, %lane, 4; add.u32 %s1, %s0, %s1;\n"
        "st.shared.v4.b32 [%s1], {%lane, %lane, %lane, %lane};\n"
        "bar.sync 0;\n"
        "mad.lo.u32 %s2, %lane, 7, 1; and.b32 %s2, %s2, 31;\n"
        "shl.b32 %s2, %s2, 4; add.u32 %s2, %s0, %s2;\n"
        f"stmatrix.sync.aligned.m8n8.x{num}{trans}.shared.b16 [%s2], {{{values}}};\n"
        "bar.sync 0;\n"
        "ld.shared.v4.b32 {%o0, %o1, %o2, %o3}, [%s1];"
    )
    return _matrix(f"stmatrix x{num}{trans}", body, 4, 4, count)


def cases(scale: int) -> list[Case]:
    """All cases; `scale` multiplies the trials of each."""
    t = 16 * scale
    found = []
    for shape in ("m16n8k8", "m16n8k16"):
        found += [
            _mma(shape, "f32", "f16", "f16", trials=t, seed=1),
            _mma(shape, "f16", "f16", "f16", trials=t, seed=2),
            _mma(shape, "f32", "bf16", "bf16", trials=t, seed=3),
        ]
    for shape in ("m16n8k4", "m16n8k8"):
        found.append(_mma(shape, "f32", "tf32", "tf32", trials=t, seed=4))
    for number, (x, y) in enumerate(
        (("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e4m3"), ("e5m2", "e5m2"))
    ):
        found += [
            _mma("m16n8k32", "f32", x, y, trials=t, seed=10 + number),
            _mma("m16n8k32", "f16", x, y, trials=t, seed=20 + number),
        ]
    for dtype in ("f32", "f16"):
        found.append(_mma("m16n8k16", dtype, "e4m3", "e5m2", trials=t, seed=30))
    found += [
        _underflow("m16n8k16", "f32", "bf16", t // 2),
        _underflow("m16n8k8", "f32", "tf32", t // 2),
        _underflow("m16n8k16", "f16", "f16", t // 2),
    ]
    count = 32 * 4 * scale
    for shape in ("m16n8k16", "m16n8k32"):
        found += [
            _mma_int(shape, "s8", "s8", "", count),
            _mma_int(shape, "u8", "s8", ".satfinite", count),
        ]
    for num in (1, 2, 4):
        for trans in ("", ".trans"):
            found += [
                _ldmatrix(num, trans, 32 * 4),
                _stmatrix(num, trans, 32 * 4),
            ]
    found.append(
        Lanewise(
            name="movmatrix",
            body="movmatrix.sync.aligned.m8n8.trans.b16 %o0, %i0;",
            inputs=(hashed(77, 128),),
            block=32,
        ).case()
    )
    return found
