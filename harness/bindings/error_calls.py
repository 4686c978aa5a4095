"""Calls of `cuda.bindings` that tell of errors: the last one, and their names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from sidestream.harness.bindings.calls import Calls


def error_calls(
    calls: Calls, runtime: Any, driver: Any
) -> Iterator[tuple[object, str, Callable[..., tuple[Any, ...]]]]:
    """Yield (module, name, replacement); texts of errors are their names."""

    def peek() -> tuple[Any]:
        return (runtime.cudaError_t(calls.last_error),)

    def take() -> tuple[Any]:
        told = peek()
        calls.last_error = 0
        return told

    def name_of(status: Any, given: Any) -> tuple[Any, bytes]:
        return status(0), status(int(given)).name.encode()

    yield runtime, "cudaPeekAtLastError", peek
    yield runtime, "cudaGetLastError", take
    for what in ("Name", "String"):
        of_runtime = functools.partial(name_of, runtime.cudaError_t)
        yield runtime, f"cudaGetError{what}", of_runtime
        yield driver, f"cuGetError{what}", functools.partial(name_of, driver.CUresult)
