"""Stream-ordered memory: `cudaMallocAsync` and `cudaFreeAsync`.

Rules: CUDA Programming Guide, "Stream Ordered Memory Allocator". Memory may be used
only by what comes after its allocation and before its free, in the order of streams.
Both count as writes of the whole memory, so that any other use races with them.
"""

from __future__ import annotations

from sidestream.harness.runtime.blocks import rounded
from sidestream.harness.runtime.cuda_error import CudaError
from sidestream.harness.runtime.op import CallSite, here
from sidestream.harness.runtime.reuse import ReuseCalls
from sidestream.harness.runtime.spans import Span
from sidestream.harness.runtime.streams import Stream


class StreamMemoryCalls(ReuseCalls):
    """Memory that is allocated and freed as operations of a stream."""

    def malloc_async(
        self, size: int, stream: Stream, *, site: CallSite | None = None
    ) -> int:
        """Allocate memory in the order of a stream and return its address.

        Memory freed on the same stream comes again; that of other streams does not,
        since a program cannot count on the driver to order it.
        """
        site, need = site or here(), rounded(size)
        with self.lock:
            freed = self._freed_async.setdefault((stream, need), [])
            address = freed.pop() if freed else self._reserve(need, stream.device)
            self._async[address] = need
            self._begin_tenancy(address, need, str(stream), site)
            self.enqueue(
                kind="free",
                label="cudaMallocAsync",
                stream=stream,
                writes=[Span(address, need)],
                site=site,
            )
            return address

    def free_async(
        self, address: int, stream: Stream, *, site: CallSite | None = None
    ) -> None:
        """Free memory in the order of a stream.

        Raises:
            CudaError: cudaErrorInvalidValue for what `malloc_async` did not give.
        """
        site = site or here()
        with self.lock:
            if address not in self._async:
                raise CudaError(
                    "cudaErrorInvalidValue", f"{address:#x} is not allocated"
                )
            size = self._async.pop(address)
            self.enqueue(
                kind="free",
                label="cudaFreeAsync",
                stream=stream,
                writes=[Span(address, size)],
                site=site,
            )
            self._end_tenancy(address, site)
            self._freed_async.setdefault((stream, size), []).append(address)
