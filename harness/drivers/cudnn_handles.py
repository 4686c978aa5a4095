"""cuDNN's handles and device description, for a machine without libcudnn.

cuDNN frontend chooses among engines in Python and in libcudnn. Its Python engines ask
the library for two things: what the device is, and which stream a handle has. These are
answered here. All else that needs the library still fails by the name of the symbol.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

MODULE = "cudnn._compiled_module"


class DeviceProperties:
    """What `cudnn.create_device_properties` returns, as far as engines read it.

    Args:
        capability: Major and minor number.
        multiprocessors: How many there are.
    """

    def __init__(self, capability: tuple[int, int], multiprocessors: int) -> None:
        major, minor = capability
        self._facts = {
            "deviceVer": major * 100 + minor * 10,
            "multiProcessorCount": multiprocessors,
        }

    def serialize(self) -> str:
        """Return the description as JSON."""
        return json.dumps(self._facts)


def answers(
    capability: tuple[int, int], multiprocessors: int
) -> dict[str, Callable[..., Any]]:
    """Return replacements for calls of the compiled module, by name."""
    numbers = itertools.count(1)
    streams: dict[int, int] = {}

    def create() -> int:
        handle = next(numbers)
        streams[handle] = 0
        return handle

    def set_stream(handle: int, stream: int) -> None:
        streams[handle] = int(stream)

    def describe(device: int = 0) -> DeviceProperties:
        return DeviceProperties(capability, multiprocessors)

    return {
        "create_device_properties": describe,
        "create_handle": create,
        "get_stream": lambda handle: streams[handle],
        "_raw_set_stream": set_stream,
        "_raw_destroy_handle": lambda handle: streams.pop(handle, None),
    }


class CudnnWithoutLibrary(MetaPathFinder):
    """Lets cuDNN's compiled module answer for the virtual device once imported.

    Args:
        capability: Major and minor number.
        multiprocessors: How many there are.
    """

    def __init__(self, capability: tuple[int, int], multiprocessors: int) -> None:
        self._answers = answers(capability, multiprocessors)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Find that module alone."""
        spec = PathFinder.find_spec(fullname, path) if fullname == MODULE else None
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Answering(spec.loader, self._answers)
        return spec


class _Answering(Loader):
    def __init__(self, inner: Loader, answers: dict[str, Callable[..., Any]]) -> None:
        self._inner = inner
        self._answers = answers

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        for name, answer in self._answers.items():
            setattr(module, name, answer)
