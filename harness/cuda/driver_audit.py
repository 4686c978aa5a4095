"""Calls of the CUDA driver, whoever in this process makes them, told by CUPTI.

Torch's operators, compiled host functions and C++ libraries all end in the driver.
CUPTI's callback interface (CUPTI documentation, "CUPTI Callback API") reports every
call of it with its arguments, at its start and its end.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from sidestream.harness.errors import UnsupportedError

DRIVER_DOMAIN = 1
"""`CUPTI_CB_DOMAIN_DRIVER_API`."""
ENTER, EXIT = 0, 1

LAUNCHES = {
    "cuLaunchKernel": "f",
    "cuLaunchCooperativeKernel": "f",
    "cuLaunchKernelEx": "config",
}
"""Calls that launch a kernel, by the form of their arguments."""
WAITS = frozenset({"cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize"})
READS = frozenset(
    {
        *("cuMemcpyDtoH", "cuMemcpyDtoHAsync", "cuMemcpyAtoH", "cuMemcpyAtoHAsync"),
    }
)
"""Calls that bring device data to the host."""
ALLOCATIONS = frozenset(
    {
        *(
            "cuMemAlloc",
            "cuMemAllocAsync",
            "cuMemAllocFromPoolAsync",
            "cuMemAllocPitch",
        ),
        *("cuMemAllocManaged", "cuMemAllocHost", "cuMemHostAlloc", "cuMemHostRegister"),
        *("cuMemFree", "cuMemFreeAsync", "cuMemFreeHost", "cuMemCreate", "cuMemMap"),
        "cuMemUnmap",
    }
)
_FILL = re.compile(r"cuMemset\w+")
_COPY = re.compile(r"cuMemcpy\w*")
_VERSION = re.compile(r"(_v\d+)?(_ptsz|_ptds)?$")


class _Data(ctypes.Structure):
    """`CUpti_CallbackData`."""

    _fields_ = (
        ("site", ctypes.c_int),
        ("function", ctypes.c_char_p),
        ("params", ctypes.c_void_p),
        ("returned", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("context", ctypes.c_void_p),
        ("context_uid", ctypes.c_uint32),
        ("correlation_data", ctypes.c_void_p),
        ("correlation", ctypes.c_uint32),
    )


CALLBACK = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(_Data)
)

_THREE = ctypes.c_uint32 * 3


class _Config(ctypes.Structure):
    """`CUlaunchConfig`."""

    _fields_ = (
        ("grid", _THREE),
        ("block", _THREE),
        ("shared", ctypes.c_uint32),
        ("stream", ctypes.c_uint64),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint32),
    )


class _LaunchEx(ctypes.Structure):
    """Arguments of `cuLaunchKernelEx`."""

    _fields_ = (("config", ctypes.POINTER(_Config)), ("function", ctypes.c_void_p))


class _Launch(ctypes.Structure):
    """Arguments of `cuLaunchKernel` and `cuLaunchCooperativeKernel`."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("grid", _THREE),
        ("block", _THREE),
        ("shared", ctypes.c_uint32),
        ("stream", ctypes.c_uint64),
    )


@dataclass(frozen=True, kw_only=True)
class DriverCall:
    """One call of the driver.

    Attributes:
        name: Without the suffix of its version, e.g. `cuMemcpyDtoHAsync`.
        returning: False at its start, True at its end.
        status: What it returned, at its end; else 0.
        symbol: Name of the kernel, for a launch.
        params: Address of its arguments, in the order of its declaration; valid
            inside the callback only.
    """

    name: str
    returning: bool
    status: int = 0
    symbol: str = ""
    params: int = 0

    @property
    def kind(self) -> str:
        """`launch`, `wait`, `read`, `alloc`, `fill`, `copy`, or "" for the rest."""
        if self.name in LAUNCHES:
            return "launch"
        if self.name in WAITS:
            return "wait"
        if self.name in READS:
            return "read"
        if self.name in ALLOCATIONS:
            return "alloc"
        if _FILL.fullmatch(self.name):
            return "fill"
        return "copy" if _COPY.fullmatch(self.name) else ""

    @property
    def launch_stream(self) -> int:
        """The stream of a launch.

        Raises:
            KeyError: it is no launch.
        """
        if LAUNCHES[self.name] == "config":
            return int(_LaunchEx.from_address(self.params).config.contents.stream)
        return int(_Launch.from_address(self.params).stream)

    def words(self, count: int) -> tuple[int, ...]:
        """Return the first arguments, each a pointer or a 64-bit integer."""
        return tuple((ctypes.c_uint64 * count).from_address(self.params))


