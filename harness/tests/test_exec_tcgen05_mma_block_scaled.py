"""Block-scaled tcgen05.mma: where factors lie, what they mean, what is refused."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from tcgen05_case import COLUMNS, LANES, clean
from tcgen05_layout import SW32, SW128, raw
from tcgen05_product import SF_COLUMN, UNIT, Product, depth

RNG = np.random.default_rng
B_COLUMN = SF_COLUMN + 16
UNALLOCATED, ALIGNMENT, RANGE = 9, 12, 8
COPIES, SCALE, RESERVED, TYPE, MAJOR, M, N = 19, 14, 6, 9, 11, 12, 13

VARIANTS = [
    # kind, dotted words, factors along K, types, scale type
    ("mxf8f6f4", "", 1, ("e4m3", "e4m3"), "ue8m0"),
    ("mxf8f6f4", ".scale_vec::1X", 1, ("e5m2", "e2m3"), "ue8m0"),
    ("mxf8f6f4", ".block32", 1, ("e2m1", "e3m2"), "ue8m0"),
    ("mxf4", "", 2, ("e2m1", "e2m1"), "ue8m0"),
    ("mxf4", ".scale_vec::2X", 2, ("e2m1", "e2m1"), "ue8m0"),
    ("mxf4nvf4", ".scale_vec::2X", 2, ("e2m1", "e2m1"), "ue8m0"),
    ("mxf4nvf4", ".scale_vec::4X", 4, ("e2m1", "e2m1"), "ue8m0"),
    ("mxf4nvf4", ".block16", 4, ("e2m1", "e2m1"), "ue4m3"),
]


def factors(seed, rows, count, name):
    """Bytes of scale factors and their values, `[row][j]`."""
    rng = RNG(seed)
    if name == "ue8m0":
        codes = rng.integers(118, 137, (rows, count)).astype(np.uint8)
        return codes, codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    codes = rng.integers(0, 127, (rows, count)).astype(np.uint8)
    return codes, codes.view(ml_dtypes.float8_e4m3fn).astype(np.float64)


def cells_of(codes, first, column, cells, *, halves=1):
    """Put factors into the words of all partitions of 32 lanes.

    `halves` = 2: lanes 0-63 get the first half of the rows, lanes 64-127 the second.
    """
    octets = cells.view(np.uint8).reshape(COLUMNS, LANES, 4)
    per = len(codes) // halves
    for q in range(4):
        part = codes[q // 2 * per :][:per] if halves == 2 else codes
        r = np.arange(per)
        for j in range(codes.shape[1]):
            octets[column + r // 32, 32 * q + r % 32, first + j] = part[:, j]


def scaled(variant, *, m=128, n=64, group=1, ids=(0, 0), seed=1, **how):
    """A product and the values of its factors."""
    kind, words, count, types, scale = variant
    rng = RNG(seed)
    a, b = (
        raw(2 * rng.normal(size=(rows, depth(kind))), t)
        for rows, t in zip((m, n), types, strict=True)
    )
    old = rng.integers(0, 2**32, (group, COLUMNS, LANES), dtype=np.uint32)
    old[:, :256] = rng.normal(size=(group, 256, LANES)).astype(np.float32).view("u4")
    codes_a, sfa = factors(seed + 1, m, count, scale)
    codes_b, sfb = factors(seed + 2, n, count, scale)
    pairs = group == 2 and m == 128
    for g in range(group):
        rows = np.array_split(codes_a, group)[g]
        cells_of(rows, ids[0], SF_COLUMN, old[g])
        cells_of(codes_b, ids[1], B_COLUMN, old[g], halves=2 if pairs else 1)
    case = Product(
        kind=kind,
        a=a,
        b=b,
        types=(*types, "f32"),
        group=group,
        old=old,
        words=f".block_scale{words}",
        scales=f"[%t+{SF_COLUMN}], [%t+{B_COLUMN}], ",
        extra={"sfa": ids[0], "sfb": ids[1], "ue8m0": scale == "ue8m0"},
        **how,
    )
    return case, sfa, sfb


def check(case, sfa, sfb):
    got = case.result(clean(case.run())).view(np.float32).astype(np.float64)
    a, b = case.terms()
    block = a.shape[1] // sfa.shape[1]
    a, b = a * sfa.repeat(block, 1), b * sfb.repeat(block, 1)
    exact = a @ b.T + case.before()
    # One rounding to f32, and float64 sums here and there.
    slack = 2.0**-50 * (np.abs(a) @ np.abs(b).T + np.abs(case.before()))
    bound = UNIT * np.abs(exact) + slack + 2.0**-150
    assert (np.abs(got - exact) <= bound).all()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("enable", [False, True])
def test_products_of_scaled_matrices(variant, enable):
    check(*scaled(variant, enable=enable))
    check(*scaled(variant, n=200, negate=(True, False), enable=enable))


@pytest.mark.parametrize("variant", [VARIANTS[0], VARIANTS[4], VARIANTS[6]])
@pytest.mark.parametrize("m", [128, 256])
@pytest.mark.parametrize("n", [32, 160, 256])
def test_pairs_of_ctas(variant, m, n):
    check(*scaled(variant, m=m, n=n, group=2, enable=True))


@pytest.mark.parametrize("variant", [VARIANTS[0], VARIANTS[3]])
def test_a_from_tensor_memory_and_swizzled_operands(variant):
    check(*scaled(variant, a_cells=True))
    check(*scaled(variant, mode=(SW32, SW128)))


@pytest.mark.parametrize(
    "types", [("e2m1", "e4m3"), ("e3m2", "e5m2"), ("e2m3", "e2m1")]
)
def test_narrow_types_in_tensor_memory_fill_a_byte(types):
    check(*scaled(("mxf8f6f4", "", 1, types, "ue8m0"), a_cells=True))


@pytest.mark.parametrize("ids", [(1, 0), (2, 3), (3, 1)])
def test_one_factor_lies_in_any_byte(ids):
    check(*scaled(VARIANTS[0], ids=ids))


@pytest.mark.parametrize("ids", [(1, 0), (2, 3), (3, 1)])
def test_an_address_may_repeat_the_factor_id_in_its_upper_bits(ids):
    """As the code of CUTLASS and of CuTe DSL has it."""
    case, sfa, sfb = scaled(VARIANTS[0], ids=ids)
    edits = [
        (f"[%t+{column}]", f"[%t+{column + (at - 4 * (at > 1)) * 2**30}]")
        for column, at in zip((SF_COLUMN, B_COLUMN), ids, strict=True)
    ]
    check(replace(case, edits=tuple(edits)), sfa, sfb)


@pytest.mark.parametrize("ids", [(0, 2), (2, 0), (2, 2)])
def test_two_factors_lie_in_either_half(ids):
    check(*scaled(VARIANTS[3], ids=ids))


def test_a_factor_of_all_ones_is_nan():
    case, _, _ = scaled(VARIANTS[0])
    old = case.old.copy()
    old[0, SF_COLUMN, 5::32] |= 0xFF
    got = replace(case, old=old).run().cells[0, 0]
    assert got[5] == 0x7FFFFFFF
    assert not np.isnan(got.view(np.float32)[6])


def test_factors_outside_f32_do_not_overflow_on_the_way():
    case, _, _ = scaled(VARIANTS[0], enable=False)
    old = case.old.copy()
    old[0, SF_COLUMN : SF_COLUMN + 4] = 254  # 2^127
    old[0, B_COLUMN : B_COLUMN + 2] = 0  # 2^-127
    case = replace(case, old=old)
    got = case.result(clean(case.run())).view(np.float32)
    a, b = case.terms()
    np.testing.assert_allclose(got, a @ b.T, rtol=2 * UNIT, atol=1e-12)


# What is refused.


def faults(case):
    result = case.run().result
    assert result.status == "done"
    return {(f.kind, f.info) for f in result.faults}


@pytest.mark.parametrize("which", ["a", "b"])
def test_copies_of_factors_must_agree(which):
    case, _, _ = scaled(VARIANTS[0])
    old = case.old.copy()
    old[0, SF_COLUMN + 3 if which == "a" else B_COLUMN + 1, 3 * 32 + 7] ^= 1
    assert faults(replace(case, old=old)) == {("tcgen05", COPIES)}


def test_other_bytes_of_the_word_may_differ():
    case, sfa, sfb = scaled(VARIANTS[0])
    old = case.old.copy()
    old[0, SF_COLUMN, 40] ^= 0x100
    check(replace(case, old=old), sfa, sfb)


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        ((f"[%t+{SF_COLUMN}]", "[%t+510]"), RANGE),
        # Upper bits that repeat another factor id than the descriptor's.
        ((f"[%t+{SF_COLUMN}]", f"[%t+{SF_COLUMN | 1 << 30}]"), RANGE),
        ((f"[%t+{B_COLUMN}]", f"[%t+{B_COLUMN + (16 << 16)}]"), ALIGNMENT),
    ],
)
def test_addresses_of_factors(edit, code):
    case, _, _ = scaled(VARIANTS[0])
    assert faults(replace(case, edits=(edit,))) == {("tmem", code)}


@pytest.mark.parametrize(
    ("variant", "flip", "code"),
    [
        (0, 1 << 0, RESERVED),
        (0, 1 << 3, RESERVED),
        (0, 1 << 6, RESERVED),
        (0, 1 << 25, RESERVED),
        (0, 1 << 31, RESERVED),
        (3, 1 << 31, RESERVED),  # K = 96 needs sm_103a
        (3, 1 << 12, RESERVED),
        (0, 2 << 7, TYPE),
        (3, 2 << 7, TYPE),
        (3, 1 << 15, MAJOR),
        (3, 1 << 16, MAJOR),
        (0, 3 << 27, M),
        (0, 1 << 27, M),
        (0, 1 << 23, SCALE),  # UE4M3
        (3, 1 << 23, SCALE),
        (5, 1 << 23, SCALE),  # UE4M3 with two factors
        (3, 1 << 4, SCALE),
        (4, 1 << 29, SCALE),
        (6, 2 << 4, SCALE),
        (6, 1 << 29, SCALE),
        (0, 63 << 17, N),
    ],
)
def test_instruction_descriptors_that_are_refused(variant, flip, code):
    case, _, _ = scaled(VARIANTS[variant])
    edit = ("mov.b32 %t, 0;", f"mov.b32 %t, 0; xor.b32 %i, %i, {flip};")
    assert faults(replace(case, edits=(edit,))) == {("tcgen05", code)}
