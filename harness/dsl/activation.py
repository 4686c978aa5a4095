"""Point CuTe DSL at the replacement runtime, for the whole process, on request.

The runtime that compiled host functions link to is chosen when `cutlass` is
imported, so this is a property of the process: call `activate` first. A process
that never calls it runs on CUDA as if Sidestream were not installed.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sidestream.harness.dsl.build import build_runtime
from sidestream.harness.dsl.chip import DEFAULT_SMS, Chip, chip
from sidestream.harness.dsl.compile_log import CompileLog
from sidestream.harness.dsl.source_lines import ask_for_lines
from sidestream.harness.errors import ContractError, UnsupportedError, UsageError

LAUNCH_FAILURE = 719
"""`cudaErrorLaunchFailure`: what a launch gives whose callback raised."""
NOT_SUPPORTED = 801
"""`cudaErrorNotSupported`: what the runtime answers to a call without a model."""


class RawLaunch(ctypes.Structure):
    """`ss_launch` of runtime.h."""

    _fields_ = (
        ("kernel", ctypes.c_char_p),
        ("image", ctypes.c_void_p),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("dynamic_smem", ctypes.c_uint64),
        ("stream", ctypes.c_uint64),
        ("params", ctypes.POINTER(ctypes.c_void_p)),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint32),
        ("max_dynamic_smem", ctypes.c_int32),
        ("nonportable_cluster", ctypes.c_int32),
    )


LAUNCH_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(RawLaunch))
KERNEL_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int)
)
BLOCK_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_uint64)


DEVICE_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)


class Devices(Protocol):
    """The devices of a process and which one each thread has."""

    devices: int

    def device(self) -> int:
        """Return the calling thread's current device."""

    def set_device(self, device: int) -> None:
        """Make a device the calling thread's."""


class Runtime:
    """The loaded replacement runtime: one a process, as the C state is global."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lib = ctypes.CDLL(str(path))
        self._lib.sidestream_callbacks.argtypes = [
            LAUNCH_CALLBACK,
            KERNEL_CALLBACK,
            BLOCK_CALLBACK,
        ]
        self._lib.sidestream_callbacks.restype = None
        self._lib.sidestream_take_note.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        self._lib._cudaLibraryUnload.argtypes = [ctypes.c_void_p]
        self._lib.sidestream_dlpack.argtypes = [ctypes.c_void_p]
        self._lib.sidestream_dlpack.restype = ctypes.c_void_p
        self._lib.sidestream_devices.argtypes = [ctypes.c_int, DEVICE_CALLBACK]
        self._lib.sidestream_devices.restype = None
        self.device_count = 1
        self._lib.sidestream_stream.argtypes = [ctypes.c_int32, ctypes.c_uint64]
        self._lib.sidestream_stream.restype = None
        self._lib.sidestream_device_ranges.argtypes = [
            ctypes.c_void_p,
            ctypes.c_size_t,
        ]

    def callbacks(self, launch: Any, kernel: Any, block: Any) -> None:
        """Install the ctypes callbacks; the caller keeps them alive."""
        self._lib.sidestream_callbacks(launch, kernel, block)

    def describe(self, target: Chip) -> None:
        """Answer device attribute queries from `target` from now on."""
        for attribute, value in target.attributes().items():
            self._lib.sidestream_attribute(attribute, value)

    def device_ranges(self, ranges: Sequence[tuple[int, int, int]]) -> None:
        """Let DLPack call host addresses (start, end) memory of a CUDA device.

        Args:
            ranges: Start, end and the index of the device.
        """
        flat = [number for entry in ranges for number in entry]
        bounds = (ctypes.c_uint64 * len(flat))(*flat)
        if self._lib.sidestream_device_ranges(bounds, len(ranges)):
            raise MemoryError("the list of device ranges does not fit")

    def show_devices(self, devices: Devices | None) -> None:
        """Let host functions see and choose among several devices; None for one."""

        def choose(device: int) -> int:
            if devices is not None and device < 0:
                return devices.device()
            if devices is not None:
                devices.set_device(device)
            return 0

        self.device_count = 1 if devices is None else devices.devices
        several = self.device_count > 1
        self._on_device = DEVICE_CALLBACK(choose) if several else DEVICE_CALLBACK()
        self._lib.sidestream_devices(self.device_count, self._on_device)

    def current_stream(self, device: int, handle: int) -> None:
        """Set the stream of a device that DLPack consumers find on this thread."""
        self._lib.sidestream_stream(device, handle)

    def dlpack_table(self, original: int) -> int:
        """Return the DLPack exchange table that stands in for `original`."""
        return int(self._lib.sidestream_dlpack(original))

    def take_note(self) -> tuple[int, str]:
        """Return and clear this thread's failure: a cudaError code and its reason."""
        text = ctypes.create_string_buffer(512)
        code = int(self._lib.sidestream_take_note(text, len(text)))
        return code, text.value.decode(errors="replace")

    def unload(self, library: int) -> None:
        """Drop a library handle; its kernels can no longer be launched."""
        self._lib._cudaLibraryUnload(library)


