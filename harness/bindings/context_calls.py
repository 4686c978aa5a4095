"""Calls on devices and contexts, under their names in `cuda.bindings`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sidestream.harness.runtime import CudaError
from sidestream.harness.runtime.contexts import CONTEXT, Contexts


def device_calls(contexts: Contexts) -> dict[str, Callable[..., Any]]:
    """Return the calls of the runtime by name."""

    def set_device(device: int) -> None:
        contexts.set_device(int(device))

    return {
        "cudaGetDevice": contexts.device,
        "cudaSetDevice": set_device,
        "cudaGetDeviceCount": lambda: contexts.devices,
    }


def context_calls(contexts: Contexts, cuda: Any) -> dict[str, Callable[..., Any]]:
    """Return the calls of the driver, whose module is `cuda`, by name."""

    def device(ordinal: int) -> Any:
        if not 0 <= int(ordinal) < contexts.devices:
            raise CudaError("cudaErrorInvalidDevice", f"{ordinal}")
        return cuda.CUdevice(int(ordinal))

    def device_of_context() -> Any:
        contexts.need("cuCtxGetDevice")
        return cuda.CUdevice(contexts.current())

    def set_current(context: Any) -> None:
        contexts.set_current(int(context))

    def push(context: Any) -> None:
        contexts.push(int(context))

    return {
        "cuDeviceGet": device,
        "cuDeviceGetCount": lambda: contexts.devices,
        "cuDevicePrimaryCtxRetain": lambda d: cuda.CUcontext(CONTEXT + int(d)),
        "cuCtxGetCurrent": lambda: cuda.CUcontext(contexts.handle()),
        "cuCtxGetDevice": device_of_context,
        "cuCtxSetCurrent": set_current,
        "cuCtxPushCurrent": push,
        "cuCtxPopCurrent": lambda: cuda.CUcontext(contexts.pop()),
    }
