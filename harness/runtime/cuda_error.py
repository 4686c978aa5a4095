"""Errors of the virtual CUDA runtime, by the names and numbers CUDA gives them."""

from __future__ import annotations

from sidestream.harness.errors import SidestreamError

NUMBERS = {
    "cudaErrorInvalidValue": 1,
    "cudaErrorMemoryAllocation": 2,
    "cudaErrorInvalidDevice": 101,
    "cudaErrorDeviceUninitialized": 201,
    "cudaErrorInvalidResourceHandle": 400,
    "cudaErrorIllegalState": 401,
    "cudaErrorNotReady": 600,
    "cudaErrorAssert": 710,
    "cudaErrorNotPermitted": 800,
    "cudaErrorStreamCaptureUnsupported": 900,
    "cudaErrorStreamCaptureInvalidated": 901,
    "cudaErrorStreamCaptureMerge": 902,
    "cudaErrorStreamCaptureUnmatched": 903,
    "cudaErrorStreamCaptureUnjoined": 904,
    "cudaErrorStreamCaptureIsolation": 905,
    "cudaErrorStreamCaptureImplicit": 906,
    "cudaErrorCapturedEvent": 907,
    "cudaErrorStreamCaptureWrongThread": 908,
    "cudaErrorGraphExecUpdateFailure": 910,
}
"""Values of `cudaError_t`; CUDA Runtime API, "Data types used by CUDA Runtime"."""


class CudaError(SidestreamError, RuntimeError):
    """A call that the CUDA runtime would refuse; `name` and `number` as it has them.

    Args:
        name: One of `NUMBERS`.
        message: What was wrong.
        kind: Of the finding that it is, where the name alone does not tell.
    """

    def __init__(self, name: str, message: str, *, kind: str = "") -> None:
        self.name = name
        self.kind = kind
        self.noted = False
        """Whether the runtime has taken note of it."""
        self.number = NUMBERS[name]
        super().__init__(f"{name}: {message}")
