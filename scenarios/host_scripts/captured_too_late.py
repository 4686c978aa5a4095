"""What a graph captures is on another stream than the one that is captured.

pytorch/helion#2817: the graph is empty and replays do nothing. `buggy` keeps the stream
of the warm-up.
"""

import sys

import torch

buggy = sys.argv[1:] == ["buggy"]
source = torch.ones(100, device="cuda")
target = torch.zeros(100, device="cuda")
warm = torch.cuda.Stream()
warm.wait_stream(torch.cuda.current_stream())


def step(stream):
    """Double the source on a stream."""
    with torch.cuda.stream(stream):
        torch.mul(source, 2, out=target)


step(warm)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step(warm if buggy else torch.cuda.current_stream())
torch.cuda.synchronize()
source.fill_(5)
target.fill_(0)
graph.replay()
torch.cuda.synchronize()
assert float(target[0]) == 10, target[0]
