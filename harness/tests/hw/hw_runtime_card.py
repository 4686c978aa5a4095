"""The rules' questions, put to a card through the CUDA runtime library."""

from __future__ import annotations

import ctypes
import glob
import sys
import threading
import time
from typing import Any

_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}
_PATIENCE = 0.12
"""Seconds after which what has not happened is taken not to happen."""
_KINDS = {"h2d": 1, "d2h": 2, "d2d": 3}
_BYTES = 1 << 20
_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def library() -> ctypes.CDLL:
    """Load the CUDA runtime, from wherever it lies."""
    places = ["libcudart.so.13", "libcudart.so", "libcudart.so.12"]
    for folder in (*sys.path, "/usr/local/cuda/lib64"):
        places += glob.glob(f"{folder}/libcudart.so*")
        places += glob.glob(f"{folder}/nvidia/*/lib/libcudart.so*")
    for place in places:
        try:
            return ctypes.CDLL(place)
        except OSError:
            continue
    raise OSError("no libcudart found")


class CardApi:
    """See `hw_runtime_api.Api`."""

    legacy, legacy_alias, per_thread = 0, 1, 2

    def __init__(self) -> None:
        self._cuda = library()
        self._cuda.cudaGetErrorName.restype = ctypes.c_char_p
        self._open: list[threading.Event] = []
        self._kept: list[Any] = []
        self._memory = [self._allocated() for _ in range(2)]
        pinned = ctypes.c_void_p()
        self._call("cudaMallocHost", ctypes.byref(pinned), ctypes.c_size_t(_BYTES))
        self._host = {
            True: pinned,
            False: ctypes.create_string_buffer(_BYTES),
        }
        self._extra = self._allocated()
        # Everything that is set up on first use is set up now.
        warm = self.stream(blocking=False)
        for direction in _KINDS:
            for kind in (True, False):
                self.copy(direction, warm, pinned=kind, blocking=False)
        self.work(warm)
        self.sync_device()

    def _call(self, name: str, *args: Any) -> str:
        number = getattr(self._cuda, name)(*args)
        self._cuda.cudaGetLastError()
        return str(self._cuda.cudaGetErrorName(number).decode())

    def _allocated(self) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._call("cudaMalloc", ctypes.byref(made), ctypes.c_size_t(_BYTES))
        return made

    def stream(self, *, blocking: bool) -> int:
        made = ctypes.c_void_p()
        flags = ctypes.c_uint(0 if blocking else 1)
        self._call("cudaStreamCreateWithFlags", ctypes.byref(made), flags)
        return int(made.value or 0)

    def event(self, *, timing: bool = False) -> int:
        made = ctypes.c_void_p()
        flags = ctypes.c_uint(0 if timing else 2)
        self._call("cudaEventCreateWithFlags", ctypes.byref(made), flags)
        return int(made.value or 0)

    def gate(self, stream: int) -> None:
        gate = threading.Event()
        function = _HOST_FUNCTION(lambda _: gate.wait(20) and None)
        self._kept.append(function)
        self._open.append(gate)
        self._call("cudaLaunchHostFunc", ctypes.c_void_p(stream), function, None)

    def work(self, stream: int) -> str:
        return self._call(
            "cudaMemsetAsync",
            self._memory[0],
            ctypes.c_int(0),
            ctypes.c_size_t(64),
            ctypes.c_void_p(stream),
        )

    def held(self, stream: int) -> bool:
        event = self.event()
        self.record(event, stream)
        return self.event_held(event)

    def event_held(self, event: int) -> bool:
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            if self.query_event(event) == "cudaSuccess":
                return False
            time.sleep(0.002)
        return True

    def blocks(self, call: Any) -> bool:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join(_PATIENCE)
        blocked = thread.is_alive()
        self.finish()
        thread.join()
        return blocked

    def finish(self) -> None:
        """Open every gate and wait for the device."""
        for gate in self._open:
            gate.set()
        self._open.clear()
        self.sync_device()
        self._kept.clear()

    def record(self, event: int, stream: int) -> str:
        return self._call(
            "cudaEventRecord", ctypes.c_void_p(event), ctypes.c_void_p(stream)
        )

    def wait(self, stream: int, event: int) -> str:
        return self._call(
            "cudaStreamWaitEvent",
            ctypes.c_void_p(stream),
            ctypes.c_void_p(event),
            ctypes.c_uint(0),
        )

    def query_event(self, event: int) -> str:
        return self._call("cudaEventQuery", ctypes.c_void_p(event))

    def query_stream(self, stream: int) -> str:
        return self._call("cudaStreamQuery", ctypes.c_void_p(stream))

    def sync_event(self, event: int) -> str:
        return self._call("cudaEventSynchronize", ctypes.c_void_p(event))

    def sync_stream(self, stream: int) -> str:
        return self._call("cudaStreamSynchronize", ctypes.c_void_p(stream))

    def sync_device(self) -> str:
        return self._call("cudaDeviceSynchronize")

    def elapsed(self, start: int, end: int) -> str:
        value = ctypes.c_float()
        return self._call(
            "cudaEventElapsedTime",
            ctypes.byref(value),
            ctypes.c_void_p(start),
            ctypes.c_void_p(end),
        )

    def begin(self, stream: int, mode: str) -> str:
        return self._call(
            "cudaStreamBeginCapture",
            ctypes.c_void_p(stream),
            ctypes.c_int(_MODES[mode]),
        )

    def end(self, stream: int) -> tuple[str, Any]:
        graph = ctypes.c_void_p()
        answer = self._call(
            "cudaStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph)
        )
        return answer, graph

    def capturing(self, stream: int) -> str:
        status = ctypes.c_int()
        answer = self._call(
            "cudaStreamIsCapturing", ctypes.c_void_p(stream), ctypes.byref(status)
        )
        if answer != "cudaSuccess":
            return answer
        return ("none", "active", "invalidated")[status.value]

    def nodes(self, graph: Any) -> int:
        count = ctypes.c_size_t()
        self._call("cudaGraphGetNodes", graph, None, ctypes.byref(count))
        return int(count.value)

    def instantiate(self, graph: Any) -> Any:
        made = ctypes.c_void_p()
        self._call(
            "cudaGraphInstantiate", ctypes.byref(made), graph, ctypes.c_ulonglong(0)
        )
        return made

    def launch(self, exec: Any, stream: int) -> str:
        return self._call("cudaGraphLaunch", exec, ctypes.c_void_p(stream))

    def malloc(self) -> str:
        made = ctypes.c_void_p()
        return self._call("cudaMalloc", ctypes.byref(made), ctypes.c_size_t(64))

    def free(self) -> str:
        answer = self._call("cudaFree", self._extra)
        if answer == "cudaSuccess":
            # Outside of a capture only, or the next one has nothing to free.
            self._extra = ctypes.c_void_p()
        return answer

    def renew(self) -> None:
        """Have memory for `free` again."""
        if not self._extra.value:
            self._extra = self._allocated()

    def copy(self, direction: str, stream: int, *, pinned: bool, blocking: bool) -> str:
        host = self._host[pinned]
        there, other = self._memory
        ends = {"h2d": (there, host), "d2h": (host, there), "d2d": (other, there)}
        target, source = ends[direction]
        count, kind = ctypes.c_size_t(_BYTES), ctypes.c_int(_KINDS[direction])
        if blocking:
            return self._call("cudaMemcpy", target, source, count, kind)
        return self._call(
            *("cudaMemcpyAsync", target, source, count, kind, ctypes.c_void_p(stream))
        )

    def in_host_function(self, stream: int, call: Any) -> str:
        answers: list[str] = []
        function = _HOST_FUNCTION(lambda _: answers.append(call()))
        self._kept.append(function)
        self._call("cudaLaunchHostFunc", ctypes.c_void_p(stream), function, None)
        self.sync_stream(stream)
        return answers[0]

    def destroy(self, stream: int) -> str:
        return self._call("cudaStreamDestroy", ctypes.c_void_p(stream))

    def priority(self, asked: int) -> int:
        made, found = ctypes.c_void_p(), ctypes.c_int()
        self._call(
            "cudaStreamCreateWithPriority",
            ctypes.byref(made),
            ctypes.c_uint(1),
            ctypes.c_int(asked),
        )
        self._call("cudaStreamGetPriority", made, ctypes.byref(found))
        return found.value

    def in_thread(self, call: Any) -> Any:
        answers: list[Any] = []
        thread = threading.Thread(target=lambda: answers.append(call()))
        thread.start()
        thread.join()
        return answers[0]