class DriverAudit:
    """While entered, `on_call` hears of every driver call of this process.

    Calls that the callback itself makes are not told. What it raises is kept and
    raised at the end.

    Args:
        on_call: Called on the calling thread, at the start and the end of each call.
        library: CUPTI; found beside torch's libraries if absent.

    Raises:
        UnsupportedError: on entry, if there is no CUPTI, or another tool has it.
    """

    def __init__(
        self, on_call: Callable[[DriverCall], None], library: Any = None
    ) -> None:
        self._on_call = on_call
        self._library = library
        self._subscriber = ctypes.c_void_p()
        self._inside = False
        self._raised: BaseException | None = None
        self._callback = CALLBACK(self._hear)

    def __enter__(self) -> DriverAudit:
        self._library = self._library or _cupti()
        status = self._library.cuptiSubscribe(
            ctypes.byref(self._subscriber), self._callback, None
        )
        if status:
            raise UnsupportedError(
                f"CUPTI refuses a subscriber (error {status}): a profiler or sanitizer "
                "has it"
            )
        status = self._library.cuptiEnableDomain(1, self._subscriber, DRIVER_DOMAIN)
        if status:
            self._library.cuptiUnsubscribe(self._subscriber)
            raise UnsupportedError(f"CUPTI does not report the driver (error {status})")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._library.cuptiUnsubscribe(self._subscriber)
        if self._raised is not None and error is None:
            raise self._raised

    def _hear(self, user: int, domain: int, id: int, data: Any) -> None:
        if self._inside or domain != DRIVER_DOMAIN:
            return
        self._inside = True
        try:
            self._on_call(_read(data.contents))
        except BaseException as error:  # nothing may reach native code
            self._raised = self._raised or error
        finally:
            self._inside = False


def _read(data: _Data) -> DriverCall:
    returning = data.site == EXIT
    status = 0
    if returning and data.returned:
        status = int(ctypes.c_int.from_address(data.returned).value)
    name = (data.function or b"").decode()
    return DriverCall(
        name=_VERSION.sub("", name),
        returning=returning,
        status=status,
        symbol=(data.symbol or b"").decode(errors="replace"),
        params=data.params or 0,
    )


@functools.cache
def _cupti() -> Any:
    """Load the CUPTI that torch comes with, or the system's.

    Raises:
        UnsupportedError: there is none.
    """
    places: list[str] = []
    try:
        import torch

        site = Path(torch.__file__).parents[1]
        places += [str(p) for p in sorted(site.glob("nvidia/*/lib/libcupti.so.*"))]
        places += [str(p) for p in sorted(site.glob("torch/lib/libcupti*.so*"))]
        version = (torch.version.cuda or "").partition(".")[0]
        # The one of torch's CUDA first: it is loaded already.
        places.sort(key=lambda place: not place.endswith(f".so.{version}"))
    except ImportError:
        pass
    found = ctypes.util.find_library("cupti")
    places += [found] if found else []
    places += ["/usr/local/cuda/extras/CUPTI/lib64/libcupti.so"]
    for place in places:
        try:
            return ctypes.CDLL(place)
        except OSError:
            continue
    raise UnsupportedError(
        "driver calls cannot be told: no libcupti; pip install nvidia-cuda-cupti"
    )
