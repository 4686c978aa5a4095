"""Current devices and contexts of host threads.

CUDA Driver API, "Context Management": a call of the driver works on the calling
thread's current context, and a new thread has none. CUDA Runtime API, "Interactions
with the CUDA Driver API": a call of the runtime makes the primary context of the
thread's device the current one. NVIDIA/cudnn-frontend#626 is what comes of it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from sidestream.harness.runtime.cuda_error import CudaError
from sidestream.harness.runtime.op import CallSite, here
from sidestream.harness.runtime.runtime import Runtime

CONTEXT = 1
"""Handle of the primary context of device 0; that of device n is n more."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a call of the program's own code did to the current device.

    Attributes:
        before: The device before.
        after: The device that it left.
        site: Where the change was made last.
    """

    before: int
    after: int
    site: CallSite


class _Thread(threading.local):
    device = 0
    detached = False

    def __init__(self) -> None:
        self.pushed: list[int] = []


class Contexts:
    """Which device and which context each host thread has.

    Args:
        runtime: Threads that have called it, by torch or otherwise, have a context.
        devices: How many devices there are.
    """

    def __init__(self, runtime: Runtime, devices: int = 1) -> None:
        self.devices = devices
        self.changes: dict[int, Change] = {}
        """By number of a call of the program's own code."""
        self._runtime = runtime
        self._thread = _Thread()

    def device(self) -> int:
        """Return the calling thread's current device."""
        current = self.current()
        return self._thread.device if current is None else current

    def current(self) -> int | None:
        """Return the device of the calling thread's current context, or None."""
        thread = self._thread
        if thread.pushed:
            return thread.pushed[-1]
        attached = self._runtime.lock.used_here and not thread.detached
        return thread.device if attached else None

    def attach(self) -> None:
        """Take note of a call of the runtime: the primary context is current."""
        self._thread.detached = False
        self._runtime.lock.use_here()

    def need(self, call: str) -> None:
        """Refuse a call of the driver on a thread without a context.

        Raises:
            CudaError: cudaErrorDeviceUninitialized, CUDA_ERROR_INVALID_CONTEXT of the
                driver.
        """
        if self.current() is None:
            message = (
                f"{call} on a host thread that no context is current on, "
                "CUDA_ERROR_INVALID_CONTEXT of the driver"
            )
            self._runtime.refuse("cudaErrorDeviceUninitialized", message)
            error = CudaError("cudaErrorDeviceUninitialized", message)
            error.noted = True
            raise error

    def set_device(self, device: int) -> None:
        """Make a device the calling thread's: `cudaSetDevice`.

        Raises:
            CudaError: cudaErrorInvalidDevice.
        """
        if not 0 <= device < self.devices:
            raise CudaError("cudaErrorInvalidDevice", f"{device} of {self.devices}")
        self._choose(device)
        self.attach()

    def handle(self) -> int:
        """Return the handle of the current context, 0 without one."""
        current = self.current()
        return 0 if current is None else CONTEXT + current

    def set_current(self, handle: int) -> None:
        """Make a context current: `cuCtxSetCurrent`; 0 for none.

        Raises:
            CudaError: cudaErrorDeviceUninitialized for a handle that is no context.
        """
        self._thread.pushed.clear()
        self._thread.detached = handle == 0
        if handle:
            self._choose(self._of(handle))
            self.attach()

    def push(self, handle: int) -> None:
        """Make a context current until `pop`: `cuCtxPushCurrent`."""
        self._thread.pushed.append(self._of(handle))

    def pop(self) -> int:
        """Go back to the context before and return the handle of the one that was.

        Raises:
            CudaError: cudaErrorDeviceUninitialized where none was pushed.
        """
        if not self._thread.pushed:
            raise CudaError("cudaErrorDeviceUninitialized", "no context was pushed")
        return CONTEXT + self._thread.pushed.pop()

    def _of(self, handle: int) -> int:
        device = handle - CONTEXT
        if not 0 <= device < self.devices:
            message = f"{handle:#x} is no context"
            raise CudaError("cudaErrorDeviceUninitialized", message)
        return device

    def _choose(self, device: int) -> None:
        before, self._thread.device = self._thread.device, device
        if before == device:
            return
        site = here()
        if site.call:
            made = Change(before=before, after=device, site=site)
            known = self.changes.get(site.call)
            self.changes[site.call] = (
                replace(known, after=device, site=site) if known else made
            )
