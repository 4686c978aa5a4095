"""Tensor maps of the replacement runtime against recorded driver output."""

import ctypes
import json
from pathlib import Path

import pytest

from sidestream.harness.dsl.build import build_runtime
from sidestream.harness.dsl.chip import chip

RECORDED = json.loads(
    (Path(__file__).parent / "data" / "tensor_maps_h200.json").read_text()
)
ROWS = RECORDED["rows"]


@pytest.fixture(scope="module")
def runtime():
    return ctypes.CDLL(str(build_runtime()))


def describe(runtime, arch):
    for attribute, value in chip(arch).attributes().items():
        assert runtime.sidestream_attribute(attribute, value) == 0


def encode(runtime, row):
    """Return (status, 128 bytes, note) of `_cuTensorMapEncodeTiled`."""
    rank = len(row["dims"])
    raw = ctypes.create_string_buffer(256)
    base = (ctypes.addressof(raw) + 127) & ~127
    ctypes.memset(base, 0xEE, 128)
    status = runtime._cuTensorMapEncodeTiled(
        ctypes.c_void_p(base),
        row["dtype"],
        rank,
        ctypes.c_void_p(row["address"]),
        (ctypes.c_uint64 * rank)(*row["dims"]),
        (ctypes.c_uint64 * max(rank - 1, 1))(*row["strides"]),
        (ctypes.c_uint32 * rank)(*row["box"]),
        (ctypes.c_uint32 * rank)(*row["element_strides"]),
        row["interleave"],
        row["swizzle"],
        row["l2"],
        row["oob"],
    )
    note = ctypes.create_string_buffer(512)
    runtime.sidestream_take_note(note, 512)
    return status, ctypes.string_at(base, 128), note.value.decode()


def test_maps_equal_those_of_the_driver_bit_for_bit(runtime):
    describe(runtime, "sm_90a")
    compared = 0
    for row in ROWS:
        if row["status"] or row["interleave"]:
            continue
        status, made, note = encode(runtime, row)
        assert status == 0, (row, note)
        assert made.hex() == row["map"].ljust(256, "0"), row
        compared += 1
    assert compared >= 100


def test_what_the_driver_refuses_is_refused_with_a_reason(runtime):
    describe(runtime, "sm_90a")
    refused = [row for row in ROWS if row["status"]]
    assert len(refused) > 25
    for row in refused:
        status, made, note = encode(runtime, row)
        assert status != 0, row
        assert note.startswith("tensor map: "), row
        assert made == b"\xee" * 128, "a refused map is left alone"


def test_interleaved_layouts_are_refused_by_name(runtime):
    describe(runtime, "sm_90a")
    row = next(r for r in ROWS if r["interleave"] and not r["status"])
    status, _, note = encode(runtime, row)
    assert status == 801
    assert "interleave" in note


def test_blackwell_maps_carry_the_version_and_the_large_tensor_flag(runtime):
    describe(runtime, "sm_120a")
    small = next(r for r in ROWS if r["dtype"] == 9 and r["dims"] == [64, 1023])
    large = next(r for r in ROWS if r["dtype"] == 9 and r["dims"] == [64, 1024])
    for row, flag in ((small, 0), (large, 1)):
        _, made, _ = encode(runtime, row)
        hopper = int.from_bytes(bytes.fromhex(row["map"])[8:12], "little")
        word = int.from_bytes(made[8:12], "little")
        assert word == hopper | 2 | flag << 21


def test_the_chip_of_sm_90a_answers_as_the_card_does():
    card = {int(k): v for k, v in RECORDED["device_attributes"].items()}
    for attribute, value in chip("sm_90a").attributes().items():
        assert card[attribute] == value, attribute
