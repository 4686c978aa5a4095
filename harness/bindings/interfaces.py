"""The calls under the names of `cuda.bindings.runtime` and `cuda.bindings.driver`."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
from collections.abc import Callable, Iterator
from typing import Any

from sidestream.harness.bindings.calls import Calls
from sidestream.harness.bindings.common_calls import (
    DRIVER_NAMES,
    RUNTIME_NAMES,
    common_calls,
)
from sidestream.harness.bindings.context_calls import context_calls, device_calls
from sidestream.harness.bindings.error_calls import error_calls
from sidestream.harness.bindings.fill_calls import driver_fills, runtime_fills
from sidestream.harness.bindings.signatures import bound
from sidestream.harness.runtime import CudaError

_KINDS = ("h2h", "h2d", "d2h", "d2d")
_DEFAULT = 4
"""`cudaMemcpyDefault`."""
_CAPTURE = ("none", "active", "invalidated")

Answer = Callable[..., tuple[Any, ...]]


def answers(calls: Calls) -> Iterator[tuple[object, str, Answer]]:
    """Yield (module, name, replacement) for both interfaces, where they exist.

    Every call returns as the real one does, a tuple that starts with a status, and
    takes its arguments as the real one does, by position or by name.
    """
    yield from bound(_answers(calls))


def _answers(calls: Calls) -> Iterator[tuple[object, str, Answer]]:
    if importlib.util.find_spec("cuda.bindings") is None:
        return
    runtime: Any = importlib.import_module("cuda.bindings.runtime")
    driver: Any = importlib.import_module("cuda.bindings.driver")
    contexts = calls.contexts
    attach = contexts.attach if contexts is not None else _nothing_to_do

    def keep(error: int) -> None:
        calls.last_error = error

    for name, call in _runtime(calls, runtime).items():
        yield runtime, name, _answer(runtime.cudaError_t, call, attach, keep)
    yield from error_calls(calls, runtime, driver)
    for name, call in _driver(calls, driver).items():
        need = _nothing_to_do
        if contexts is not None and _NEEDS_CONTEXT.match(name):
            need = functools.partial(contexts.need, name)
        yield driver, name, _answer(driver.CUresult, call, need)
    if contexts is None:
        return
    for name, call in device_calls(contexts).items():
        yield runtime, name, _answer(runtime.cudaError_t, call, _nothing_to_do, keep)
    for name, call in context_calls(contexts, driver).items():
        yield driver, name, _answer(driver.CUresult, call, _nothing_to_do)


_NEEDS_CONTEXT = re.compile(
    r"cu(MemAlloc|MemAllocHost|MemHostAlloc|MemGetInfo|StreamCreate\w*|EventCreate|CtxSynchronize"
    r"|Memcpy\w*(?<!Async)|MemsetD\w+(?<!Async))$"
)
"""Calls of the driver that take nothing which tells their context."""


def _nothing_to_do() -> None:
    """Stand for what a call has to see to first."""


def _answer(
    status: Any,
    call: Callable[..., Any],
    first: Callable[[], None],
    keep: Callable[[int], None] = lambda error: None,
) -> Answer:
    def answer(*args: Any) -> tuple[Any, ...]:
        try:
            first()
            value = call(*args)
        except CudaError as error:
            keep(error.number)
            return (status(error.number), *(() if _nothing(call) else (None,)))
        if isinstance(value, tuple):
            return (status(0), *value)
        return (status(0),) if value is None else (status(0), value)

    return answer


def _nothing(call: Callable[..., Any]) -> bool:
    """Whether a call gives no value beside the status."""
    return call.__annotations__.get("return", "something") in (None, "None")


def _runtime(calls: Calls, cuda: Any) -> dict[str, Callable[..., Any]]:
    rt = calls.runtime

    def create(flags: int = 0, priority: int = 0) -> Any:
        return cuda.cudaStream_t(calls.stream_create(int(flags), int(priority)))

    def event(flags: int = 0) -> Any:
        return cuda.cudaEvent_t(calls.event_create(int(flags)))

    def capturing(stream: Any) -> Any:
        state = rt.capturing(calls.stream(int(stream)))
        return cuda.cudaStreamCaptureStatus(_CAPTURE.index(state))

    def memcpy(target: Any, source: Any, size: int, kind: Any) -> None:
        calls.copy(
            *(int(target), int(source), int(size)),
            _direction(calls, kind, int(target), int(source)),
            blocking=True,
            call="cudaMemcpy",
        )

    def memcpy_async(
        target: Any, source: Any, size: int, kind: Any, stream: Any
    ) -> None:
        calls.copy(
            *(int(target), int(source), int(size)),
            _direction(calls, kind, int(target), int(source)),
            int(stream),
            blocking=False,
            call="cudaMemcpyAsync",
        )

    return {
        "cudaStreamCreate": lambda: create(),
        "cudaStreamCreateWithFlags": create,
        "cudaStreamCreateWithPriority": create,
        "cudaEventCreate": lambda: event(),
        "cudaEventCreateWithFlags": event,
        "cudaEventElapsedTime": lambda a, b: calls.elapsed(int(a), int(b)),
        "cudaStreamIsCapturing": capturing,
        "cudaMemcpy": memcpy,
        "cudaMemcpyAsync": memcpy_async,
        "cudaMalloc": lambda size: calls.malloc(int(size), call="cudaMalloc"),
        "cudaMallocAsync": lambda size, stream: rt.malloc_async(
            int(size), calls.stream(int(stream))
        ),
        "cudaMallocHost": lambda size: calls.host_alloc(
            int(size), call="cudaMallocHost"
        ),
        "cudaHostAlloc": lambda size, flags: calls.host_alloc(
            int(size), call="cudaHostAlloc"
        ),
        "cudaStreamEndCapture": lambda stream: cuda.cudaGraph_t(
            calls.end_capture(int(stream))
        ),
        "cudaGraphInstantiate": lambda graph, flags=0: cuda.cudaGraphExec_t(
            calls.instantiate(int(graph))
        ),
        "cudaMemGetInfo": calls.memory_info,
        **runtime_fills(calls),
        **common_calls(calls, "cuda", RUNTIME_NAMES),
    }


def _driver(calls: Calls, cuda: Any) -> dict[str, Callable[..., Any]]:
    rt = calls.runtime

    def create(flags: int = 0) -> Any:
        return cuda.CUstream(calls.stream_create(int(flags)))

    def with_priority(flags: int, priority: int) -> Any:
        return cuda.CUstream(calls.stream_create(int(flags), int(priority)))

    def event(flags: int = 0) -> Any:
        return cuda.CUevent(calls.event_create(int(flags)))

    def capturing(stream: Any) -> Any:
        state = rt.capturing(calls.stream(int(stream)))
        return cuda.CUstreamCaptureStatus(_CAPTURE.index(state))

    def copier(direction: str, call: str, *, blocking: bool) -> Callable[..., None]:
        def copy(target: Any, source: Any, size: int, stream: Any = 0) -> None:
            way = direction or calls.direction(int(target), int(source))
            calls.copy(
                *(int(target), int(source), int(size), way, int(stream)),
                blocking=blocking,
                call=call,
            )

        return copy

    copies = {
        f"cuMemcpy{name}{suffix}": copier(
            direction, f"cuMemcpy{name}{suffix}", blocking=not suffix
        )
        for name, direction in (("HtoD", "h2d"), ("DtoH", "d2h"), ("DtoD", "d2d"))
        for suffix in ("", "Async")
    }
    unified = {
        f"cuMemcpy{suffix}": copier("", f"cuMemcpy{suffix}", blocking=not suffix)
        for suffix in ("", "Async")
    }
    return {
        "cuStreamCreate": create,
        "cuStreamCreateWithPriority": with_priority,
        "cuEventCreate": event,
        "cuEventElapsedTime": lambda a, b: calls.elapsed(int(a), int(b)),
        "cuStreamIsCapturing": capturing,
        "cuMemAlloc": lambda size: cuda.CUdeviceptr(
            calls.malloc(int(size), call="cuMemAlloc")
        ),
        "cuMemAllocAsync": lambda size, stream: cuda.CUdeviceptr(
            rt.malloc_async(int(size), calls.stream(int(stream)))
        ),
        "cuMemHostAlloc": lambda size, flags: calls.host_alloc(
            int(size), call="cuMemHostAlloc"
        ),
        "cuMemAllocHost": lambda size: calls.host_alloc(
            int(size), call="cuMemAllocHost"
        ),
        "cuMemGetInfo": calls.memory_info,
        "cuStreamEndCapture": lambda stream: cuda.CUgraph(
            calls.end_capture(int(stream))
        ),
        "cuGraphInstantiate": lambda graph, flags=0: cuda.CUgraphExec(
            calls.instantiate(int(graph))
        ),
        **copies,
        **unified,
        **driver_fills(calls),
        **common_calls(calls, "cu", DRIVER_NAMES),
    }


def _direction(calls: Calls, kind: Any, target: int, source: int) -> str:
    """Return the direction of a `cudaMemcpyKind`.

    Raises:
        CudaError: cudaErrorInvalidValue for what is none.
    """
    if int(kind) == _DEFAULT:
        return calls.direction(target, source)
    if not 0 <= int(kind) < len(_KINDS):
        raise CudaError("cudaErrorInvalidValue", f"cudaMemcpyKind {kind}")
    return _KINDS[int(kind)]
