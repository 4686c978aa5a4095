"""An observer that keeps which bytes of global memory a launch touches."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from types import TracebackType

import numpy as np

from sidestream.harness.exec.build import SOURCE, build_library
from sidestream.harness.exec.observer import Geometry

_READ, _WRITE = 0, 1
_FEW = 4096

Range = tuple[int, int]
"""Address of the first byte, and after the last one."""


@functools.cache
def library() -> ctypes.CDLL:
    """Return the observer's C functions, built and loaded once per process.

    Raises:
        BuildError: with the compiler's own message if it fails.
    """
    folder = Path(__file__).parent / "core"
    lib = ctypes.CDLL(str(build_library("footprint", folder, include=(SOURCE,))))
    lib.footprint_new.restype = ctypes.c_void_p
    lib.footprint_free.argtypes = [ctypes.c_void_p]
    lib.footprint_observer.argtypes = [ctypes.c_void_p]
    lib.footprint_observer.restype = ctypes.c_void_p
    lib.footprint_lost.argtypes = [ctypes.c_void_p]
    lib.footprint_lost.restype = ctypes.c_uint64
    lib.footprint_ranges.argtypes = [
        *(ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint64)
    ]
    lib.footprint_ranges.restype = ctypes.c_uint64
    return lib


class Footprint:
    """Bytes that one launch reads and writes; a context manager.

    Generic and asynchronous accesses count alike, a tensor map that is used as read,
    atomics and edits of tensor maps as both. What a thread reads after it has written
    it itself does not count as read: nothing from before the launch is in it. What the
    hardware would fault on counts as well.
    """

    def __init__(self) -> None:
        self._kept: int | None = library().footprint_new()
        if not self._kept:
            raise MemoryError("no memory to watch a launch")

    def __enter__(self) -> Footprint:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._kept:
            library().footprint_free(self._kept)
            self._kept = None

    def attach(self, geometry: Geometry) -> int:
        """Return the address of the observer; any machine will do."""
        return int(library().footprint_observer(self._kept))

    @property
    def lost(self) -> int:
        """Accesses that could not be kept: not 0 means incomplete."""
        return int(library().footprint_lost(self._kept))

    @property
    def reads(self) -> tuple[Range, ...]:
        """What was read, as sorted ranges that do not touch."""
        return self._ranges(_READ)

    @property
    def writes(self) -> tuple[Range, ...]:
        """What was written."""
        return self._ranges(_WRITE)

    def _ranges(self, which: int) -> tuple[Range, ...]:
        room = _FEW
        while True:
            out = np.zeros((room, 2), np.uint64)
            found = int(
                library().footprint_ranges(self._kept, which, out.ctypes.data, room)
            )
            if found == (1 << 64) - 1:
                raise MemoryError("no memory to sort what a launch touched")
            if found <= room:
                return tuple((int(a), int(b)) for a, b in out[:found].tolist())
            room = found
