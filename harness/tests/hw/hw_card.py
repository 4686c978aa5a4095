"""Run a case on the card that is present, through the CUDA driver.

The driver compiles the PTX text itself, so that only cuda-bindings is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hw_case import Case, MapSpec
from numpy.typing import NDArray

_TYPES = {
    name: number
    for number, name in enumerate(
        (
            *("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16"),
            *("f32.ftz", "tf32", "tf32.ftz"),
        )
    )
}


class CardError(Exception):
    """The driver refused something; the message has its error and, if any, its log."""


class Card:
    """One card with a context of its own.

    Raises:
        CardError: if there is no driver or no card.
    """

    def __init__(self) -> None:
        try:
            from cuda.bindings import driver
        except ImportError as error:
            raise CardError(f"cuda-bindings is not installed: {error}") from None
        self.driver: Any = driver
        try:
            self._call("cuInit", 0)
            device = self._call("cuDeviceGet", 0)
            context = self._call("cuDevicePrimaryCtxRetain", device)
            self._call("cuCtxSetCurrent", context)
        except (CardError, RuntimeError) as error:
            raise CardError(f"no card: {error}") from None
        get = self._call
        prefix = "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_"
        kinds = driver.CUdevice_attribute
        major, minor = (
            get("cuDeviceGetAttribute", getattr(kinds, prefix + part), device)
            for part in ("MAJOR", "MINOR")
        )
        self.capability = (int(major), int(minor))
        self.name = get("cuDeviceGetName", 128, device).split(b"\0")[0].decode()
        self.cuda = int(get("cuDriverGetVersion"))

    def _call(self, name: str, *args: Any) -> Any:
        status, *values = getattr(self.driver, name)(*args)
        if int(status):
            raise CardError(f"{name}: {status.name}")
        return values[0] if len(values) == 1 else values

    def _load(self, text: str) -> Any:
        options = self.driver.CUjit_option
        log = bytearray(4096)
        status, module = self.driver.cuModuleLoadDataEx(
            text.encode() + b"\0",
            2,
            [
                options.CU_JIT_ERROR_LOG_BUFFER,
                options.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
            ],
            [log, len(log)],
        )
        if int(status):
            message = log.split(b"\0")[0].decode(errors="replace").strip()
            raise CardError(f"{status.name}: {message}")
        return module

    def encode(self, spec: MapSpec, base: int) -> NDArray[np.uint64]:
        """The driver's 128-byte map of `spec` over a buffer at `base`."""
        d = self.driver
        rank = len(spec.dims)
        made = self._call(
            "cuTensorMapEncodeTiled",
            d.CUtensorMapDataType(_TYPES[spec.dtype]),
            rank,
            base + spec.offset,
            [d.cuuint64_t(v) for v in spec.dims],
            [d.cuuint64_t(v) for v in spec.strides] or [d.cuuint64_t(0)],
            [d.cuuint32_t(v) for v in spec.box],
            [d.cuuint32_t(v) for v in (spec.steps or (1,) * rank)],
            d.CUtensorMapInterleave(0),
            d.CUtensorMapSwizzle(spec.swizzle),
            d.CUtensorMapL2promotion(0),
            d.CUtensorMapFloatOOBfill(spec.fill),
        )
        return np.array([int(v) for v in made.opaque], np.uint64)

    def run(self, case: Case) -> list[NDArray[np.uint8]]:
        """Result buffers of the case.

        Raises:
            CardError: if the text does not compile or the kernel fails.
        """
        module = self._load(case.text)
        try:
            function = self._call("cuModuleGetFunction", module, b"k")
            pointers = [
                self._call("cuMemAlloc", max(b.nbytes, 16)) for b in case.buffers
            ]
            try:
                return self._launch(case, function, pointers)
            finally:
                for pointer in pointers:
                    self.driver.cuMemFree(pointer)
        finally:
            self.driver.cuModuleUnload(module)

    def _launch(
        self, case: Case, function: Any, pointers: list[Any]
    ) -> list[NDArray[np.uint8]]:
        for pointer, buffer in zip(pointers, case.buffers, strict=True):
            self._call("cuMemcpyHtoD", pointer, buffer.ctypes.data, buffer.nbytes)
        arguments = [np.array([int(p)], np.uint64) for p in pointers]
        arguments += [self.encode(m, int(pointers[m.buffer])) for m in case.maps]
        addresses = np.array([a.ctypes.data for a in arguments], np.uint64)
        self._call(
            "cuLaunchKernel",
            function,
            *(case.grid, 1, 1),
            *(case.block, 1, 1),
            case.smem,
            0,
            addresses.ctypes.data,
            0,
        )
        self._call("cuCtxSynchronize")
        results = []
        for number in case.outputs:
            made = np.zeros_like(case.buffers[number])
            self._call("cuMemcpyDtoH", made.ctypes.data, pointers[number], made.nbytes)
            results.append(made)
        return results
