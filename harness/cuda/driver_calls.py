"""`cuda.bindings` for host code that asks the driver itself about the device."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from sidestream.harness.bindings.signatures import bound

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sidestream.harness.cuda.memory import Allocation, AllocationTable
    from sidestream.harness.dsl.chip import Chip

CONTEXT = 1
"""Handle of the one context; never dereferenced."""
DRIVER_VERSION = 13010


MEMSETS = {"cuMemsetD8": "u1", "cuMemsetD16": "u2", "cuMemsetD32": "u4"}
"""Driver calls that fill a run of elements, with the type of one."""
MEMSETS_2D = {"cuMemsetD2D8": "u1", "cuMemsetD2D16": "u2", "cuMemsetD2D32": "u4"}
"""Driver calls that fill rows which lie a pitch apart."""


Deferred = Callable[[int, str, Callable[[], object]], bool]
"""Takes work for the stream of a handle, by its call; False if it is to run now."""


Unknown = Callable[[str], NoReturn]
"""Told what a chip does not tell; raises."""


def driver_answers(
    target: Callable[[], Chip], unknown: Unknown
) -> Iterator[tuple[object, str, object]]:
    """Yield (module, name, replacement) for both interfaces, where they exist.

    Every call returns as the real one does, a tuple that starts with a status, and
    takes its arguments as the real one does, by position or by name.

    Args:
        target: Returns the chip to answer from, at the time of the call.
        unknown: Told of an attribute that the chip does not tell; a real one has it,
            so that no status is true.
    """
    yield from bound(_answers(target, unknown))


def fill_answers(
    memory: AllocationTable, deferred: Deferred
) -> Iterator[tuple[object, str, object]]:
    """Yield the driver's fills, over a table of allocations.

    Args:
        memory: What they write to.
        deferred: Asked first about every fill on a stream: one that is captured.
    """
    if importlib.util.find_spec("cuda.bindings") is None:
        return
    driver: Any = importlib.import_module("cuda.bindings.driver")
    fine, bad = driver.CUresult.CUDA_SUCCESS, driver.CUresult.CUDA_ERROR_INVALID_VALUE
    made = _memsets(memory, fine, bad, deferred)
    yield from bound((driver, name, call) for name, call in made.items())


def _answers(
    target: Callable[[], Chip], unknown: Unknown
) -> Iterator[tuple[object, str, Any]]:
    if importlib.util.find_spec("cuda.bindings") is None:
        return
    driver: Any = importlib.import_module("cuda.bindings.driver")
    runtime: Any = importlib.import_module("cuda.bindings.runtime")
    fine = driver.CUresult.CUDA_SUCCESS

    def answer(status: object, *values: object) -> Callable[..., tuple[object, ...]]:
        return lambda *args: (status, *values)

    def attribute(which: Any, device: Any = 0) -> tuple[object, int]:
        return fine, known(which, "cuDeviceGetAttribute")

    def runtime_attribute(which: Any, device: Any = 0) -> tuple[object, int]:
        return done, known(which, "cudaDeviceGetAttribute")

    def known(which: Any, call: str) -> int:
        value = target().attributes().get(int(which))
        if value is None:
            unknown(f"{call} of {getattr(which, 'name', which)}")
        return value

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
    memory: AllocationTable, fine: object, bad: object, deferred: Deferred
) -> dict[str, Callable[..., tuple[object]]]:
    """Return the driver's fills, synchronous ones and those that take a stream.

    Launches run when they are made, so a fill on a stream is carried out at once too,
    unless the stream is captured: then with every replay.
    """

    def place(address: int, size: int) -> tuple[Allocation, int] | None:
        home = memory.at(address)
        start = address - home.va if home is not None else 0
        if home is None or home.freed or start + size > home.size:
            return None
        return home, start

    def put(places: Sequence[tuple[Allocation, int]], data: NDArray[np.uint8]) -> None:
        for home, start in places:
            home.data[start : start + data.size] = data
            if home.init is not None:
                home.init[start : start + data.size] = 1

    def fill(
        call: str,
        addresses: Sequence[int],
        data: NDArray[np.uint8],
        stream: Sequence[Any],
    ) -> tuple[object]:
        found = [place(address, data.size) for address in addresses]
        places = [one for one in found if one is not None]
        if len(places) != len(found):
            return (bad,)

        def work() -> None:
            put(places, data)

        if not (stream and deferred(int(stream[0]), call, work)):
            work()
        return (fine,)

    def flat(call: str, kind: str) -> Callable[..., tuple[object]]:
        def memset(address: Any, value: int, count: int, *stream: Any) -> tuple[object]:
            data = np.full(count, value, kind).view(np.uint8)
            return fill(call, [int(address)], data, stream)

        return memset

    def rows(call: str, kind: str) -> Callable[..., tuple[object]]:
        def memset(
            address: Any, pitch: int, value: int, width: int, height: int, *stream: Any
        ) -> tuple[object]:
            data = np.full(width, value, kind).view(np.uint8)
            first = int(address)
            return fill(call, [first + r * pitch for r in range(height)], data, stream)

        return memset

    made: dict[str, Callable[..., tuple[object]]] = {}
    for suffix in ("", "Async"):
        made |= {n + suffix: flat(n + suffix, kind) for n, kind in MEMSETS.items()}
        made |= {n + suffix: rows(n + suffix, kind) for n, kind in MEMSETS_2D.items()}
    return made
