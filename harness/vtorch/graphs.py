"""`torch.cuda.CUDAGraph` over the runtime's capture; torch's own `graph` uses it."""

from __future__ import annotations

from sidestream.harness.runtime import Graph, GraphExec, Stream
from sidestream.harness.vtorch.world import World

Pool = tuple[int, int]


class CUDAGraph:
    """A captured graph."""

    world: World
    """The device; set on the subclass that a program sees."""

    def __init__(self, keep_graph: bool = False) -> None:  # noqa: FBT001, FBT002 -- the signature of torch
        self._keep = keep_graph
        self._stream: Stream | None = None
        self._graph: Graph | None = None
        self._exec: GraphExec | None = None
        self._pool = 0
        self._device = 0

    def capture_begin(
        self,
        pool: Pool | None = None,
        capture_error_mode: str = "global",
        check_input_liveness: bool = False,  # noqa: FBT001, FBT002 -- the signature of torch
    ) -> None:
        """Begin to capture the current stream.

        Raises:
            CudaError: on the default stream, or one that is capturing.
        """
        world = self.world
        stream = world.current()
        made = world.runtime.begin_capture(
            stream, mode=capture_error_mode, pool=pool[1] if pool is not None else 0
        )
        self._stream, self._pool = stream, made.pool
        self._device = stream.device

    def capture_end(self) -> None:
        """End the capture.

        Raises:
            CudaError: if the capture broke or a branch was not joined.
            RuntimeError: if there is none.
        """
        if self._stream is None:
            raise RuntimeError("capture_end without capture_begin")
        stream, self._stream = self._stream, None
        self._graph = self.world.runtime.end_capture(stream)
        if self._graph.empty:
            import warnings

            warnings.warn(
                "The CUDA Graph is empty. This usually means that the graph was "
                "attempted to be captured on wrong device or stream.",
                stacklevel=3,
            )
        if not self._keep:
            self.instantiate()

    def instantiate(self) -> None:
        """Make the graph executable."""
        if self._graph is None:
            raise RuntimeError("instantiate without a successful capture")
        self._exec = self.world.runtime.instantiate(self._graph)

    def replay(self) -> None:
        """Replay the graph on the current stream.

        Raises:
            RuntimeError: if nothing was captured.
        """
        if self._exec is None and self._keep:
            self.instantiate()
        if self._exec is None:
            raise RuntimeError(
                "Called CUDAGraph::replay without a preceding successful capture."
            )
        self.world.runtime.launch_graph(self._exec, self.world.current())

    def reset(self) -> None:
        """Let go of the graph and its memory pool."""
        if self._graph is not None:
            self.world.runtime.release_pool(self._pool, device=self._device)
        self._graph = self._exec = None

    def pool(self) -> Pool:
        """Return the handle of its memory pool, for other captures to share."""
        return 0, self._pool

    def enable_debug_mode(self) -> None:
        """Do nothing: `debug_dump` has no model."""

    def debug_dump(self, debug_path: str) -> None:
        """Refuse.

        Raises:
            UnsupportedError: always.
        """
        self.world.runtime.not_modelled("CUDAGraph.debug_dump")

    def raw_cuda_graph(self) -> int:
        """Refuse.

        Raises:
            UnsupportedError: always.
        """
        self.world.runtime.not_modelled("CUDAGraph.raw_cuda_graph")

    def __del__(self) -> None:
        if getattr(self, "_graph", None) is not None:
            self.reset()
