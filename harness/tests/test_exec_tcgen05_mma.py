"""tcgen05.mma against float64: layouts, shapes, types, and what it may not be given."""

from dataclasses import replace

import numpy as np
import pytest
from tcgen05_case import COLUMNS, LANES, clean, commit, run
from tcgen05_layout import BASE32, NONE, SW32, SW64, SW128, Place, raw
from tcgen05_product import RNG, UNIT, Product, depth, product

from sidestream.harness.exec.machine import Options

MODES = (NONE, SW32, SW64, SW128)
TYPES = {
    "f16": ("f16", "bf16"),
    "tf32": ("tf32",),
    "f8f6f4": ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1"),
}


def f32(words):
    with np.errstate(invalid="ignore"):
        return words.view(np.float32).astype(np.float64)


def check_exact(case, options=None):
    ran = clean(case.run(options))
    np.testing.assert_array_equal(f32(case.result(ran)), case.exact())
    m, n, k = case.shape
    assert ran.result.mma_flops == 2 * m * n * k
    return ran


# Layouts in shared memory.


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("mn", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("kind", ["f16", "f8f6f4", "i8"])
def test_every_layout_of_shared_memory(kind, mn, mode):
    name = {"f16": "bf16", "f8f6f4": "e4m3", "i8": "s8"}[kind]
    if kind != "i8":
        check_exact(product(kind, 128, 96, name, name, mn=mn, mode=(mode, mode)))
        return
    a, b = (
        RNG(s).integers(-128, 128, (r, 32)).astype(np.int8)
        for s, r in ((1, 128), (2, 96))
    )
    case = Product(
        kind="i8", a=a, b=b, types=("s8", "s8", "s32"), mn=mn, mode=(mode, mode)
    )
    ran = clean(case.run())
    np.testing.assert_array_equal(case.result(ran).view(np.int32), case.exact())


@pytest.mark.parametrize("mode", MODES)
def test_k_major_layouts_of_32_bit_elements(mode):
    check_exact(product("tf32", 64, 40, "tf32", "tf32", mode=(mode, mode)))


def test_transposed_32_bit_elements_swizzle_in_pairs_of_chunks():
    case = product("tf32", 128, 64, "tf32", "tf32", mn=(True, True))
    check_exact(replace(case, mode=(BASE32, BASE32)))


@pytest.mark.parametrize(
    ("kind", "mn", "mode", "place"),
    [
        ("f16", False, NONE, {"lbo": 4096, "sbo": 160}),
        ("f16", False, SW64, {"sbo": 1536}),
        ("f16", True, NONE, {"lbo": 144, "sbo": 320}),
        ("f16", True, SW32, {"lbo": 768, "sbo": 256}),
        ("f16", True, SW128, {"lbo": 4096, "sbo": 1024}),
        ("tf32", True, BASE32, {"lbo": 2048, "sbo": 1024}),
    ],
)
def test_strides_with_gaps(kind, mn, mode, place):
    name = TYPES[kind][0]
    where = Place(start=0, mode=mode, mn=mn, **place)
    case = product(kind, 64, 64, name, name, mn=(mn, mn), mode=(mode, mode))
    check_exact(replace(case, layouts=(where, where)))


@pytest.mark.parametrize(("mode", "rows"), [(SW128, 5), (SW64, 3), (SW32, 1)])
def test_a_base_offset_moves_the_start_of_the_pattern(mode, rows):
    # The whole matrix starts `rows` rows of 128 bytes into a pattern of the addresses.
    case = product(m=64, n=32, mode=(mode, mode))
    where = case.place(0, 0)
    moved = replace(where, base=rows, start=128 * rows)
    check_exact(replace(case, layouts=(moved, moved)))


@pytest.mark.parametrize("step", range(4))
def test_a_start_within_the_swizzle_pattern_selects_columns_of_k(step):
    # Tiles with 64 columns of K, of which a multiplication takes 16.
    tiles = tuple(
        raw(RNG(s).integers(-3, 4, (r, 64)), "f16") for s, r in ((5, 128), (6, 32))
    )
    a, b = (t[:, 16 * step : 16 * step + 16] for t in tiles)
    skip = (32 * step, 32 * step)
    case = Product(kind="f16", a=a, b=b, mode=(SW128, SW128), stored=tiles, skip=skip)
    check_exact(case)


# Shapes and where D lies.

SHAPES = [(1, False, 64, n, lane) for n in (8, 24, 256) for lane in (0, 16)]
SHAPES += [(1, False, 128, n, 0) for n in (8, 72, 256)]
SHAPES += [(2, False, m, n, 0) for m in (128, 256) for n in (16, 112, 256)]
SHAPES += [(1, True, m, n, 0) for m in (32, 64, 128) for n in (64, 128, 256)]


@pytest.mark.parametrize(("group", "ws", "m", "n", "lane"), SHAPES)
@pytest.mark.parametrize("a_cells", [False, True])
def test_every_shape(group, ws, m, n, lane, a_cells):
    case = product(m=m, n=n, group=group, ws=ws, lane=lane, a_cells=a_cells)
    ran = check_exact(case)
    # What is no element of D stays as it was.
    _, cells = case.images()
    cells[case.positions()] = ran.cells[case.positions()]
    np.testing.assert_array_equal(ran.cells, cells)


@pytest.mark.parametrize("issuer", [0, 1])
def test_either_cta_of_a_pair_may_issue(issuer):
    check_exact(product(m=256, n=32, group=2, issuer=issuer))


@pytest.mark.parametrize("kind", ["tf32", "f8f6f4"])
def test_other_kinds_take_a_from_tensor_memory(kind):
    for name in TYPES[kind]:
        check_exact(product(kind, 128, 16, name, TYPES[kind][0], a_cells=True))


# Numbers.


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("enable", [False, True])
def test_products_of_random_numbers_stay_within_the_bound_of_their_sums(kind, enable):
    rng = RNG(7)
    for a in TYPES[kind]:
        for b in TYPES[kind]:
            scale = 4 if kind == "f8f6f4" else 1
            old = rng.normal(size=(1, 256, LANES)).astype(np.float32)
            case = Product(
                kind=kind,
                a=raw(scale * rng.normal(size=(128, depth(kind))), a),
                b=raw(scale * rng.normal(size=(32, depth(kind))), b),
                types=(a, b, "f32"),
                old=old.view(np.uint32),
                enable=enable,
            )
            got = f32(case.result(clean(case.run())))
            assert (np.abs(got - case.exact()) <= case.bound()).all()


def test_sums_run_in_increasing_k():
    # 2^24 swallows a 1 that comes behind it, and not one that came before.
    a = np.zeros((128, 16), np.float16)
    a[0, :3] = (2**12, 1, 1)
    a[1, :3] = (1, 1, 2**12)
    b = np.ones((8, 16), np.float16)
    b[0, :3] = (2**12, 1, 1)
    b[1, :3] = (1, 1, 2**12)
    case = Product(kind="f16", a=a, b=b)
    got = f32(case.result(clean(case.run())))
    assert got[0, 0] == 2**24
    assert got[1, 1] == 2**24 + 2


@pytest.mark.parametrize("negate", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("mn", [False, True])
def test_negation(negate, mn):
    check_exact(product(negate=negate, mn=(mn, mn)))
    check_exact(product(negate=negate, a_cells=True))


@pytest.mark.parametrize("shift", [0, 1, 7, 15])
@pytest.mark.parametrize("kind", ["f16", "tf32"])
def test_the_accumulator_can_be_scaled_down(kind, shift):
    name = TYPES[kind][0]
    old = RNG(3).integers(-(2**7), 2**7, (1, 256, LANES)) * 2.0**15
    case = product(
        kind,
        a=name,
        b=name,
        old=old.astype(np.float32).view(np.uint32),
        enable=True,
        tail=f", {shift}",
    )
    got = f32(case.result(clean(case.run())))
    a, b = case.terms()
    np.testing.assert_array_equal(got, a @ b.T + case.before() * 2.0**-shift)


@pytest.mark.parametrize("group", [1, 2])
def test_disabled_lanes_keep_what_they_had(group):
    rng = RNG(11)
    mask = [int(v) for v in rng.integers(0, 2**32, 4 * group)]
    old = rng.integers(0, 2**32, (group, 256, LANES), dtype=np.uint32)
    case = product(m=128 * group, n=32, group=group, old=old, mask=mask)
    ran = clean(case.run())
    off = (np.array(mask, np.uint32)[:, None] >> np.arange(32, dtype=np.uint32)) & 1
    off = off.reshape(group, LANES).astype(bool)
    cta, column, lane = case.positions()
    kept = off[cta, lane]
    got = case.result(ran)
    np.testing.assert_array_equal(got[kept], old[cta, column, lane][kept])
    np.testing.assert_array_equal(f32(got)[~kept], case.exact()[~kept])


@pytest.mark.parametrize("kind", ["f16", "f8f6f4"])
def test_half_accumulators_are_rounded_once(kind):
    rng = RNG(13)
    name = {"f16": "f16", "f8f6f4": "e4m3"}[kind]
    old = rng.normal(size=(1, 256, LANES)).astype(np.float16)
    words = old.view(np.uint16).astype(np.uint32) | np.uint32(0xABCD0000)
    case = Product(
        kind=kind,
        a=raw(rng.normal(size=(128, depth(kind))), name),
        b=raw(rng.normal(size=(16, depth(kind))), name),
        types=(name, name, "f16"),
        old=words,
        enable=True,
    )
    got = case.result(clean(case.run()))
    assert (got >> 16 == 0).all()
    value = got.astype(np.uint16).view(np.float16).astype(np.float64)
    a, b = case.terms()
    cta, column, lane = case.positions()
    start = old[cta, column, lane].astype(np.float64)
    exact = a @ b.T + start
    steps = case.shape[2] * UNIT
    sums = steps / (1 - steps) * (np.abs(a) @ np.abs(b).T + np.abs(start))
    rounding = np.spacing(np.abs(exact).astype(np.float16)).astype(np.float64) / 2
    assert (np.abs(value - exact) <= sums + rounding).all()
    assert (np.abs(value - exact) > 0).any()


def test_special_values_follow_ieee():
    inf, nan = np.inf, np.nan
    a = np.zeros((128, 16), np.float16)
    b = np.zeros((8, 16), np.float16)
    a[:6, 0] = (inf, -inf, nan, 0, 1, -1)
    b[:4, 0] = (1, -1, 0, inf)
    case = Product(kind="f16", a=a, b=b)
    words = case.result(clean(case.run()))
    with np.errstate(invalid="ignore"):
        expected = a[:6, :1].astype(np.float32) * b[None, :4, 0].astype(np.float32)
    got = words[:6, :4]
    np.testing.assert_array_equal(np.isnan(expected), got == 0x7FFFFFFF)
    fine = ~np.isnan(expected)
    np.testing.assert_array_equal(got.view(np.float32)[fine], expected[fine])


def test_subnormal_operands_and_results_count_in_full():
    a = np.full((128, 16), np.float16(6e-8))
    b = np.full((8, 16), np.float16(6e-8))
    check_exact(Product(kind="f16", a=a, b=b))
    tiny = raw(np.full((128, 16), 2.0**-70), "bf16")
    case = Product(kind="f16", a=tiny, b=tiny[:8], types=("bf16", "bf16", "f32"))
    ran = check_exact(case)
    assert 0 < f32(case.result(ran))[0, 0] < np.finfo(np.float32).tiny


def test_tf32_ignores_the_low_bits_of_its_words():
    words = RNG(4).integers(0, 2**32, (128, 8), dtype=np.uint32)
    words = words & 0x807FFFFF | 127 << 23
    a = words.astype(np.uint32).view(np.float32)
    case = Product(kind="tf32", a=a, b=a[:16], types=("tf32", "tf32", "f32"))
    got = f32(case.result(clean(case.run())))
    assert (np.abs(got - case.exact()) <= case.bound()).all()
    assert (np.abs(a.astype(float) @ a[:16].T - case.exact()) > case.bound()).any()


@pytest.mark.parametrize("signs", [("u8", "s8"), ("s8", "u8"), ("u8", "u8")])
@pytest.mark.parametrize("saturate", [False, True])
def test_integers_wrap_or_saturate(signs, saturate):
    low = {"u8": 0, "s8": -128}
    rng = RNG(17)
    a, b = (
        rng.integers(low[s], low[s] + 256, (r, 32)).astype(
            np.uint8 if s == "u8" else np.int8
        )
        for s, r in zip(signs, (128, 16), strict=True)
    )
    near = rng.choice([2**31 - 1000, -(2**31) + 1000, 5], (1, 256, LANES))
    case = Product(
        kind="i8",
        a=a,
        b=b,
        types=(*signs, "s32"),
        old=near.astype(np.int32).view(np.uint32),
        enable=True,
        extra={"saturate": saturate},
    )
    got = case.result(clean(case.run())).view(np.int32)
    cta, column, lane = case.positions()
    total = a.astype(np.int64) @ b.astype(np.int64).T + near[cta, column, lane]
    wrapped = total.astype(np.int32)
    limited = np.clip(total, -(2**31), 2**31 - 1)
    assert (wrapped != limited).any()
    np.testing.assert_array_equal(got, limited if saturate else wrapped)


# Weight stationary: columns of B that count as zeros, and shifted ones.

MASKS = [
    # M, start counts, first spans, used, skipped, shift, the mask's lowest bits
    (128, (0,), (0,), 3, 2, 0, ["000011100001110000"]),
    (64, (0, 0), (1, 0), 3, 2, 0, ["1110000111", "0000111000"]),
    (
        32,
        (0, 1, 2, 1),
        (1, 1, 0, 0),
        3,
        2,
        0,
        ["1110000", "1100001", "00111", "000111"],
    ),
    (128, (5,), (1,), 0, 6, 0, ["110111111101"]),
]


@pytest.mark.parametrize(
    ("m", "starts", "firsts", "used", "skipped", "shift", "bits"), MASKS
)
def test_zero_columns(m, starts, firsts, used, skipped, shift, bits):
    n = 64
    parts = 128 // m
    zero = np.zeros(n, bool)
    for i in range(parts):
        run_of = "0" * (used + 1) + "1" * (skipped + 1)
        if firsts[i]:
            run_of = "1" * (skipped + 1) + "0" * (used + 1)
        text = (run_of * n)[starts[i] :]
        assert text.startswith(bits[i])
        zero[i * n // parts : (i + 1) * n // parts] = [
            c == "1" for c in text[: n // parts]
        ]
    value = sum(s << 8 * i for i, s in enumerate(starts))
    value |= sum(f << (32 + i) for i, f in enumerate(firsts))
    value |= 1 << 39 | skipped << 40 | used << 48 | shift << 56
    case = product(m=m, n=n, ws=True, tail=f", {value}")
    got = f32(case.result(clean(case.run())))
    a, b = case.terms()
    np.testing.assert_array_equal(got, a @ (b * ~zero[:, None]).T)


@pytest.mark.parametrize("mn", [False, True])
@pytest.mark.parametrize("shift", [1, 8, 13])
def test_column_shift(mn, shift):
    wide = product(m=64, n=128, ws=True, mn=(False, mn))
    case = replace(
        wide,
        b=wide.b[shift : shift + 64],
        stored=(None, wide.b),
        extra={"max_shift": 2},
        tail=f", {shift << 56}",
    )
    check_exact(case)


# What it may not be given.


def test_every_lane_that_executes_a_product_issues_one():
    old = np.zeros((1, COLUMNS, LANES), np.uint32)
    case = product(n=16, old=old, enable=True)
    at = "tcgen05.mma.cta_group::1"
    several = f".reg .pred %wz;\nsetp.eq.u32 %wz, %w, 0;\n@%wz {at}"
    end = commit(1)
    body = case.body().replace(at, several).replace(end, f"@%one {end}")
    smem, cells = case.images()
    ran = clean(run(body, smem=smem, cells=cells, everyone=True))
    m, n, k = case.shape
    assert ran.result.mma_flops == 32 * 2 * m * n * k
    np.testing.assert_array_equal(f32(case.result(ran)), 32 * case.exact())


# The order in which things land does not matter where it is fixed.


@pytest.mark.parametrize("group", [1, 2])
def test_results_do_not_depend_on_the_schedule(group):
    old = RNG(3).normal(size=(group, 256, LANES)).astype(np.float32).view(np.uint32)
    case = product(m=128 * group, n=32, group=group, old=old, enable=True)
    first = clean(case.run()).cells
    for seed in range(1, 6):
        np.testing.assert_array_equal(clean(case.run(Options(seed=seed))).cells, first)
