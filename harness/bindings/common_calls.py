"""Calls of both interfaces of `cuda.bindings` that differ in their names only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sidestream.harness.bindings.calls import Calls

RUNTIME_NAMES = {
    "free": "Free",
    "free_async": "FreeAsync",
    "host_free": "FreeHost",
    "device": "DeviceSynchronize",
    "register": "HostRegister",
    "unregister": "HostUnregister",
}
DRIVER_NAMES = {
    "free": "MemFree",
    "free_async": "MemFreeAsync",
    "host_free": "MemFreeHost",
    "device": "CtxSynchronize",
    "register": "MemHostRegister",
    "unregister": "MemHostUnregister",
}


def common_calls(
    calls: Calls, prefix: str, names: dict[str, str]
) -> dict[str, Callable[..., Any]]:
    """Return the calls by name.

    Args:
        calls: What they arrive at.
        prefix: Of the interface, `cuda` or `cu`.
        names: `RUNTIME_NAMES` or `DRIVER_NAMES`.
    """
    rt = calls.runtime

    def wait(stream: Any) -> None:
        rt.synchronize_stream(
            calls.stream(int(stream)), call=f"{prefix}StreamSynchronize"
        )

    def wait_event(event: Any) -> None:
        rt.synchronize_event(calls.event(int(event)), call=f"{prefix}EventSynchronize")

    def wait_device() -> None:
        rt.synchronize_device(calls.device(), call=f"{prefix}{names['device']}")

    def free(address: Any) -> None:
        if int(address):
            rt.cuda_free(int(address))

    def free_async(address: Any, stream: Any) -> None:
        rt.free_async(int(address), calls.stream(int(stream)))

    def host_free(address: Any) -> None:
        calls.host_free(int(address))

    def register(address: Any, size: int, flags: int = 0) -> None:
        rt.register_host(int(address), int(size))

    def unregister(address: Any) -> None:
        rt.unregister_host(int(address))

    def record(event: Any, stream: Any = 0) -> None:
        calls.event_record(int(event), int(stream))

    def let_wait(stream: Any, event: Any, flags: int = 0) -> None:
        calls.stream_wait_event(int(stream), int(event))

    def query(stream: Any) -> None:
        calls.stream_query(int(stream))

    def query_event(event: Any) -> None:
        calls.event_query(int(event))

    def destroy(stream: Any) -> None:
        calls.stream_destroy(int(stream))

    def destroy_event(event: Any) -> None:
        calls.event_destroy(int(event))

    def begin(stream: Any, mode: Any) -> None:
        calls.begin_capture(int(stream), int(mode))

    def launch(exec: Any, stream: Any) -> None:
        calls.launch_graph(int(exec), int(stream))

    def host_function(stream: Any, function: Any, data: Any) -> None:
        call = f"{prefix}LaunchHostFunc"
        calls.host_function(int(stream), int(function), int(data or 0), call=call)

    return {
        f"{prefix}StreamSynchronize": wait,
        f"{prefix}EventSynchronize": wait_event,
        f"{prefix}{names['device']}": wait_device,
        f"{prefix}{names['free']}": free,
        f"{prefix}{names['free_async']}": free_async,
        f"{prefix}{names['host_free']}": host_free,
        f"{prefix}{names['register']}": register,
        f"{prefix}{names['unregister']}": unregister,
        f"{prefix}EventRecord": record,
        f"{prefix}StreamWaitEvent": let_wait,
        f"{prefix}StreamQuery": query,
        f"{prefix}EventQuery": query_event,
        f"{prefix}StreamDestroy": destroy,
        f"{prefix}EventDestroy": destroy_event,
        f"{prefix}StreamBeginCapture": begin,
        f"{prefix}GraphLaunch": launch,
        f"{prefix}LaunchHostFunc": host_function,
        f"{prefix}StreamGetPriority": lambda s: calls.stream(int(s)).priority,
        f"{prefix}StreamGetFlags": lambda s: int(not calls.stream(int(s)).blocking),
    }
