"""The virtual GPU against an H200: recorded everywhere, live where there is a card.

`hw_record.py` wrote the record. Every case agrees bit for bit, but for the
approximations, whose distance `Case.ulp` bounds. A case that the card refused, such as
a tensor box that starts off 16 bytes, must end in a fault here.
"""

import json
from pathlib import Path

import hw_emulator
import numpy as np
import pytest
from hw_all import all_cases
from hw_card import Card, CardError
from hw_compare import difference
from hw_record import digest

from sidestream.harness.exec import abi

HERE = Path(__file__).parent
ABOUT = json.loads((HERE / "record.json").read_text())
CASES = all_cases()
ROWS = {row["name"]: row for row in ABOUT["cases"]}
FAULTS = {
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": {"tensormap"},
    "CUDA_ERROR_MISALIGNED_ADDRESS": {"smem-misaligned"},
}


@pytest.fixture(scope="module")
def recorded():
    with np.load(HERE / "record.npz") as file:
        return dict(file)


def test_the_record_says_where_it_comes_from():
    assert ABOUT["card"] == "NVIDIA H200"
    assert ABOUT["capability"] == [9, 0]
    assert ABOUT["driver"]
    assert ABOUT["cuda"] >= 13000
    assert len(ABOUT["recorded"]) == 10


def test_the_record_is_of_these_cases(recorded):
    assert [row["name"] for row in ABOUT["cases"]] == [c.name for c in CASES]
    stale = [c.name for c in CASES if ROWS[c.name]["digest"] != digest(c)]
    assert not stale, "these cases changed: record them again with hw_record.py"
    answered = sum(f"c{k}" in recorded for k in range(len(CASES)))
    assert answered >= len(CASES) - 15
    families = {c.name.split()[0] for c in CASES}
    assert {"mma", "ldmatrix", "stmatrix", "cvt", "shfl", "redux", "tma"} <= families


@pytest.mark.parametrize("number", range(len(CASES)), ids=[c.name for c in CASES])
def test_emulator_agrees_with_the_recorded_card(recorded, number):
    case = CASES[number]
    error = ROWS[case.name]["error"]
    if error:
        ran = hw_emulator.execute_case(case)
        expected = FAULTS[error.split()[-1]]
        assert {f.kind for f in ran.result.faults} == expected
        return
    got = np.concatenate(hw_emulator.run(case))
    assert difference(case, got, recorded[f"c{number}"]) is None


@pytest.mark.parametrize("seed", [1, 77])
def test_results_do_not_depend_on_the_schedule(recorded, seed):
    names = (
        "mma m16n8k16.f32.f16.f16",
        "tma load 4d",
        "tma reduce add f16",
        "cp.async",
    )
    for number, case in enumerate(CASES):
        if case.name in names or case.name.startswith("bulk load"):
            got = np.concatenate(hw_emulator.run(case, seed=seed))
            assert difference(case, got, recorded[f"c{number}"]) is None


def test_a_flipped_bit_is_seen(recorded):
    """The comparison itself can fail, for exact and for approximate cases."""
    for name, bit in (("lop3", 0), ("ex2.approx.f32", 6), ("sin.approx.f32", 20)):
        number = next(k for k, c in enumerate(CASES) if c.name == name)
        wrong = recorded[f"c{number}"].copy()
        word = wrong.view(np.uint32)
        word[len(word) // 2] ^= np.uint32(1 << bit)
        assert difference(CASES[number], wrong, recorded[f"c{number}"])


def test_recorded_maps_decode_as_written():
    """The record's maps name every swizzle, several types and all dimensions."""
    maps = [m for c in CASES for m in c.maps]
    assert {m.swizzle for m in maps} == {0, 1, 2, 3}
    assert {len(m.dims) for m in maps} == {1, 2, 3, 4, 5}
    assert len({m.dtype for m in maps}) == 13
    assert abi.FAULT_KINDS.index("tensormap")


@pytest.fixture(scope="module")
def card():
    try:
        found = Card()
    except CardError as error:
        pytest.skip(f"needs an NVIDIA card: {error}")
    if found.capability != (9, 0):
        pytest.skip(f"the cases are for capability 9.0, {found.name} is another")
    return found


@pytest.mark.hardware
def test_emulator_agrees_with_the_card_present(card):
    """All cases that a card answers, live: one test, so that one skip tells of it."""
    apart = {}
    for case in CASES:
        if ROWS[case.name]["error"]:
            continue  # it would take the card's context along
        want = np.concatenate(card.run(case))
        got = np.concatenate(hw_emulator.run(case))
        if found := difference(case, got, want):
            apart[case.name] = found
    assert not apart
