"""Graphs: captured operations, replayed as often as they are launched.

Rules: CUDA Programming Guide, "CUDA Graphs"; CUDA Runtime API, `cudaGraphLaunch`: an
executable graph runs once at a time, later launches of it wait for earlier ones.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from sidestream.harness.runtime.capture import Capture, Node
from sidestream.harness.runtime.cuda_error import CudaError
from sidestream.harness.runtime.op import CallSite

_numbers = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Operations and what waits for what.

    Attributes:
        id: Its number.
        device: Device of the stream it was captured on.
        nodes: Its operations; a node comes after those it waits for.
        lanes: How many branches there are.
        pool: Private memory pool of the capture, or 0.
        site: Where the capture ended.
    """

    id: int
    device: int
    nodes: tuple[Node, ...]
    lanes: int
    pool: int
    site: CallSite

    @property
    def empty(self) -> bool:
        """Whether nothing was captured: replays do nothing."""
        return not self.nodes

    @property
    def leaves(self) -> tuple[int, ...]:
        """Nodes that no other waits for."""
        waited = frozenset[int]().union(*(n.after for n in self.nodes))
        return tuple(n.index for n in self.nodes if n.index not in waited)


@dataclass(eq=False, kw_only=True)
class GraphExec:
    """An executable graph.

    Attributes:
        id: Its number.
        graph: What it replays.
        agents: Numbers in clocks, one for each branch.
        clock: What happened before the next launch because of the last one.
        tails: Operations of the last launch that the next one waits for.
        launches: How often it was launched.
    """

    id: int
    graph: Graph
    agents: list[int]
    clock: dict[int, int] = field(default_factory=dict, repr=False)
    tails: tuple[int, ...] = ()
    launches: int = 0


def made(capture: Capture, site: CallSite) -> Graph:
    """Return the graph of a capture that has ended."""
    return Graph(
        id=next(_numbers),
        device=capture.origin.device,
        nodes=tuple(capture.nodes),
        lanes=len(capture.lanes),
        pool=capture.pool,
        site=site,
    )


def update(exec: GraphExec, graph: Graph) -> None:
    """Replace the operations of an executable graph, as `cudaGraphExecUpdate` does.

    Raises:
        CudaError: cudaErrorGraphExecUpdateFailure where number, kinds or
            dependencies of the nodes differ.
    """
    shapes = [[(n.kind, n.after, n.lane) for n in g.nodes] for g in (exec.graph, graph)]
    if shapes[0] != shapes[1]:
        raise CudaError(
            "cudaErrorGraphExecUpdateFailure",
            "the graphs differ in their nodes or edges",
        )
    exec.graph = graph
