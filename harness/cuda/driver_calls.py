"""`cuda.bindings` for host code that asks the driver itself about the device."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sidestream.harness.cuda.memory import AllocationTable
    from sidestream.harness.dsl.chip import Chip

CONTEXT = 1
"""Handle of the one context; never dereferenced."""
DRIVER_VERSION = 13010


MEMSETS = {"cuMemsetD8": "u1", "cuMemsetD16": "u2", "cuMemsetD32": "u4"}
"""Driver calls that fill a run of elements, with the type of one."""
MEMSETS_2D = {"cuMemsetD2D8": "u1", "cuMemsetD2D16": "u2", "cuMemsetD2D32": "u4"}
"""Driver calls that fill rows which lie a pitch apart."""


def driver_answers(
    target: Callable[[], Chip], memory: AllocationTable
) -> Iterator[tuple[object, str, object]]:
    """Yield (module, name, replacement) for both interfaces, where they exist.

    Every call returns as the real one does: a tuple that starts with a status.

    Args:
        target: Returns the chip to answer from, at the time of the call.
        memory: What fills write to.
    """
    if importlib.util.find_spec("cuda.bindings") is None:
        return
    driver: Any = importlib.import_module("cuda.bindings.driver")
    runtime: Any = importlib.import_module("cuda.bindings.runtime")
    fine, bad = driver.CUresult.CUDA_SUCCESS, driver.CUresult.CUDA_ERROR_INVALID_VALUE

    def answer(status: object, *values: object) -> Callable[..., tuple[object, ...]]:
        return lambda *args, **kwargs: (status, *values)

    def attribute(which: Any, device: Any = 0) -> tuple[object, int]:
        value = target().attributes().get(int(which))
        return (fine, value) if value is not None else (bad, 0)

    def name(length: int, device: Any) -> tuple[object, bytes]:
        return fine, target().name.encode()[: length - 1]

    context, device = driver.CUcontext(CONTEXT), driver.CUdevice(0)
    for function, value in {
        "cuInit": answer(fine),
        "cuDriverGetVersion": answer(fine, DRIVER_VERSION),
        "cuDeviceGet": answer(fine, device),
        "cuDeviceGetCount": answer(fine, 1),
        "cuDeviceGetName": name,
        "cuDeviceGetAttribute": attribute,
        "cuDevicePrimaryCtxRetain": answer(fine, context),
        "cuDevicePrimaryCtxRelease": answer(fine),
        "cuCtxGetCurrent": answer(fine, context),
        "cuCtxSetCurrent": answer(fine),
        "cuCtxGetDevice": answer(fine, device),
        "cuStreamGetCtx": answer(fine, context),
    }.items():
        yield driver, function, value
    for function, replacement in _memsets(memory, fine, bad).items():
        yield driver, function, replacement

    def runtime_attribute(which: Any, device: Any = 0) -> tuple[object, int]:
        value = target().attributes().get(int(which))
        if value is None:
            return runtime.cudaError_t.cudaErrorInvalidValue, 0
        return done, value

    done = runtime.cudaError_t.cudaSuccess
    for function, value in {
        "cudaGetDevice": answer(done, 0),
        "cudaSetDevice": answer(done),
        "cudaGetDeviceCount": answer(done, 1),
        "cudaDeviceGetAttribute": runtime_attribute,
        "cudaDriverGetVersion": answer(done, DRIVER_VERSION),
        "cudaRuntimeGetVersion": answer(done, DRIVER_VERSION),
    }.items():
        yield runtime, function, value


def _memsets(
    memory: AllocationTable, fine: object, bad: object
) -> dict[str, Callable[..., tuple[object]]]:
    """Return the driver's fills, synchronous ones and those that take a stream.

    Launches run when they are made, so a fill on a stream is carried out at once too.
    """

    def row(address: int, value: int, count: int, kind: str) -> bool:
        data = np.full(count, value, kind).view(np.uint8)
        home = memory.at(address)
        start = address - home.va if home is not None else 0
        if home is None or home.freed or start + data.size > home.size:
            return False
        home.data[start : start + data.size] = data
        if home.init is not None:
            home.init[start : start + data.size] = 1
        return True

    def flat(kind: str) -> Callable[..., tuple[object]]:
        def fill(address: Any, value: int, count: int, *stream: Any) -> tuple[object]:
            return (fine if row(int(address), value, count, kind) else bad,)

        return fill

    def rows(kind: str) -> Callable[..., tuple[object]]:
        def fill(
            address: Any, pitch: int, value: int, width: int, height: int, *stream: Any
        ) -> tuple[object]:
            first = int(address)
            done = [row(first + r * pitch, value, width, kind) for r in range(height)]
            return (fine if all(done) else bad,)

        return fill

    made = {name: flat(kind) for name, kind in MEMSETS.items()}
    made |= {name: rows(kind) for name, kind in MEMSETS_2D.items()}
    return {
        name + suffix: call for name, call in made.items() for suffix in ("", "Async")
    }
