"""Which function lowers which instruction family."""

from __future__ import annotations

from collections.abc import Callable

from sidestream.harness.exec.lower import (
    arithmetic,
    atomic,
    barrier,
    bulk,
    clc,
    cluster,
    compare,
    control,
    convert,
    cp_async,
    integer,
    logic,
    memory,
    mma,
    move,
    st_async,
    tcgen05_memory,
    tcgen05_mma,
    tensormap,
    warp,
)
from sidestream.harness.exec.lower.builder import Builder
from sidestream.harness.ptx import ir

Family = Callable[[Builder, ir.Instruction], None]

FAMILIES: dict[str, Family] = {}
_MODULES = (
    *(arithmetic, compare, control, convert, integer, logic, mma, move),
    *(atomic, barrier, clc, cluster, cp_async, memory, st_async, warp, bulk, tensormap),
    *(tcgen05_memory, tcgen05_mma),
)
for _module in _MODULES:
    for _op, _function in _module.FAMILY.items():
        if _op in FAMILIES:
            raise RuntimeError(f"two families lower {_op}")
        FAMILIES[_op] = _function
