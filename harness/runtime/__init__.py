"""The virtual CUDA runtime: streams, events, copies, memory and graphs as data.

Operations are called in the order of the host program and land late, by a policy that
can be replayed. Vector clocks say what orders them; two that touch the same bytes with
nothing between are a race. Knows nothing of torch.
"""

from sidestream.harness.runtime.blocks import Block
from sidestream.harness.runtime.capture import Capture
from sidestream.harness.runtime.cuda_error import CudaError
from sidestream.harness.runtime.events import Event
from sidestream.harness.runtime.graph import Graph, GraphExec
from sidestream.harness.runtime.landing import Landing
from sidestream.harness.runtime.op import CallSite, Effects, Op, here
from sidestream.harness.runtime.pinned import HostBlock
from sidestream.harness.runtime.races import Race
from sidestream.harness.runtime.runtime import Runtime
from sidestream.harness.runtime.spans import Span, merge, strided
from sidestream.harness.runtime.state import HostWait
from sidestream.harness.runtime.streams import Stream
from sidestream.harness.runtime.threads import ThreadEdges

__all__ = [
    "Block",
    "CallSite",
    "Capture",
    "CudaError",
    "Effects",
    "Event",
    "Graph",
    "GraphExec",
    "HostBlock",
    "HostWait",
    "Landing",
    "Op",
    "Race",
    "Runtime",
    "Span",
    "Stream",
    "ThreadEdges",
    "here",
    "merge",
    "strided",
]
