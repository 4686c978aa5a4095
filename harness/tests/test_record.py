"""Recorded launches: what is written is read; what is malformed is told."""

import json
import random
import shutil
import zipfile

import numpy as np
import pytest

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.dsl.record import read_launch, write_launch
from sidestream.harness.errors import UsageError
from sidestream.harness.launch import Launch

LAUNCH = Launch(
    kernel="k",
    ptx=".version 8.8\n.target sm_120a\n.visible .entry k() { ret; }\n",
    grid=(7, 2, 1),
    block=(128, 1, 1),
    cluster=(1, 2, 1),
    dynamic_smem=1024,
    stream=2**63 + 5,
    params=(b"\x01\x02\x03\x04", b"", bytes(128)),
    pdl=True,
)


@pytest.fixture
def table():
    table = AllocationTable()
    a = table.allocate(1000, "q")
    a.data[:] = np.arange(1000) % 251
    table.allocate(0, "empty")
    table.allocate(64, "scratch", track_init=True, fill=b"\xff").init[3:9] = 1
    table.free(table.allocate(10, "gone"))
    table.map(va=2**62, data=b"read only", name="lens", id=900, writable=False)
    return table


@pytest.fixture
def folder(tmp_path, table):
    return write_launch(tmp_path / "sub" / "launch0", LAUNCH, table, "sm_120a")


def test_what_is_written_is_read_back(folder, table):
    back = read_launch(folder)
    assert list(folder.parent.iterdir()) == [folder], "nothing else is left"
    assert back.launch == LAUNCH
    assert back.arch == "sm_120a"
    live = {a.id: a for a in table if not a.freed}
    assert {a.id for a in back.memory} == set(live)
    for a in back.memory:
        was = live[a.id]
        assert (a.name, a.va, a.size, a.writable) == (
            was.name,
            was.va,
            was.size,
            was.writable,
        )
        assert (a.data == was.data).all()
        assert not a.size or a.host != was.host
        assert (a.init is None) == (was.init is None)
        assert a.init is None or (a.init == was.init).all()


def test_the_ptx_can_be_replaced(folder, tmp_path):
    other = tmp_path / "other.ptx"
    other.write_text("// edited\n")
    assert read_launch(folder, other).launch.ptx == "// edited\n"
    with pytest.raises(UsageError, match=r"missing\.ptx: there is no such file"):
        read_launch(folder, tmp_path / "missing.ptx")


def test_a_recording_is_whole_or_absent(tmp_path, table, monkeypatch):
    with pytest.raises(UsageError, match="never overwrites"):
        write_launch(tmp_path, LAUNCH, table, "sm_120a")

    def full_disk(*args, **arrays):
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez_compressed", full_disk)
    with pytest.raises(UsageError, match="no space left"):
        write_launch(tmp_path / "new", LAUNCH, table, "sm_120a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["kernel.ptx", "launch.json", "memory.npz"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(UsageError, match=f"{name}: there is no such file"):
        read_launch(folder)


@pytest.mark.parametrize("above", [0, 1, 2])
def test_a_folder_of_launches_names_one(tmp_path, table, above):
    place = tmp_path / "out" / "launches" / "case" / "00-kernel"
    written = write_launch(place, LAUNCH, table, "sm_120a")
    with pytest.raises(UsageError, match=f"name one, such as {written}"):
        read_launch(written.parents[above])


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(UsageError, match="is not a folder"):
        read_launch(tmp_path / "nothing")


EDITS = {
    "schema": ("sidestream.launch/2", 7),
    "arch": ("volta", None),
    "kernel": (5,),
    "grid": (
        [1, 1, float("nan")],
        [1, 1],
        [0, 1, 1],
        [1, 1, 2**31],
        [1, 1, "1"],
        [1.0, 1, 1],
        "x",
    ),
    "block": ([1025, 1, 1], [True, 1, 1]),
    "cluster": ([65, 1, 1],),
    "dynamic_smem": (-1, 2**40, "0", 1.5),
    "stream": (-1, 2**65),
    "pdl": (1, "yes"),
    "params": (["0g"], [5], ["012"], {}),
    "allocations": ({}, [5], [[]]),
}


@pytest.mark.parametrize(
    ("field", "value"), [(f, v) for f, values in EDITS.items() for v in values]
)
def test_a_malformed_field_is_named(folder, field, value):
    path = folder / "launch.json"
    document = json.loads(path.read_text())
    document[field] = value
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match=r"launch\.json"):
        read_launch(folder)
    del document[field]
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match=f"field '{field}' is missing"):
        read_launch(folder)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"size": 999}, "1000 bytes, not 999"),
        ({"size": 2**40}, "size must be an integer"),
        ({"va": 2**63}, "va must be an integer"),
        ({"id": 901}, "allocation 901 are missing"),
        ({"va": 2**62}, "overlaps"),
        ({"writable": None}, "writable must be"),
        ({"init": True}, "are missing"),
    ],
)
def test_a_malformed_allocation_is_told(folder, edit, message):
    path = folder / "launch.json"
    document = json.loads(path.read_text())
    row = next(a for a in document["allocations"] if a["name"] == "q")
    row |= edit
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match=message):
        read_launch(folder)


def test_an_allocation_listed_twice_is_told(folder):
    path = folder / "launch.json"
    document = json.loads(path.read_text())
    document["allocations"].append(document["allocations"][0])
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match="listed twice"):
        read_launch(folder)


def test_memory_never_runs_code_nor_inflates(folder):
    keys = np.load(folder / "memory.npz").files
    evil = {k: np.zeros(10**8, np.uint8) if k == keys[0] else [] for k in keys}
    np.savez_compressed(folder / "memory.npz", **evil)
    with pytest.raises(UsageError, match="holds more than its"):
        read_launch(folder)
    evil[keys[0]] = np.array([print], dtype=object)
    np.savez(folder / "memory.npz", **evil)
    with pytest.raises(UsageError, match=r"memory\.npz"):
        read_launch(folder)
    np.savez(folder / "memory.npz", **{keys[0]: np.zeros((10, 100), np.uint8)})
    with pytest.raises(UsageError, match="is not an array of bytes"):
        read_launch(folder)
    with zipfile.ZipFile(folder / "memory.npz", "w") as archive:
        archive.writestr(f"{keys[0]}.npy", b"not an array")
    with pytest.raises(UsageError, match=r"memory\.npz"):
        read_launch(folder)


def test_damaged_files_never_escape_as_other_errors(folder, tmp_path):
    rng = random.Random(20)
    outcomes = {"read": 0, "refused": 0}
    told = []
    for _ in range(600):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        path = copy / rng.choice(("launch.json", "launch.json", "memory.npz"))
        data = bytearray(path.read_bytes())
        for _ in range(rng.choice((1, 1, 2, 8))):
            at = rng.randrange(len(data))
            kind = rng.randrange(4)
            if kind == 0:
                data[at] = rng.randrange(256)
            elif kind == 1:
                del data[at : at + rng.randrange(1, 40)]
            elif kind == 2:
                data[at:at] = bytes(rng.choices(b'{}[],:"0123456789etruls-.', k=3))
            else:
                data[at] ^= 1 << rng.randrange(8)
            if not data:
                break
        path.write_bytes(bytes(data))
        try:
            read_launch(copy)
            outcomes["read"] += 1
        except UsageError as error:
            outcomes["refused"] += 1
            told.append(str(error))
    assert outcomes["refused"] > 300, outcomes
    # Damage to one file may only show as a contradiction found in the other.
    named = ("launch.json", "memory.npz")
    assert [text for text in told if not any(name in text for name in named)] == []
