"""`mma.sync`: fragment layouts from the PTX ISA's figures, and exact fused sums.

The arithmetic here is stated with Python's integers and fractions. That it is the
hardware's is shown by `hw/test_hw_record.py`; this file shows every shape and type on
every target, and what the record cannot: sm_120a, special values, faults.
"""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_case import evaluate, run_kernel

from sidestream.harness.exec.machine import Options

LANE = np.arange(32)
GROUP, THREAD = LANE // 4, LANE % 4
DTYPES = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "tf32": np.dtype(np.float32),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "s8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
}
LEAST = {"f16": -14, "bf16": -126, "tf32": -126, "e4m3": -6, "e5m2": -14, "f32": -126}
FP8 = ("e4m3", "e5m2")
FORMS = [
    *(("f32", t, t, k) for t in ("f16", "bf16") for k in (8, 16)),
    *(("f16", "f16", "f16", k) for k in (8, 16)),
    *(("f32", "tf32", "tf32", k) for k in (4, 8)),
    *((d, a, b, k) for d in ("f32", "f16") for a in FP8 for b in FP8 for k in (16, 32)),
]
INTEGER = [
    ("s32", a, b, k) for a in ("s8", "u8") for b in ("s8", "u8") for k in (16, 32)
]


def _a_place(kind, k, i):
    """Row and column of element a_i of every lane ("Matrix Fragments for mma")."""
    if kind in ("f16", "bf16"):
        row = GROUP + 8 * (i in (2, 3, 6, 7))
        return row, 2 * THREAD + (i & 1) + 8 * (i >= 4)
    if kind == "tf32":
        return GROUP + 8 * (i in (1, 3)), THREAD + 4 * (i >= 2)
    return GROUP + 8 * (4 <= i < 8 or i >= 12), 4 * THREAD + (i & 3) + 16 * (i >= 8)


def _b_place(kind, k, i):
    """Row and column of element b_i of every lane."""
    if kind in ("f16", "bf16"):
        return 2 * THREAD + (i & 1) + 8 * (i >= 2), GROUP
    if kind == "tf32":
        return THREAD + 4 * (i >= 1), GROUP
    return 4 * THREAD + (i & 3) + 16 * (i >= 4), GROUP


def _c_place(i):
    return GROUP + 8 * (i >= 2), 2 * THREAD + (i & 1)


def _registers(matrix, place, count, per):
    """Pack `count` elements of every lane into registers, `per` in each."""
    elements = [np.ascontiguousarray(matrix[place(i)]) for i in range(count)]
    size = matrix.dtype.itemsize
    out = []
    for start in range(0, count, per):
        word = np.zeros(32, np.uint32)
        for j in range(per):
            raw = elements[start + j].view(f"u{size}").astype(np.uint32)
            word |= raw << np.uint32(8 * size * j)
        out.append(word)
    return out


def _braces(prefix, count):
    return "{" + ", ".join(f"%{prefix}{k}" for k in range(count)) + "}"


