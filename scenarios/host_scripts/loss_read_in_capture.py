"""A loss is folded on the host, which no capture can hold.

NVIDIA/cudnn-frontend#354. `buggy` calls item() where the value is on the device.
"""

import sys

import torch

buggy = sys.argv[1:] == ["buggy"]
gradient = torch.full((), 0.5, device="cuda")
scores = torch.ones(100, device="cuda")
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    scaled = scores * (float(gradient.item()) if buggy else gradient)
graph.replay()
torch.cuda.synchronize()
assert float(scaled.sum()) == 50, scaled
