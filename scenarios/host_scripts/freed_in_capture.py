"""A finalizer frees device memory while another plan is being captured.

NVIDIA/cudnn-frontend#1151. `buggy` lets the garbage collector do so.
"""

import gc
import sys

import torch
from cuda.bindings import driver

buggy = sys.argv[1:] == ["buggy"]
statuses = []


class Plan:
    """Owns memory of the driver, in a cycle of references."""

    def __init__(self):
        self.memory = driver.cuMemAlloc(1 << 20)[1]
        self.cycle = self

    def __del__(self):
        statuses.append(driver.cuMemFree(self.memory)[0])


gc.disable()
values = torch.ones(100, device="cuda")
Plan()
torch.cuda.synchronize()
if not buggy:
    gc.collect()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    doubled = values * 2
    if buggy:
        gc.collect()
graph.replay()
torch.cuda.synchronize()
assert float(doubled.sum()) == 200, doubled
assert statuses == [driver.CUresult.CUDA_SUCCESS], statuses
