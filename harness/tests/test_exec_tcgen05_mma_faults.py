"""What tcgen05.mma may not be given, and what it then leaves alone."""

import pytest
from tcgen05_case import COLUMNS, LANES
from tcgen05_product import faults, product

from sidestream.harness.exec.machine import Options

SMEM_OOB, TMEM = "smem-oob", "tmem"
RANGE, UNALLOCATED, ALIGNMENT, UNWRITTEN = 8, 9, 12, 13
ZERO_COLUMNS = 21


def changed(*edits, **how):
    return product(**how, edits=edits)


@pytest.mark.parametrize(
    ("pairs", "how", "expected"),
    [
        # D, A and the end of tensor memory
        ([("[%t+0]", "[%t+480]")], {}, (TMEM, RANGE)),
        ([("[%t+0]", "[%t+1024]")], {}, (TMEM, RANGE)),
        ([("[%t+0]", "[%t+8388608]")], {}, (TMEM, RANGE)),
        ([("[%t+0]", "[%t+1048576]")], {}, (TMEM, ALIGNMENT)),
        ([("[%t+0]", "[%t+524288]")], {"m": 64}, (TMEM, ALIGNMENT)),
        ([("[%t+256]", "[%t+508]")], {"a_cells": True}, (TMEM, RANGE)),
        ([("[%t+256]", "[%t+1048832]")], {"a_cells": True}, (TMEM, ALIGNMENT)),
        # D and A of M = 64 in different halves
        (
            [("[%t+256]", "[%t+1048832]")],
            {"m": 64, "a_cells": True},
            (TMEM, ALIGNMENT),
        ),
        # behind the end of shared memory
        ([("mov.b32 %t", "or.b64 %b, %b, 0x3fff;\nmov.b32 %t")], {}, (SMEM_OOB, None)),
        # before its start
        ([("mov.b32 %t", "and.b64 %a, %a, -16384;\nmov.b32 %t")], {}, (SMEM_OOB, None)),
    ],
)
def test_operands_outside_their_memories(pairs, how, expected):
    found = faults(changed(*pairs, **how))
    kinds = {(k, None if k == SMEM_OOB else i) for k, i in found}
    assert kinds == {expected}


@pytest.mark.parametrize(
    ("edits", "how", "columns", "code"),
    [
        ([], {"a_cells": True}, 256, UNALLOCATED),
        ([], {"n": 256}, 128, UNALLOCATED),
        ([("[%t+0]", "[%t+192]")], {}, 128, UNALLOCATED),
        ([("[%t+0]", "[%t+96]")], {}, 128, UNALLOCATED),
        ([("[%t+0]", "[%t+64]")], {}, 128, None),
    ],
)
def test_columns_that_are_not_allocated(edits, how, columns, code):
    found = faults(changed(*edits, **how), columns=columns)
    assert found == (set() if code is None else {(TMEM, code)})


def test_reads_of_what_nothing_wrote():
    checked = Options(tensor_memory_check=True)
    to = [("[%t+0]", "[%t+32]")]
    few = {"filled": 32, "dumped": 64}
    # D is written before it is read at the end, and read before that only if enabled.
    assert faults(changed(*to, n=32), checked, **few) == set()
    found = faults(changed(*to, n=32, enable=True), checked, **few)
    assert found == {("tmem-uninit", UNWRITTEN)}
    found = faults(changed(*to, n=32, a_cells=True), checked, **few)
    assert found == {("tmem-uninit", UNWRITTEN)}


def test_what_is_refused_writes_nothing():
    ran = changed(("[%t+0]", "[%t+1048576]")).run()
    assert (ran.cells == 0).all()
    assert ran.cells.shape == (1, COLUMNS, LANES)


@pytest.mark.parametrize("seed", [0, 3])
def test_a_bad_instruction_descriptor_is_a_fault(seed):
    case = changed(("mov.b32 %t", "or.b32 %i, %i, 64;\nmov.b32 %t"))
    assert {k for k, _ in faults(case, Options(seed=seed))} == {"tcgen05"}


@pytest.mark.parametrize(
    ("m", "allowed", "value"),
    [
        (64, 0, 1 << 56),
        (64, 1, 9 << 56),
        (32, 3, 17 << 56),
        (128, 3, 33 << 56),
        (64, 3, 1 << 36),
    ],
)
def test_zero_column_masks_that_are_refused(m, allowed, value):
    case = product(m=m, n=64, ws=True, extra={"max_shift": allowed}, tail=f", {value}")
    assert faults(case) == {("tcgen05", ZERO_COLUMNS)}
