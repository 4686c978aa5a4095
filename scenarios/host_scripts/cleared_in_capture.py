"""A buffer that is made and cleared at the first use, which a capture records.

The graph clears it, and nothing else does: an eager call before the first replay counts
on from whatever lies there. `buggy` has its first use in the capture.
"""

import sys

import torch

buggy = sys.argv[1:] == ["buggy"]


class Counter:
    """Stands for a package with lazy scratch: counts its calls on the device."""

    def __init__(self):
        self.calls = None

    def step(self, x):
        """Return twice `x`."""
        if self.calls is None:
            self.calls = torch.zeros(1, dtype=torch.int64, device="cuda")
        self.calls += 1
        return x * 2


counter = Counter()
x = torch.ones(100, device="cuda")
if not buggy:
    counter.step(x)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = counter.step(x)
counter.step(x)
graph.replay()
torch.cuda.synchronize()
assert float(y[0]) == 2, y[0]
