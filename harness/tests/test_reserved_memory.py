"""Allocations that take memory only where they are touched."""

import pytest
import torch

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.errors import UsageError

SIZE = 1 << 42


def test_a_reserved_allocation_is_zero_and_reaches_as_far_as_it_says():
    table = AllocationTable()
    home = table.reserve(SIZE, "q")
    assert home.size == SIZE
    home.data[SIZE - 2 :] = (0x80, 0x3F)
    tensor = home.tensor(torch.bfloat16, (SIZE // 2,))
    assert tensor[-1] == 1.0
    assert tensor[0] == 0.0
    assert table.at(home.va + SIZE - 1) is home
    assert table.at(home.va - 1) is None
    assert table.at(home.va + SIZE) is None


def test_no_snapshot_is_taken_of_it():
    table = AllocationTable()
    home = table.reserve(SIZE, "q", writable=False)
    with pytest.raises(UsageError, match="q is reserved"):
        table.snapshot()
    table.free(home)
    assert table.snapshot().data == {}


def test_a_size_has_to_be_positive():
    with pytest.raises(UsageError, match="not usable"):
        AllocationTable().reserve(0, "q")
