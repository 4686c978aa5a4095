"""Calls on stream capture and graphs."""

from __future__ import annotations

from collections.abc import Hashable

from sidestream.harness.runtime import capture as captures
from sidestream.harness.runtime import graph as graphs
from sidestream.harness.runtime.capture import Capture
from sidestream.harness.runtime.cuda_error import CudaError
from sidestream.harness.runtime.graph import Graph, GraphExec
from sidestream.harness.runtime.op import CallSite, Op, here
from sidestream.harness.runtime.order import joined
from sidestream.harness.runtime.state import State
from sidestream.harness.runtime.streams import Stream


class GraphCalls(State):
    """Stream capture, instantiation and replay."""

    def begin_capture(
        self, stream: Stream, *, mode: str = "global", pool: int = 0
    ) -> Capture:
        """Start to capture a stream: its operations become nodes and do not run.

        Args:
            stream: Not the legacy default stream.
            mode: `global`, `thread_local` or `relaxed`: whose unsafe calls break it.
            pool: Private memory pool for allocations, from `graph_pool`; 0 makes one.

        Raises:
            CudaError: cudaErrorStreamCaptureUnsupported, cudaErrorIllegalState.
        """
        with self.lock:
            made = captures.begin(stream, mode, self.order.host().agent)
            made.pool = self._begin_pool(made, pool)
            self._captures.append(made)
            return made

    def end_capture(self, stream: Stream, *, site: CallSite | None = None) -> Graph:
        """End the capture that began on a stream and return what it captured.

        Raises:
            CudaError: cudaErrorStreamCaptureUnjoined, ...Unmatched, ...WrongThread,
                ...Invalidated; the capture is over all the same.
        """
        with self.lock:
            capture = stream.capture
            try:
                ended = captures.end(stream, self.order.host().agent)
            except CudaError:
                if capture is not None and stream.capture is None:
                    self._drop_pool(capture)
                raise
            finally:
                if capture is not None and stream.capture is None:
                    self._captures.remove(capture)
            graph = graphs.made(ended, site or here())
            if graph.empty:
                self.empty_graphs.append(graph.site)
            return graph

    def capturing(self, stream: Stream) -> str:
        """Return `none`, `active` or `invalidated`, as `cudaStreamIsCapturing` does.

        Raises:
            CudaError: cudaErrorStreamCaptureImplicit for the legacy default stream
                while a blocking stream is captured.
        """
        with self.lock:
            if stream.legacy:
                for other in self.streams.on(stream.device):
                    if other.blocking and other.capture is not None:
                        raise CudaError(
                            "cudaErrorStreamCaptureImplicit",
                            f"{stream} orders {other}, which is capturing",
                        )
            if stream.capture is None:
                return "none"
            return "invalidated" if stream.capture.broken else "active"

    def position(self, stream: Stream) -> Hashable:
        """Return where a stream stands: equal as long as nothing is called on it."""
        with self.lock:
            if stream.capture is None:
                return stream.tail
            return stream.capture.id, stream.capture.tips[stream]

    def instantiate(self, graph: Graph) -> GraphExec:
        """Make a graph executable."""
        with self.lock:
            return GraphExec(
                id=next(self._ids),
                graph=graph,
                agents=[next(self.order.agents) for _ in range(graph.lanes)],
            )

    def update_graph(self, exec: GraphExec, graph: Graph) -> None:
        """Replace the operations of an executable graph by others of the same shape.

        Raises:
            CudaError: cudaErrorGraphExecUpdateFailure.
        """
        with self.lock:
            graphs.update(exec, graph)

    def launch_graph(
        self, exec: GraphExec, stream: Stream, *, site: CallSite | None = None
    ) -> None:
        """Replay a graph on a stream: all of it after the stream's work so far.

        Reports name where an operation was captured.

        Raises:
            CudaError: as `enqueue`; cudaErrorStreamCaptureUnsupported on a stream that
                is capturing.
        """
        site = site or here()
        with self.lock:
            self._not_in_host_function("cudaGraphLaunch")
            if stream.capture is not None:
                captures.check(stream.capture)
                stream.capture.broken = f"a graph is launched on {stream}"
                raise CudaError(
                    "cudaErrorStreamCaptureUnsupported",
                    f"a graph is launched on {stream}, which is capturing",
                )
            exec.launches += 1
            host = self.order.host()
            base, waits, begin = self._before(stream, host)
            base = joined((base, exec.clock))
            waits |= set(exec.tails)
            made: list[Op] = []
            ends: list[float] = []
            for node in exec.graph.nodes:
                parents = [made[index] for index in node.after]
                clock = joined([base, *(p.clock for p in parents)])
                op = self._op(
                    node.kind,
                    node.label,
                    exec.agents[node.lane],
                    clock,
                    node.reads,
                    node.writes,
                    site=node.site,
                    stream=stream,
                    where=f"graph {exec.graph.id} branch {node.lane} on {stream}",
                    seconds=node.seconds,
                    graph=exec.graph.id,
                    called=node.called,
                )
                start = max([begin, *(ends[index] for index in node.after)])
                ends.append(start + node.seconds)
                made.append(op)
                self._add(op, node.run, {p.id for p in parents} or waits)
            leaves = [made[index] for index in exec.graph.leaves]
            last = self._issue(
                "graph",
                f"graph {exec.graph.id}" + (" (empty)" if exec.graph.empty else ""),
                stream,
                site=site,
                clocks=[base, *(op.clock for op in leaves)],
                after=waits | {op.id for op in leaves},
                start=max(ends, default=begin),
            )
            exec.clock, exec.tails = dict(last.clock), (last.id,)

    def graph_pool(self) -> int:
        """Return a number for a private memory pool that several captures share."""
        with self.lock:
            return next(self._ids)

    def _begin_pool(self, capture: Capture, pool: int) -> int:
        """Let allocations on the captured streams come from a private pool."""
        raise NotImplementedError

    def _drop_pool(self, capture: Capture) -> None:
        """Let go of the pool of a capture that failed."""
        raise NotImplementedError
