"""Scratch of the size that a package's query tells, for a launch that a graph replays.

vllm-project/flash-attention#162: the query and the launch decide apart whether the call
has lengths. `buggy` asks so.
"""

import sys

import torch

from sidestream.scenarios.host_packages.placed import Placed

package = Placed(asks_otherwise=sys.argv[1:] == ["buggy"])
call = {"batch": 3, "longest": 300}
size = package.semaphore_bytes(**call)
scratch = torch.zeros(size, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    package.signal(scratch, **call, stream=torch.cuda.current_stream())
graph.replay()
torch.cuda.synchronize()
assert size < 9 or int(scratch[8]) == 1, scratch
