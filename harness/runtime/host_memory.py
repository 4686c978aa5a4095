"""Calls on pinned memory: torch's cache for it, and memory pinned where it lies."""

from __future__ import annotations

from sidestream.harness.runtime.op import CallSite, here
from sidestream.harness.runtime.pinned import HOST, HostBlock, PinnedMemory
from sidestream.harness.runtime.reuse import ReuseCalls
from sidestream.harness.runtime.spans import Span


class HostMemoryCalls(ReuseCalls):
    """Memory of the host that copies read and write as they land."""

    _pinned: PinnedMemory

    def malloc_host(
        self, size: int, *, call: str = "", site: CallSite | None = None
    ) -> HostBlock:
        """Allocate pinned host memory from torch's caching host allocator.

        Args:
            size: Bytes.
            call: What the program asks the driver with, where it does so itself.
            site: Where.
        """
        with self.lock:
            misses, site = self._pinned.misses, site or here()
            block = self._pinned.malloc(size, capturing=len(self._captures))
            if call:
                self.reservations.asked(call, size, site)
            elif self._pinned.misses > misses:
                self.reservations.missed("cudaHostAlloc", size, site, cache=HOST)
            self._begin_tenancy(block.address, block.size, "host", site)
            return block

    def free_host(self, block: HostBlock, *, site: CallSite | None = None) -> None:
        """Free pinned host memory; it is reused after the copies that use it."""
        site = site or here()

        def work() -> None:
            self._end_tenancy(block.address, site)
            self._pinned.free(block, capturing=len(self._captures))

        self.lock.at_the_end(work)

    def empty_host_cache(self, *, site: CallSite | None = None) -> None:
        """Give unused pinned memory back to the driver: `torch._C._host_emptyCache`."""
        with self.lock:
            size = 0
            for block in self._pinned.empty():
                self.shadow.forget(Span(block.address, block.size))
                size += block.size
            self.reservations.emptied(size, site or here(), cache=HOST)

    def register_host(self, address: int, size: int) -> HostBlock:
        """Pin host memory where it lies: `cudaHostRegister`."""
        with self.lock:
            self.reservations.asked("cudaHostRegister", size, here())
            return self._pinned.register(address, size)

    def unregister_host(self, address: int) -> None:
        """Undo `register_host`.

        Raises:
            CudaError: cudaErrorInvalidValue.
        """
        with self.lock:
            block = self._pinned.unregister(address)
            self.shadow.forget(Span(block.address, block.size))

    def pinned_at(self, address: int) -> HostBlock | None:
        """Return the pinned block that holds a host address, or None."""
        with self.lock:
            return self._pinned.at(address)
