"""Tensor stores and reductions: what of the destination changes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_boxes import boxes
from tensor_case import Tensor, plane, store_box

from sidestream.harness.exec.machine import Options


def expected_store(tensor, coords, source, target, *, at=0, combine=None):
    """The destination afterwards: the last 16-byte chunk inside is written whole."""
    want = target.copy()
    ends = {}
    for (row, _), where in tensor.elements(coords):
        if where is not None:
            ends[row] = where[0] * tensor.size + tensor.size
    for (row, x), where in tensor.elements(coords):
        if row not in ends:
            continue
        byte = (coords[0] + x) * tensor.size
        if where is None and not 0 <= byte < -(-ends[row] // 16) * 16:
            continue
        outer = next(
            w for (r, _), w in tensor.elements(coords) if r == row and w is not None
        )
        to = tensor.place((coords[0] + x, *outer[1:]))
        here = tensor.chunk(at, row, x)
        new = source[here : here + tensor.size]
        old = want[to : to + tensor.size]
        want[to : to + tensor.size] = combine(old, new) if combine else new
    return want


@pytest.mark.parametrize("swizzle", range(4))
@pytest.mark.parametrize("dtype", ["u8", "f16", "f32", "f64"])
@pytest.mark.parametrize("where", [(0, 3), (192, 30), (256, 2), (0, 90)])
def test_stores_cover_the_box(swizzle, dtype, where):
    tensor = plane(dtype, 16 << swizzle if swizzle else 48, swizzle)
    coords = (where[0] // tensor.size, where[1])
    source, target, ran = store_box(tensor, coords, at=256)
    assert ran.result.status == "done"
    assert not ran.result.faults
    want = expected_store(tensor, coords, source, target, at=256)
    assert (ran.buffers[1] == want).all()


@settings(max_examples=60, deadline=None)
@given(boxes(), st.integers(0, 3))
def test_any_box_stores_what_it_covers(case, seed):
    tensor, coords, at = case
    coords = tuple(abs(c) for c in coords)
    strides = (48 * 16, 5 * 48 * 16, 25 * 48 * 16, 50 * 48 * 16)
    tensor = Tensor(
        **{
            **{f: getattr(tensor, f) for f in tensor.__dataclass_fields__},
            "strides": strides[: len(tensor.dims) - 1],
            "dims": (tensor.dims[0], *(min(d, 4) for d in tensor.dims[1:])),
        }
    )
    options = Options(seed=seed)
    source, target, ran = store_box(
        tensor, coords, at=at, options=options, size=1 << 20
    )
    assert ran.result.status == "done"
    assert not ran.result.faults
    want = expected_store(tensor, coords, source, target, at=at)
    assert (ran.buffers[1] == want).all()


def _wrap(kind, function):
    def combine(old, new):
        a, b = old.view(kind), new.view(kind)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(function(a, b)).astype(kind).view(np.uint8)

    return combine


_REDUCTIONS = [
    *(("add", t, k, np.add) for t, k in (("u32", "u4"), ("s32", "i4"), ("u64", "u8"))),
    *(("min", t, k, np.minimum) for t, k in (("s32", "i4"), ("s64", "i8"))),
    *(("max", t, k, np.maximum) for t, k in (("u32", "u4"), ("u64", "u8"))),
    *(("and", t, k, np.bitwise_and) for t, k in (("u32", "u4"), ("u64", "u8"))),
    *(("or", t, k, np.bitwise_or) for t, k in (("s32", "u4"), ("s64", "u8"))),
    ("xor", "u32", "u4", np.bitwise_xor),
    ("inc", "u32", "u4", lambda a, b: np.where(a >= b, 0, a + 1)),
    ("dec", "u32", "u4", lambda a, b: np.where((a == 0) | (a > b), b, a - 1)),
]


@pytest.mark.parametrize(
    ("red", "dtype", "kind", "function"), _REDUCTIONS, ids=lambda v: str(v)[:12]
)
@pytest.mark.parametrize("mask", [0xFF, 0x01], ids=["any", "small"])
def test_reductions_of_integers(red, dtype, kind, function, mask):
    tensor = plane(dtype, 64, 2)
    source, target, ran = store_box(tensor, (16 // tensor.size, 30), red=red, mask=mask)
    assert not ran.result.faults
    want = expected_store(
        tensor, (16 // tensor.size, 30), source, target, combine=_wrap(kind, function)
    )
    assert (ran.buffers[1] == want).all()


def test_reductions_add_once_for_every_lane():
    tensor = plane("u32", 32, 0)
    source, target, ran = store_box(tensor, (4, 2), red="add", lanes=32)

    def combine(old, new):
        total = old.view("u4") + np.uint32(32) * new.view("u4")
        return total.view(np.uint8)

    want = expected_store(tensor, (4, 2), source, target, combine=combine)
    assert (ran.buffers[1] == want).all()
    assert ran.result.tma_bytes == 32 * tensor.box_bytes()


def test_stores_of_all_lanes_are_onestore_box():
    tensor = plane("f16", 32, 1)
    source, target, ran = store_box(tensor, (8, 2), lanes=32)
    assert (ran.buffers[1] == expected_store(tensor, (8, 2), source, target)).all()
    assert ran.result.tma_bytes == tensor.box_bytes()


@pytest.mark.parametrize(
    ("red", "dtype"),
    [("add", "u16"), ("min", "f32"), ("and", "f32"), ("inc", "s32"), ("add", "s64")],
)
def test_reductions_that_do_not_exist(red, dtype):
    _, target, ran = store_box(plane(dtype, 32, 0), (0, 0), red=red)
    assert [(f.kind, f.info) for f in ran.result.faults] == [("tensormap", 4)]
    assert (ran.buffers[1] == target).all()
