"""`cuda.bindings` for host code that asks the driver itself about the device."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sidestream.harness.dsl.chip import Chip

CONTEXT = 1
"""Handle of the one context; never dereferenced."""
DRIVER_VERSION = 13010


def driver_answers(target: Callable[[], Chip]) -> Iterator[tuple[object, str, object]]:
    """Yield (module, name, replacement) for both interfaces, where they exist.

    Every call returns as the real one does: a tuple that starts with a status.

    Args:
        target: Returns the chip to answer from, at the time of the call.
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
