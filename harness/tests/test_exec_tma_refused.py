"""Maps, coordinates and addresses that a tensor copy refuses, and how."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_case import (
    GLOBAL,
    SMEM,
    Kernel,
    Tensor,
    braces,
    load_box,
    plane,
    random_bytes,
    store_box,
)

from sidestream.harness.exec.machine import Options

TMAP_ERRORS = {
    "version": 2,
    "rank": 3,
    "type": 4,
    "fill": 5,
    "address": 6,
    "box": 7,
    "bits": 8,
    "dimension": 9,
    "start": 10,
    "negative": 11,
}


GOOD = plane("f16", 64, 2)


def _words(**changes):
    """The map of GOOD with fields of its words replaced: word=(at, bits, value)."""
    words = np.frombuffer(GOOD.map(GLOBAL), np.uint32).copy()
    for word, (at, bits, value) in changes.items():
        mask = np.uint32(((1 << bits) - 1) << at)
        k = int(word[1:])
        words[k] = (words[k] & ~mask) | np.uint32(value << at)
    return words.tobytes()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (_words(w2=(0, 4, 5)), "version"),
        (_words(w2=(4, 3, 6)), "rank"),
        (_words(w2=(4, 3, 2)), "dimension"),
        (_words(w2=(7, 10, 0x200)), "type"),  # TF32 rounding of u8
        (_words(w2=(7, 9, 0x101)), "fill"),  # NaN in u16
        (_words(w0=(0, 4, 8)), "address"),
        (_words(w13=(24, 8, 4)), "box"),
        (_words(w2=(13, 2, 1)), "box"),
        (_words(w2=(23, 1, 1)), "bits"),
        (_words(w13=(16, 1, 1)), "bits"),
        (b"\xff" * 128, "version"),
    ],
)
def test_a_malformed_map_is_a_fault(words, error):
    ran = Kernel(
        body="setp.ne.u32 %p1, %t, 0;\n@%p1 bra OUT;\n"
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
        "[%m0, {0, 0}], [%s];\nOUT:",
        buffers=[random_bytes(1 << 16)],
        maps=[(words, 0)],
    ).run()
    assert ran.result.status == "done"
    assert [(f.kind, f.info) for f in ran.result.faults] == [
        ("tensormap", TMAP_ERRORS[error])
    ]
    assert (ran.buffers[0] == random_bytes(1 << 16)).all()


@pytest.mark.parametrize(
    "words", [_words(w2=(11, 2, 1)), _words(w2=(7, 4, 13)), _words(w2=(22, 1, 1))]
)
def test_a_map_without_a_model_stops_the_launch(words):
    ran = Kernel(
        body="cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
        "[%m0, {0, 0}], [%s];",
        buffers=[random_bytes(1 << 16)],
        maps=[(words, 0)],
        threads=1,
    ).run()
    assert ran.result.status == "unsupported"


@settings(max_examples=150, deadline=None)
@given(
    st.binary(min_size=64, max_size=64),
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=5),
    st.sampled_from(["load", "store", "add"]),
    st.booleans(),
)
def test_no_map_and_no_coordinates_can_do_harm(noise, coords, what, plausible):
    raw = bytearray(GOOD.map(GLOBAL) if plausible else bytes(128))
    for k, byte in enumerate(noise):
        raw[k] ^= byte if not plausible or byte % 7 == 0 else 0
    target = braces(coords)
    dim = len(coords)
    op = {
        "load": f"cp.async.bulk.tensor.{dim}d.shared::cta.global.tile"
        f".mbarrier::complete_tx::bytes [%s], [%m0, {target}], [%bar];",
        "store": f"cp.async.bulk.tensor.{dim}d.global.shared::cta.tile.bulk_group "
        f"[%m0, {target}], [%s];",
        "add": f"cp.reduce.async.bulk.tensor.{dim}d.global.shared::cta.add.tile"
        f".bulk_group [%m0, {target}], [%s];",
    }[what]
    ran = Kernel(
        body=f"mbarrier.init.shared.b64 [%bar], 1;\n{op}",
        buffers=[random_bytes(1 << 16), random_bytes(64, 2)],
        maps=[(bytes(raw), 0)],
        threads=1,
        options=Options(budget=10000),
    ).run()
    assert ran.result.status in ("done", "unsupported")
    assert (ran.buffers[1] == random_bytes(64, 2)).all()


@pytest.mark.parametrize(
    ("coords", "error"), [((1, 0), "start"), ((-4, 0), "start"), ((12, 5), "start")]
)
def test_a_box_that_starts_off_16_bytes(coords, error):
    _, target, ran = store_box(GOOD, coords)
    assert {(f.kind, f.info) for f in ran.result.faults} == {
        ("tensormap", TMAP_ERRORS[error])
    }
    assert (ran.buffers[1] == target).all()


@pytest.mark.parametrize("coords", [(-8, 0), (0, -1)])
def test_a_store_at_negative_coordinates(coords):
    _, target, ran = store_box(GOOD, coords)
    assert [f.info for f in ran.result.faults] == [TMAP_ERRORS["negative"]]
    assert (ran.buffers[1] == target).all()


@pytest.mark.parametrize("at", [16, 64, 8])
def test_a_tile_off_128_bytes(at):
    _, _, ran = store_box(GOOD, (0, 0), at=at)
    assert [f.kind for f in ran.result.faults] == ["smem-misaligned"]


def test_a_tile_past_the_end_of_shared_memory():
    _, _, ran = store_box(GOOD, (0, 0), at=SMEM - 128)
    assert [f.kind for f in ran.result.faults] == ["smem-oob"]


def test_a_tensor_larger_than_itsrandom_bytes():
    tensor = plane("f16", 64, 2)
    _, _, ran = store_box(tensor, (0, 20), size=4096 + 224 * 22)
    (fault,) = ran.result.faults
    assert fault.kind == "oob-write"
    assert fault.allocation == 1
    _, ran = load_box(tensor, (0, 20), size=4096 + 224 * 22)
    assert ran.result.faults[0].kind == "oob-read"
    assert ran.result.faults[0].count == 9


@pytest.mark.parametrize(
    ("stride", "row"),
    [
        (2**39, 2**25),  # 2^64 bytes on: the first row again, if it wrapped around
        (2**36 + 256, 1),  # beyond the 32 low bits of a stride
        (2**40 - 16, 2**31 - 1),
    ],
)
def test_addresses_far_beyond_memory(stride, row):
    huge = Tensor(dtype="f16", dims=(64, 2**32), strides=(stride,), box=(32, 1))
    _, ran = load_box(huge, (0, row))
    assert [f.kind for f in ran.result.faults] == ["oob-read"]
    _, target, ran = store_box(huge, (0, row))
    assert [f.kind for f in ran.result.faults] == ["oob-write"]
    assert (ran.buffers[1] == target).all()


def test_a_map_outside_memory_or_off_64_bytes():
    body = (
        "add.u64 %m0, %g0, {offset};\n"
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
        "[%m0, {{0, 0}}], [%s];"
    )
    for offset, kind in ((32, "misaligned"), (1 << 16, "oob-read")):
        ran = Kernel(
            body=body.format(offset=offset),
            buffers=[np.zeros(1 << 16, np.uint8)],
            maps=[(GOOD, 0)],
            threads=1,
        ).run()
        assert [f.kind for f in ran.result.faults] == [kind]


def test_a_map_in_global_memory():
    tensor = plane("f16", 32, 1)
    maps = np.zeros(256, np.uint8)
    maps[128:] = np.frombuffer(tensor.map(GLOBAL), np.uint8)
    body = (
        "st.shared.b32 [%s], 0x11223344;\nfence.proxy.async.shared::cta;\n"
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
        "[%g1+128, {0, 0}], [%s];"
    )
    target = np.zeros(1 << 14, np.uint8)
    ran = Kernel(body=body, buffers=[target, maps], threads=1).run()
    assert not ran.result.faults
    assert ran.buffers[0][4096:4100].tobytes() == bytes.fromhex("44332211")


def test_modes_without_a_model_are_named():
    ran = Kernel(
        body=".reg .b16 %h;\ncp.async.bulk.tensor.3d.shared::cta.global.im2col"
        ".mbarrier::complete_tx::bytes [%s], [%m0, {0, 0, 0}], [%bar], {%h};",
        buffers=[random_bytes(1 << 16)],
        maps=[(GOOD, 0)],
        threads=1,
    ).run()
    assert ran.result.status == "unsupported"
    assert "im2col" in ran.program.unsupported[0][1]


def test_prefetches_read_the_map_alone():
    body = "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%m0, {0, 0}];"
    for raw, kinds in ((GOOD.map(GLOBAL), []), (b"\xff" * 128, ["tensormap"])):
        ran = Kernel(
            body=body, buffers=[random_bytes(64)], maps=[(raw, 0)], threads=1
        ).run()
        assert [f.kind for f in ran.result.faults] == kinds
