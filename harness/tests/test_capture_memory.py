"""Allocations of the virtual device."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sidestream.harness.cuda.memory import REDZONE, AllocationTable
from sidestream.harness.errors import ContractError, UsageError
from sidestream.harness.exec import abi


def test_allocations_are_aligned_filled_and_far_apart():
    table = AllocationTable()
    made = [table.allocate(n, f"a{n}", fill=b"\x01\x02\x03") for n in (1, 256, 5000, 7)]
    ordered = sorted(made, key=lambda a: a.va)
    for left, right in itertools.pairwise(ordered):
        assert right.va - left.end >= REDZONE
    for a in made:
        slab = a._slab.ctypes.data
        assert a.va - slab >= REDZONE
        assert slab + len(a._slab) - a.end >= REDZONE
        assert a.va % 256 == 0
        assert bytes(a.data[:4]) == b"\x01\x02\x03\x01"[: a.size]


def test_entries_are_sorted_and_carry_the_flags():
    table = AllocationTable()
    a = table.allocate(64, "a", track_init=True)
    b = table.allocate(32, "b", writable=False)
    c = table.allocate(16, "c")
    table.allocate(0, "nothing")
    table.free(c)
    rows = table.entries()
    assert rows.dtype == abi.ALLOC_DTYPE
    assert list(rows["va"]) == sorted(x.va for x in (a, b, c))
    row = {int(r["id"]): r for r in rows}
    assert row[a.id]["flags"] == abi.ALLOC_READ | abi.ALLOC_WRITE
    assert row[a.id]["init"] == a.init.ctypes.data
    assert row[a.id]["host"] == a.host
    assert row[b.id]["flags"] == abi.ALLOC_READ
    assert row[b.id]["init"] == 0
    assert row[c.id]["flags"] & abi.ALLOC_FREED
    assert row[c.id]["host"] == 0


def test_tensors_share_the_bytes_and_must_fit():
    table = AllocationTable()
    a = table.allocate(4 * 6 + 8, "a", fill=b"\0")
    t = a.tensor(torch.float32, (2, 3), byte_offset=8)
    t.fill_(1.5)
    assert (a.data[8:].view(np.float32) == 1.5).all()
    assert not a.data[:8].any()
    assert t.data_ptr() == a.va + 8
    wide = a.tensor(torch.int16, (3, 2), (5, 1))
    assert wide.stride() == (5, 1)
    with pytest.raises(ContractError, match="does not fit the 32 bytes of a"):
        a.tensor(torch.float32, (3, 3))
    with pytest.raises(ContractError):
        a.tensor(torch.float32, (1,), byte_offset=2)
    assert a.tensor(torch.float64, (0, 4)).numel() == 0
    none = table.allocate(0, "none").tensor(torch.int16, (0, 4), byte_offset=128)
    assert table.at(none.untyped_storage().data_ptr()).name == "none"


def test_a_foreign_storage_is_adopted_once():
    table = AllocationTable()
    t = torch.arange(100, dtype=torch.int32)
    a = table.adopt(t[10:20], "t")
    assert (a.va, a.size) == (t.data_ptr(), 400)
    assert table.adopt(t, "again") is a
    a.data[:4] = [9, 0, 0, 0]
    assert t[0] == 9
    with pytest.raises(UsageError, match="not in host memory"):
        table.adopt(torch.empty(1, device="meta"), "m")


def test_freed_addresses_stay_known_and_are_not_reused():
    table = AllocationTable()
    a = table.allocate(4096, "a")
    table.free(a)
    assert table.at(a.va + 5) is a
    assert table.describe(a.va + 5) == "byte 5 of a (freed)"
    with pytest.raises(ContractError, match="second time"):
        table.free(a)
    for k in range(50):
        b = table.allocate(4096, f"b{k}")
        assert b.end <= a.va or a.end <= b.va


def test_adopted_memory_may_come_back_after_its_free():
    table = AllocationTable()
    t = torch.zeros(64, dtype=torch.uint8)
    old = table.adopt(t, "old")
    table.free(old)
    new = table.adopt(t, "new")
    assert table.at(t.data_ptr()) is new
    assert not new.freed


def test_overlap_is_refused():
    table = AllocationTable()
    table.map(va=0x1000, data=b"x" * 256, name="a", id=1, writable=True)
    with pytest.raises(UsageError, match="b at 0x10ff overlaps a at 0x1000"):
        table.map(va=0x10FF, data=b"y", name="b", id=2, writable=True)
    table.map(va=0x1100, data=b"y", name="b", id=2, writable=True)


def test_addresses_are_told_by_the_nearest_allocation():
    table = AllocationTable()
    assert "nothing is allocated" in table.describe(5)
    table.map(va=0x1000, data=b"x" * 256, name="a", id=1, writable=True)
    table.map(va=0x2000, data=b"x" * 256, name="b", id=2, writable=True)
    assert table.describe(0x10FF) == "byte 255 of a"
    assert table.describe(0x1100) == "0 bytes past the end of a"
    assert table.describe(0x1FF0) == "16 bytes before b"
    assert table.describe(0xFF0) == "16 bytes before a"
    assert table.describe(0x3000) == "3840 bytes past the end of b"


def test_snapshots_show_and_undo_changes():
    table = AllocationTable()
    a = table.allocate(64, "a", fill=b"\0")
    before = table.snapshot()
    a.data[3:5] = 1
    a.data[60] = 1
    later = table.allocate(8, "later")
    later.data[0] = 77
    ranges = table.changed(before)
    assert [(r.allocation.name, r.start, r.stop) for r in ranges] == [
        ("a", 3, 5),
        ("a", 60, 61),
    ]
    table.restore(before)
    assert table.changed(before) == ()
    assert later.data[0] == 77


def test_a_host_write_into_a_redzone_shows():
    table = AllocationTable()
    a = table.allocate(64, "a")
    assert table.broken_redzones() == ()
    a._slab[a.host - a._slab.ctypes.data + 64 + 2] ^= 1
    assert table.broken_redzones() == ((a, 66),)


@given(st.lists(st.tuples(st.integers(0, 300), st.booleans()), max_size=20), st.data())
def test_lookup_agrees_with_a_search(sizes, data):
    table = AllocationTable()
    for size, free in sizes:
        made = table.allocate(size, "x")
        if free:
            table.free(made)
    starts = [a.va for a in table]
    assert starts == sorted(starts)
    if not starts:
        return
    address = data.draw(st.sampled_from(starts)) + data.draw(st.integers(-400, 400))
    found = [a for a in table if a.va <= address < max(a.end, a.va + 1)]
    assert table.at(address) is (found[0] if found else None)


def test_an_empty_allocation_is_the_home_of_its_tensor():
    table = AllocationTable()
    empty = table.allocate(0, "k")
    tensor = empty.tensor(torch.bfloat16, (0, 2, 64))
    assert tuple(tensor.shape) == (0, 2, 64)
    assert table.at(tensor.untyped_storage().data_ptr()) is empty
    assert table.describe(empty.va) == "0 bytes past the end of k"
    assert len(table.entries()) == 0
