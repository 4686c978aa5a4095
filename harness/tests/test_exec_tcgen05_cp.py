"""tcgen05.cp and tcgen05.shift: which byte goes to which cell, and what is refused."""

import ml_dtypes
import numpy as np
import pytest
from tcgen05_case import AT, COLUMNS, LANES, SMEM, clean, commit, run
from tcgen05_layout import NONE, SW32, SW64, SW128, Place

from sidestream.harness.exec.machine import Options

RNG = np.random.default_rng
SHAPES = {"128x256b": (128, 32), "4x256b": (4, 32), "128x128b": (128, 16)}
SHAPES |= {"64x128b": (64, 16), "32x128b": (32, 16)}
CASTS = {
    "128x256b": ("",),
    "4x256b": ("",),
    "128x128b": ("",),
    "64x128b": (".warpx2::02_13", ".warpx2::01_23"),
    "32x128b": (".warpx4",),
}
FORMS = [(shape, cast) for shape, casts in CASTS.items() for cast in casts]
COLUMN = 40


def lanes_of(shape, cast, lane=0):
    """The row of the source that each lane gets; -1 for none."""
    row = np.full(LANES, -1)
    each = np.arange(LANES)
    if shape == "4x256b":
        row[lane::32] = range(4)
    elif shape.startswith("128"):
        row = each
    elif shape == "32x128b":
        row = each % 32
    else:
        warp = each // 32
        half = warp % 2 if cast.endswith("02_13") else warp // 2
        row = half * 32 + each % 32
    return row


def source(group, seed=1):
    return RNG(seed).integers(0, 256, (group, SMEM), dtype=np.uint8)


def issue(shape, cast, where, *, group=1, formats="", lane=0, column=COLUMN):
    return (
        f".reg .b64 %s; .reg .b32 %t;\nmov.b64 %s, {where.descriptor()};\n"
        f"mov.b32 %t, {lane << 16};\n"
        f"tcgen05.cp.cta_group::{group}.{shape}{cast}{formats} [%t+{column}], %s;\n"
        + commit(group)
    )


def rows(image, where, shape):
    """The source matrix, bytes `[row][...]`."""
    return image[where.addresses(*SHAPES[shape], 8) - AT]


def expected(before, parts, shape, cast, lane=0):
    """Tensor memory of one CTA afterwards."""
    cells = before.copy()
    row = lanes_of(shape, cast, lane)
    words = np.ascontiguousarray(parts).view(np.uint32)
    for k in range(words.shape[1]):
        cells[COLUMN + k, row >= 0] = words[row[row >= 0], k]
    return cells


def layout(mode):
    """One atom's rows densely, and a stride that is not."""
    if mode == NONE:
        return Place(start=AT + 48, sbo=272, lbo=128)
    return Place(start=AT, mode=mode, sbo=2048)


@pytest.mark.parametrize("mode", [NONE, SW32, SW64, SW128])
@pytest.mark.parametrize(("shape", "cast"), FORMS)
@pytest.mark.parametrize("group", [1, 2])
def test_every_shape_from_every_layout(shape, cast, mode, group):
    images, where = source(group), layout(mode)
    before = RNG(2).integers(0, 2**32, (group, COLUMNS, LANES), dtype=np.uint32)
    ran = run(
        issue(shape, cast, where, group=group), smem=images, cells=before, group=group
    )
    clean(ran)
    for g in range(group):
        part = rows(images[g], where, shape)
        np.testing.assert_array_equal(
            ran.cells[g], expected(before[g], part, shape, cast)
        )


@pytest.mark.parametrize("lane", [0, 5, 31])
def test_four_rows_go_to_one_lane_of_each_quarter(lane):
    images, where = source(1), layout(SW32)
    ran = clean(run(issue("4x256b", "", where, lane=lane), smem=images))
    part = rows(images[0], where, "4x256b")
    before = np.zeros((COLUMNS, LANES), np.uint32)
    np.testing.assert_array_equal(
        ran.cells[0], expected(before, part, "4x256b", "", lane)
    )


