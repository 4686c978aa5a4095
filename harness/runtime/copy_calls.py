"""Copies, and accesses of the host to memory that copies use."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sidestream.harness.runtime import copies
from sidestream.harness.runtime.clock import join
from sidestream.harness.runtime.cuda_error import CudaError
from sidestream.harness.runtime.host_memory import HostMemoryCalls
from sidestream.harness.runtime.op import CallSite, Op, Run, here
from sidestream.harness.runtime.spans import Span, merge
from sidestream.harness.runtime.streams import Stream


class CopyCalls(HostMemoryCalls):
    """What moves bytes between host and device, and what the host itself touches."""

    def copy(
        self,
        *,
        direction: str,
        reads: Sequence[Span],
        writes: Sequence[Span],
        stream: Stream,
        take: Callable[[], Run],
        blocking: bool = False,
        label: str = "",
        site: CallSite | None = None,
    ) -> Op | None:
        """Copy between host and device, or within one of them.

        Whether host memory is pinned is looked up by its address.

        Args:
            direction: `h2d`, `d2h`, `d2d` or `h2h`.
            reads: The source.
            writes: The destination.
            stream: Where the copy goes.
            take: Returns what does the copy. Called within this call where a pageable
                source is staged, so it must keep the bytes by then; else called when
                the copy lands.
            blocking: False is `cudaMemcpyAsync`, True `cudaMemcpy`. A blocking copy
                of torch is an asynchronous one and then a wait for the stream.
            label: What reports call it.
            site: Where host code asked for it.

        On a stream that is capturing the copy becomes a node like any other, which
        reads pageable memory when it is replayed; torch refuses to capture such a one.

        Raises:
            CudaError: as `enqueue`; cudaErrorStreamCaptureUnsupported for a blocking
                copy on a stream that is capturing.
        """
        site = site or here()
        label = label or f"copy {direction}"
        host = (reads if direction[0] == "h" else writes)[:1]
        with self.lock:
            block = self._pinned.at(host[0].start) if host else None
            pinned = block is not None
            if not pinned:
                # Pageable memory is read or complete within the call: nothing races
                # with it, and its addresses come and go unseen.
                reads = () if direction[0] == "h" else reads
                writes = () if direction[2] == "h" else writes
            rule = copies.rule(direction, pinned=pinned, blocking=blocking)
            captured = stream.capture is not None
            if blocking and captured:
                raise CudaError(
                    "cudaErrorStreamCaptureUnsupported",
                    f"{label} blocks on {stream}, which is capturing",
                )
            if rule.waits_before:
                clock, waits, until = self._work_of(stream)
                self._wait(label, str(stream), waits, until, site)
                join(self.order.host().clock, clock)
            if block is not None and direction != "d2d":
                block.uses[stream] = None
            if rule.staged and not captured:
                run = take()
            else:

                def run() -> None:
                    take()()

            op = self.enqueue(
                kind="copy",
                label=label,
                stream=stream,
                reads=reads,
                writes=writes,
                run=run,
                site=site,
            )
            if rule.waits and op is not None:
                self._wait(label, str(stream), (op.id,), stream.busy_until, site)
                join(self.order.host().clock, op.clock)
            return op

    def host_access(
        self,
        span: Span,
        *,
        write: bool,
        label: str = "",
        site: CallSite | None = None,
    ) -> None:
        """Tell that host code touches memory that the device may touch as well.

        Of interest is pinned and managed memory. Within an operation that lands (a
        host function) the access counts as that operation's.

        Args:
            span: The bytes.
            write: Whether it writes them.
            label: What reports call it; `host read` or `host write` if absent.
            site: Where.
        """
        reads, writes = ((), (span,)) if write else ((span,), ())
        label = label or ("host write" if write else "host read")
        with self.lock:
            if self._landing_op is not None:
                self._touch(self._landing_op, reads, writes)
            else:
                self._touch_by_host(reads, writes, label, site or here())

    def _touch_by_host(
        self, reads: Sequence[Span], writes: Sequence[Span], label: str, site: CallSite
    ) -> None:
        host = self.order.host()
        op = self._op(
            "host",
            label,
            host.agent,
            dict(host.clock),
            merge(reads),
            merge(writes),
            site=site,
            where=host.name,
        )
        self._touch(op, op.reads, op.writes)