@dataclass(kw_only=True)
class Activation:
    """The virtual device of this process."""

    arch: str
    chip: Chip
    runtime: Runtime
    line_info: bool
    compiles: CompileLog = field(default_factory=CompileLog)
    _raised: dict[int, BaseException] = field(default_factory=dict)

    def keep_raised(self, error: BaseException) -> None:
        """Keep what a callback raised until native code has returned."""
        self._raised.setdefault(threading.get_ident(), error)

    def forget_raised(self) -> None:
        """Drop what an earlier call of this thread left behind."""
        self._raised.pop(threading.get_ident(), None)
        self.runtime.take_note()

    def surface(self, native: BaseException | None = None) -> None:
        """Raise what went wrong below native code on this thread, if anything did.

        Args:
            native: The error native code reported for it, which becomes the cause.

        Raises:
            BaseException: the callback's own exception, unchanged.
            UnsupportedError: for a runtime call that has no model.
            ContractError: for a call that CUDA refuses.
        """
        code, note = self.runtime.take_note()
        raised = self._raised.pop(threading.get_ident(), None)
        if raised is not None:
            raise raised
        if code == NOT_SUPPORTED:
            raise UnsupportedError(note) from native
        if code:
            raise ContractError(f"{note} (cudaError {code})") from native

    def show_sms(self, sms: int) -> None:
        """Tell host programs of another SM count from now on."""
        self.chip = self.chip.with_sms(sms)
        self.runtime.describe(self.chip)


_active: Activation | None = None


def active() -> Activation:
    """Return the activation of this process.

    Raises:
        UsageError: if `activate` was not called.
    """
    if _active is None:
        raise UsageError(
            "no virtual device: call sidestream's activate(arch=...) first"
        )
    return _active


def activate(*, arch: str, sms: int = DEFAULT_SMS) -> Activation:
    """Make this process compile for `arch` and launch on the virtual device.

    Sets `CUTE_DSL_ARCH` and `CUTE_DSL_LIBS` and imports `cutlass`. If `cutlass` was
    imported before, its runtime and architecture are replaced, provided that the
    architecture was not fixed to another one. Calling again with the same `arch`
    only changes the SM count.

    Args:
        arch: `sm_90a`, `sm_100a` or `sm_120a`.
        sms: SM count shown to host programs.

    Raises:
        UsageError: for an unknown `arch`, or if the process is already bound to
            another one.
        UnsupportedError: if nvidia-cutlass-dsl is not installed.
        BuildError: if the capture library cannot be built.
    """
    global _active
    target = chip(arch).with_sms(sms)
    if _active is not None:
        if _active.arch != arch:
            raise UsageError(
                f"this process is bound to {_active.arch}; run {arch} in another one"
            )
        _active.show_sms(sms)
        return _active
    imported = "cutlass" in sys.modules
    fixed = os.environ.get("CUTE_DSL_ARCH")
    if imported and fixed not in (None, arch):
        raise UsageError(
            f"cutlass was imported with CUTE_DSL_ARCH={fixed} before the virtual "
            f"device was activated for {arch}; activate first, or use one target"
        )
    runtime = Runtime(build_runtime())
    runtime.describe(target)
    os.environ["CUTE_DSL_ARCH"] = arch
    os.environ["CUTE_DSL_LIBS"] = str(runtime.path)
    # A function loaded from the DSL's disk cache would come without its PTX.
    os.environ["CUTE_DSL_DISABLE_FILE_CACHING"] = "1"
    # Findings name the kernel's Python lines through `.loc`.
    line_info = ask_for_lines()
    try:
        import cutlass  # noqa: F401  (the import itself is what is wanted)
    except ImportError as error:
        raise UnsupportedError(
            "nvidia-cutlass-dsl is not installed: pip install 'nvidia-cutlass-dsl>=4.8'"
        ) from error
    activation = Activation(
        arch=arch,
        chip=target,
        runtime=runtime,
        line_info=line_info,
    )
    from sidestream.harness.dsl import dsl_patches

    dsl_patches.apply(activation)
    _active = activation
    return activation