def multiply(form, a, b, c, *, target="sm_120a", sat=""):
    """D of one instruction on whole matrices, through the fragments."""
    dtype, atype, btype, k = form
    per = 4 // DTYPES[atype].itemsize
    ra = _registers(a, lambda i: _a_place(atype, k, i), k // 2, per)
    rb = _registers(b, lambda i: _b_place(btype, k, i), k // 4, per)
    rc = _registers(c, _c_place, 4, 4 // c.dtype.itemsize)
    inputs = {f"a{i}": r for i, r in enumerate(ra)}
    inputs |= {f"b{i}": r for i, r in enumerate(rb)}
    inputs |= {f"c{i}": r for i, r in enumerate(rc)}
    body = (
        f"mma.sync.aligned.m16n8k{k}.row.col{sat}.{dtype}.{atype}.{btype}.{dtype} "
        f"{_braces('d', len(rc))}, {_braces('a', len(ra))}, {_braces('b', len(rb))}, "
        f"{_braces('c', len(rc))};"
    )
    outputs = {f"d{i}": "u4" for i in range(len(rc))}
    got = evaluate(body, outputs, block=32, target=target, **inputs)
    words = np.stack([got[f"d{i}"] for i in range(len(rc))], 1)
    flat = words.view(c.dtype)
    d = np.zeros((16, 8), c.dtype)
    for i in range(4):
        d[_c_place(i)] = flat[:, i]
    return d


def _exponent(x, least):
    return max(int(np.frexp(x)[1]) - 1, least)


def fused(pairs, c, leasts, frac, dtype):
    """One fused step: align to the largest exponent, cut, add, round once."""
    terms = []
    for x, y in pairs:
        if x and y:
            e = _exponent(x, leasts[0]) + _exponent(y, leasts[1])
            terms.append((Fraction(x) * Fraction(y), e))
    if c:
        terms.append((Fraction(c), _exponent(c, leasts[2])))
    if not terms:
        return dtype.type(0)
    top = max(e for _, e in terms)
    scale = Fraction(2) ** (frac - top)
    total = sum(int(v * scale) for v, _ in terms)  # int() cuts toward zero
    exact = float(Fraction(total) / scale)
    if dtype == np.float16:
        with np.errstate(over="ignore"):
            return np.float16(exact) + np.float16(0)
    with np.errstate(over="ignore"):
        near = np.float32(exact)
    if abs(float(near)) > abs(exact) and abs(exact) < 2.0**128:
        near = np.nextafter(near, np.float32(0))
    return near + np.float32(0)


def expected(form, a, b, c, *, frac=25, step=32):
    dtype, atype, btype, k = form
    width = step // DTYPES[atype].itemsize
    leasts = (LEAST[atype], LEAST[btype], LEAST[dtype])
    x, y = a.astype(np.float64), b.astype(np.float64)
    d = c.copy()
    for row in range(16):
        for col in range(8):
            for start in range(0, k, width):
                pairs = [
                    (float(x[row, j]), float(y[j, col]))
                    for j in range(start, min(start + width, k))
                ]
                before = float(d[row, col])
                d[row, col] = fused(pairs, before, leasts, frac, c.dtype)
    return d


def _accumulator_dtype(form):
    return np.dtype({"f32": "f4", "f16": "f2", "s32": "i4"}[form[0]])


def _cut_tf32(matrix, kind):
    """Values that tf32 holds: the low 13 bits are not read."""
    if kind != "tf32":
        return matrix
    return (matrix.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def _random(form, rng, *, spread):
    _, atype, btype, k = form

    def draw(shape, kind, lo, hi):
        magnitude = (1 + rng.random(shape)) * 2.0 ** rng.integers(lo, hi + 1, shape)
        sign = np.where(rng.random(shape) < 0.5, -1, 1)
        values = np.where(rng.random(shape) < 0.1, 0, magnitude) * sign
        return values.astype(kind)

    narrow = "e4m3" in (atype, btype)
    wide = (-5, 5) if narrow else (-9, 5)
    lo, hi = {"near": (-2, 2), "wide": wide, "tiny": (-52, -42)}[spread]
    a = _cut_tf32(draw((16, k), DTYPES[atype], lo, hi), atype)
    b = _cut_tf32(draw((k, 8), DTYPES[btype], lo, hi), btype)
    if spread == "tiny":
        lo, hi = 2 * lo, 2 * hi
    return a, b, draw((16, 8), _accumulator_dtype(form), lo, hi)


def _name(form):
    return "-".join(map(str, form))


@pytest.mark.parametrize("target", ["sm_120a", "sm_90a"])
@pytest.mark.parametrize("form", [*FORMS, *INTEGER], ids=_name)
def test_small_whole_numbers_give_the_matrix_product(form, target):
    """No rounding: only the places of the elements matter."""
    rng = np.random.default_rng(3)
    low = 0 if "u8" in form else -3
    a = rng.integers(low, 4, (16, form[3])).astype(DTYPES[form[1]])
    b = rng.integers(low, 4, (form[3], 8)).astype(DTYPES[form[2]])
    c = rng.integers(-9, 10, (16, 8)).astype(_accumulator_dtype(form))
    want = a.astype(int) @ b.astype(int) + c.astype(int)
    got = multiply(form, a, b, c, target=target)
    assert (got.astype(int) == want).all()


@pytest.mark.parametrize("spread", ["near", "wide"])
@pytest.mark.parametrize("form", FORMS, ids=_name)
def test_sums_are_fused_cut_and_rounded_once(form, spread):
    rng = np.random.default_rng(len(spread) + form[3])
    a, b, c = _random(form, rng, spread=spread)
    got, want = multiply(form, a, b, c), expected(form, a, b, c)
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize(
    "form", [("f32", "f16", "f16", 16), ("f32", "tf32", "tf32", 8)]
)
def test_ampere_takes_half_a_step_and_one_bit_less(form):
    a, b, c = _random(form, np.random.default_rng(5), spread="wide")
    got = multiply(form, a, b, c, target="sm_80")
    assert got.tobytes() == expected(form, a, b, c, frac=24, step=16).tobytes()
    assert got.tobytes() != expected(form, a, b, c).tobytes()


@pytest.mark.parametrize("form", [f for f in FORMS if f[1] in ("bf16", "tf32")])
def test_products_too_small_to_scale_in_f32(form):
    a, b, c = _random(form, np.random.default_rng(6), spread="tiny")
    got, want = multiply(form, a, b, c), expected(form, a, b, c)
    assert np.abs(want).max() < 2.0**-80
    assert got.tobytes() == want.tobytes()


# What sets the largest exponent, and so where the others are cut:
# form, pairs of A and B along K, C, D.
_CUTS = [
    # subnormal E4M3 counts as 2^-6, so the product's exponent is -12
    (("f32", "e4m3", "e4m3", 16), [(2**-9, 2**-9)], 2**-18 * (1 + 2**-22), 2**-17),
    # a zero does not count, whatever stands opposite
    (("f32", "f16", "f16", 8), [(0, 2**15), (2**-14, 2**-14)], 2**-40, 2**-28 + 2**-40),
    # a subnormal f16 accumulator counts as 2^-14: 2^-48 is cut, and a tie stays one
    (
        ("f16", "f16", "f16", 8),
        [(2**-12, 2**-13), (2**-24, 2**-24)],
        2**-23,
        2**-23,
    ),
    # a subnormal f32 accumulator counts as 2^-126
    (("f32", "bf16", "bf16", 8), [(2**-70, 2**-82)], 2**-149, 2**-149),
]


@pytest.mark.parametrize(("form", "pairs", "start", "want"), _CUTS)
def test_the_largest_exponent(form, pairs, start, want):
    a = np.zeros((16, form[3]), DTYPES[form[1]])
    b = np.zeros((form[3], 8), DTYPES[form[2]])
    for k, (x, y) in enumerate(pairs):
        a[:, k], b[k] = x, y
    c = np.full((16, 8), start, _accumulator_dtype(form))
    got = multiply(form, a, b, c)
    assert (got == np.array(want, got.dtype)).all()
    assert got.tobytes() == expected(form, a, b, c).tobytes()


FIELDS = {"f16": (10, 31), "bf16": (7, 255), "tf32": (23, 255), "e4m3": (3, 16)}
FIELDS |= {"e5m2": (2, 31), "f32": (23, 255)}


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(FORMS),
    st.integers(0, 2**32 - 1),
    st.floats(0, 1),
    st.floats(0, 1),
    st.integers(1, 12),
)
def test_any_finite_bits(form, seed, where_a, where_b, width):
    """Exponents in windows anywhere: zeros, subnormals, sums out of f32's range."""
    rng = np.random.default_rng(seed)

    def bits(shape, kind, name, where):
        fraction, top = FIELDS[name]
        exponent = int(where * (top - 1)) + rng.integers(0, width, shape)
        exponent = np.minimum(exponent, top - 1)
        raw = exponent << fraction | rng.integers(0, 1 << fraction, shape)
        raw = np.where(rng.random(shape) < 0.3, 0, raw)
        raw |= rng.integers(0, 2, shape) << (8 * kind.itemsize - 1)
        values = raw.astype(f"u{kind.itemsize}").view(kind)
        return np.where(np.isnan(values.astype(np.float32)), kind.type(1), values)

    a = _cut_tf32(bits((16, form[3]), DTYPES[form[1]], form[1], where_a), form[1])
    b = _cut_tf32(bits((form[3], 8), DTYPES[form[2]], form[2], where_b), form[2])
    near = min(max(where_a + where_b - 0.5, 0), 1)
    c = bits((16, 8), _accumulator_dtype(form), form[0], near)
    got, want = multiply(form, a, b, c), expected(form, a, b, c)
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_an_infinite_intermediate_stays(dtype):
    """Hopper's fp8 form works in two steps; the first may overflow f16."""
    form = (dtype, "e5m2", "e5m2", 32)
    a = np.zeros((16, 32), DTYPES["e5m2"])
    b = np.full((32, 8), 256, DTYPES["e5m2"])
    a[:, 0], a[:, 2] = 1024, -1024  # of the lower and of the upper pair
    c = np.zeros((16, 8), _accumulator_dtype(form))
    want = np.inf if dtype == "f16" else 0
    assert (multiply(form, a, b, c, target="sm_90a") == want).all()
    assert (multiply(form, a, b, c, target="sm_120a") == 0).all()


_SPECIAL = [
    # elements of A's first row, B's first column, C[0, 0] -> D[0, 0]
    ({0: np.inf}, {0: 1.0}, 0.0, np.inf),
    ({0: np.inf}, {0: -1.0}, 5.0, -np.inf),
    ({0: np.inf}, {}, 0.0, np.nan),  # inf * 0
    ({0: np.inf, 1: -np.inf}, {0: 1.0, 1: 1.0}, 0.0, np.nan),
    ({0: np.nan}, {}, 0.0, np.nan),
    ({}, {3: np.nan}, 0.0, np.nan),
    ({}, {}, np.inf, np.inf),
    ({0: np.inf}, {0: 1.0}, -np.inf, np.nan),
    ({}, {}, np.nan, np.nan),
    ({}, {}, -0.0, 0.0),
    ({0: -0.0}, {0: 1.0}, -0.0, 0.0),
    ({0: 1.0, 1: -1.0}, {0: 1.0, 1: 1.0}, 0.0, 0.0),
    ({}, {0: np.inf}, 0.0, np.nan),  # 0 * inf
    ({0: -2.0}, {0: np.inf}, 0.0, -np.inf),
]


@pytest.mark.parametrize(
    "form", [f for f in FORMS if f[2] != "e4m3" != f[1]], ids=_name
)
@pytest.mark.parametrize("case", _SPECIAL, ids=range(len(_SPECIAL)))
def test_special_values(form, case):
    row, column, start, want = case
    a = np.zeros((16, form[3]), DTYPES[form[1]])
    b = np.zeros((form[3], 8), DTYPES[form[2]])
    c = np.zeros((16, 8), _accumulator_dtype(form))
    for k, v in row.items():
        a[0, k] = v
    for k, v in column.items():
        b[k, 0] = v
    c[0, 0] = start
    got = multiply(form, a, b, c)
    view = got.view(f"u{got.dtype.itemsize}")
    if np.isnan(want):
        assert view[0, 0] == (0x7FFF if got.dtype == np.float16 else 0x7FFFFFFF)
    else:
        assert got[:1, :1].tobytes() == np.array([want], got.dtype).tobytes()
    assert not view[8:, 1:].any() or np.isnan(want) or np.isinf(want)


def test_e4m3_has_a_nan_and_no_infinity():
    form = ("f32", "e4m3", "e4m3", 32)
    a = np.zeros((16, 32), np.uint8)
    a[0, 5], a[1, 5] = 0x7F, 0x7E
    b = np.full((32, 8), 0x38, np.uint8)  # 1.0
    c = np.zeros((16, 8), np.float32)
    kind = DTYPES["e4m3"]
    d = multiply(form, a.view(kind), b.view(kind), c)
    assert (d.view(np.uint32)[0] == 0x7FFFFFFF).all()
    assert (d[1] == 448).all()


def test_a_sum_past_the_largest_number_is_infinite():
    form = ("f32", "bf16", "bf16", 8)
    a = np.full((16, 8), 2.0**100, DTYPES["bf16"])
    b = np.full((8, 8), 2.0**27, DTYPES["bf16"])
    d = multiply(form, a, b, np.zeros((16, 8), np.float32))
    assert (d == np.inf).all()
    # beyond f32 in between, back in range at the end
    b[1:] = -b[1:]
    a[:, 2:] = 0
    d = multiply(form, a, b, np.full((16, 8), 3.0, np.float32))
    assert (d == expected(form, a, b, np.full((16, 8), 3.0, np.float32))).all()


@pytest.mark.parametrize("form", INTEGER, ids=_name)
@pytest.mark.parametrize("sat", ["", ".satfinite"])
def test_integer_sums_wrap_or_saturate(form, sat):
    rng = np.random.default_rng(8)
    a, b = (
        rng.integers(0, 256, shape, np.uint8).view(DTYPES[kind])
        for shape, kind in (((16, form[3]), form[1]), ((form[3], 8), form[2]))
    )
    ends = np.array([2**31 - 1, -(2**31), 0], np.int32)
    c = ends[rng.integers(0, 3, (16, 8))]
    exact = a.astype(np.int64) @ b.astype(np.int64) + c
    limits = np.clip(exact, -(2**31), 2**31 - 1) if sat else exact
    got = multiply(form, a, b, c, sat=sat)
    assert (got == limits.astype(np.int32)).all()
    assert (exact != limits).any() or not sat


_ONE = (
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%d, %u0, %u1, %u2}, "
    "{%a, %a, %a, %a}, {%a, %a}, {0f3F800000, 0f00000000, %z, %z};"
)
_DECLARE = ".reg .b32 %u<4>, %z; mov.b32 %z, 0;"


def test_literal_accumulators():
    a = np.full(32, 0x3C003C00, np.uint32)  # ones
    got = evaluate(_DECLARE + _ONE, {"d": "f4"}, block=32, a=a)
    assert (got["d"] == 17.0).all()


def test_flops_are_counted():
    a = np.zeros(64, np.uint32)
    ran = run_kernel(_DECLARE + _ONE, inputs={"a": a}, outputs={"d": "f4"}, block=64)
    assert ran.result.mma_flops == 2 * (2 * 16 * 8 * 16)


@pytest.mark.parametrize("seed", range(12))
def test_a_warp_that_diverged_joins_before_it_multiplies(seed):
    """One arm runs ahead under some schedules, and must wait for the other."""
    spin = "add.u32 %one, %one, 1; " * 9
    body = (
        _DECLARE + ".reg .pred %odd; .reg .b32 %one;"
        "and.b32 %one, %thread, 1; setp.eq.u32 %odd, %one, 1;"
        f"@%odd bra SLOW; bra JOIN; SLOW: {spin} mov.b32 %a, 0x3c003c00;"
        f"JOIN: {_ONE}"
    )
    a = np.where(np.arange(32) % 2, 0, 0x3C003C00).astype(np.uint32)
    options = Options(seed=seed, quantum=2)
    got = evaluate(body, {"d": "f4"}, block=32, a=a, options=options)
    assert (got["d"] == 17.0).all()


def test_lanes_left_out_are_a_fault():
    body = (
        _DECLARE + ".reg .pred %some; setp.lt.u32 %some, %thread, 20;"
        "mov.b32 %d, 7; @%some " + _ONE
    )
    a = np.full(32, 0x3C003C00, np.uint32)
    ran = run_kernel(body, inputs={"a": a}, outputs={"d": "u4"}, block=32)
    assert [f.kind for f in ran.result.faults] == ["illegal"]
    assert (ran.outputs["d"][20:] == 7).all()


@pytest.mark.parametrize(
    "spelling",
    [
        "m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32",
        "m16n8k64.row.col.s32.s4.s4.s32",
        "m16n8k4.row.col.f64.f64.f64.f64",
    ],
)
def test_what_is_not_modelled_is_named(spelling):
    shape = spelling.split(".")[0]
    wide = "f64" in spelling
    n = {"m16n8k32": (4, 2), "m16n8k64": (4, 2), "m16n8k4": (2, 1)}[shape]
    reg = ".b64" if wide else ".b32"
    body = (
        f".reg {reg} %x<5>; mma.sync.aligned.{spelling} {_braces('x', 4)}, "
        f"{_braces('x', n[0])}, {_braces('x', n[1])}, {_braces('x', 4)};"
    )
    ran = run_kernel(body, outputs={}, block=32)
    assert ran.result.status == "unsupported"
    assert "mma" in ran.program.unsupported[0][1]