@pytest.mark.parametrize(("name", "width"), [("e2m1", 4), ("e2m3", 6), ("e3m2", 6)])
@pytest.mark.parametrize(("shape", "cast"), FORMS)
def test_decompression_gives_the_same_numbers_in_bytes(shape, cast, name, width):
    images, where = source(1, seed=3), layout(SW64)
    kind = {4: "b4x16_p64", 6: "b6x16_p32"}[width]
    ran = clean(run(issue(shape, cast, where, formats=f".b8x16.{kind}"), smem=images))
    chunks = rows(images[0], where, shape).reshape(-1, 16)
    codes = np.zeros((len(chunks), 16), np.uint8)
    for r, chunk in enumerate(chunks):
        whole = int.from_bytes(chunk.tobytes(), "little")
        codes[r] = [whole >> width * k & (2**width - 1) for k in range(16)]
    # A 4-bit number stands in the middle of its byte, one of 6 bits at the bottom.
    held = codes << 2 if width == 4 else codes
    rows_held = held.reshape(SHAPES[shape][0], -1)
    before = np.zeros((COLUMNS, LANES), np.uint32)
    np.testing.assert_array_equal(
        ran.cells[0], expected(before, rows_held, shape, cast)
    )
    dtype = {
        "e2m1": ml_dtypes.float4_e2m1fn,
        "e2m3": ml_dtypes.float6_e2m3fn,
        "e3m2": ml_dtypes.float6_e3m2fn,
    }[name]
    assert np.isfinite(codes.view(dtype).astype(np.float32)).all()


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("lane", [0, 32, 96])
def test_shift_moves_each_lane_to_the_one_before(group, lane):
    before = RNG(5).integers(0, 2**32, (group, COLUMNS, LANES), dtype=np.uint32)
    body = (
        f".reg .b32 %t;\nmov.b32 %t, {lane << 16};\n"
        f"tcgen05.shift.cta_group::{group}.down [%t+64];\n" + commit(group)
    )
    ran = clean(run(body, cells=before, group=group))
    after = before.copy()
    after[:, 64:72, lane : lane + 31] = before[:, 64:72, lane + 1 : lane + 32]
    np.testing.assert_array_equal(ran.cells, after)


# What is refused.

RANGE, UNALLOCATED, ALIGNMENT = 8, 9, 12
FIXED, SWIZZLE, BASE, ABSOLUTE = 15, 16, 17, 18


def faults(body, **how):
    result = run(body, **how).result
    assert result.status == "done"
    return {(f.kind, f.info) for f in result.faults}


@pytest.mark.parametrize("seed", [0, 2])
@pytest.mark.parametrize(
    ("shape", "cast", "lane", "column", "code"),
    [
        ("128x256b", "", 0, 505, RANGE),
        ("128x128b", "", 0, 509, RANGE),
        ("128x128b", "", 0, 1024, RANGE),
        ("128x128b", "", 128, 0, RANGE),
        ("128x128b", "", 32, 0, ALIGNMENT),
        ("64x128b", ".warpx2::02_13", 64, 0, ALIGNMENT),
        ("32x128b", ".warpx4", 16, 0, ALIGNMENT),
        ("4x256b", "", 32, 0, ALIGNMENT),
    ],
)
def test_places_in_tensor_memory(shape, cast, lane, column, code, seed):
    body = issue(shape, cast, layout(NONE), lane=lane, column=column)
    assert faults(body, options=Options(seed=seed)) == {("tmem", code)}


def test_columns_that_are_not_allocated():
    body = issue("128x256b", "", layout(NONE), column=60)
    assert faults(body, columns=64) == {("tmem", UNALLOCATED)}
    shift = ".reg .b32 %t;\nmov.b32 %t, 0;\n"
    shift += "tcgen05.shift.cta_group::1.down [%t+60];\n" + commit(1)
    assert faults(shift, columns=64) == {("tmem", UNALLOCATED)}


def test_what_was_copied_counts_as_written():
    twice = issue("128x256b", "", layout(NONE), column=32)
    line = next(x for x in twice.split("\n") if x.startswith("tcgen05.cp"))
    both = twice.replace(line, line + "\n" + line.replace("+32]", "+40]"))
    checked = Options(tensor_memory_check=True)
    few = {"filled": 32, "dumped": 48, "options": checked}
    assert faults(both, **few) == set()
    assert {k for k, _ in faults(twice, **few)} == {"tmem-uninit"}


@pytest.mark.parametrize(
    ("flip", "code"),
    [
        (1 << 14, FIXED),
        (1 << 31, FIXED),
        (1 << 46, FIXED),
        (1 << 48, FIXED),
        (1 << 55, FIXED),
        (3 << 61, SWIZZLE),
        (1 << 61, SWIZZLE),
        (5 << 61, SWIZZLE),
        (7 << 61, SWIZZLE),
        (1 << 49, BASE),
        (1 << 52, ABSOLUTE),
    ],
)
def test_descriptors(flip, code):
    body = issue("128x128b", "", layout(NONE)).replace(
        "mov.b32 %t", f"xor.b64 %s, %s, {flip};\nmov.b32 %t"
    )
    assert faults(body) == {("tcgen05", code)}


def test_sources_outside_shared_memory():
    low = Place(start=0, sbo=0)
    high = Place(start=AT + SMEM - 2048, sbo=256)
    assert {k for k, _ in faults(issue("128x128b", "", low))} == {"smem-oob"}
    assert {k for k, _ in faults(issue("128x128b", "", high))} == {"smem-oob"}
    fits = Place(start=AT + SMEM - 2048, sbo=128)
    assert not faults(issue("128x128b", "", fits))


def test_shift_needs_a_whole_quarter():
    body = ".reg .b32 %t;\nmov.b32 %t, 1048576;\n"
    body += "tcgen05.shift.cta_group::1.down [%t];\n" + commit(1)
    assert faults(body) == {("tmem", ALIGNMENT)}
    assert faults(body.replace("1048576", "506")) == {("tmem", RANGE)}
