"""PTX text executed on numpy arrays: parse, decode, lower, launch; for the tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sidestream.harness.exec import abi
from sidestream.harness.exec.machine import Options, Result, execute
from sidestream.harness.exec.observer import Observer
from sidestream.harness.exec.program import Program, lower
from sidestream.harness.launch import Launch
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.parser import parse

Array = NDArray[np.generic]
Dims = tuple[int, int, int]

BASE = 0x7000_0000_0000
"""Address of the first array, far from real ones."""
_SPACING = 1 << 16
STRIDE = 2 * _SPACING
"""From one array of at most half of it to the next: pages between belong to nobody, so
that an overrun is seen."""


def addresses_of(arrays: Sequence[Array], count: int) -> list[int]:
    """Return addresses of arrays, and of as many that are not there as make `count`."""
    found, at = [], BASE
    sizes = [array.nbytes for array in arrays]
    for size in sizes + [1] * (count - len(sizes)):
        found.append(at)
        at += -(-max(size, 1) // _SPACING) * _SPACING + _SPACING
    return found


def execute_text(
    text: str,
    arrays: Sequence[Array],
    *,
    grid: int,
    block: int,
    cluster: Dims = (1, 1, 1),
    dynamic_smem: int = 0,
    params: int = 0,
    flags: int = abi.ALLOC_READ | abi.ALLOC_WRITE,
    init: NDArray[np.uint8] | None = None,
    options: Options | None = None,
    observer: Observer | None = None,
) -> tuple[Program, Result]:
    """Execute the one kernel of `text`, whose parameters are addresses of the arrays.

    Args:
        text: PTX.
        arrays: Global memory, read and written in place.
        grid: CTAs, in x.
        block: Threads of a CTA, in x.
        cluster: Of the launch.
        dynamic_smem: Bytes of dynamic shared memory.
        params: Parameters, where they are more than the arrays.
        flags: `ALLOC_*` of all arrays.
        init: Init map of the first array, if it has one.
        options: How to execute.
        observer: Who watches.
    """
    program = lower(decode(parse(text)), dynamic_smem=dynamic_smem)
    addresses = addresses_of(arrays, params)
    table = np.zeros(len(arrays), abi.ALLOC_DTYPE)
    for k, array in enumerate(arrays):
        table[k] = (addresses[k], array.nbytes, array.ctypes.data, 0, k, flags)
    if init is not None:
        table[0]["init"] = init.ctypes.data
    launch = Launch(
        kernel=program.function.name,
        ptx=text,
        grid=(grid, 1, 1),
        block=(block, 1, 1),
        cluster=cluster,
        dynamic_smem=dynamic_smem,
        params=tuple(a.to_bytes(8, "little") for a in addresses),
    )
    return program, execute(program, launch, table, options, observer=observer)
