"""Metadata are made on the current stream, the kernel runs on the handle's.

NVIDIA/cudnn-frontend#543. `buggy` makes them outside of the handle's stream.
"""

import sys
from contextlib import nullcontext

import torch

buggy = sys.argv[1:] == ["buggy"]
handle = torch.cuda.Stream()
lengths = torch.tensor([100, 300, 200]).pin_memory()
with torch.cuda.stream(handle):
    q = torch.ones(600, device="cuda")
    out = torch.zeros(3, device="cuda")
with nullcontext() if buggy else torch.cuda.stream(handle):
    there = lengths.to("cuda", non_blocking=True)
    ends = there.cumsum(0)
with torch.cuda.stream(handle):  # the kernel
    sums = torch.nn.functional.pad(q.cumsum(0), (1, 0))
    torch.sub(sums.index_select(0, ends), 0, out=out)
handle.synchronize()
torch.cuda.synchronize()
assert buggy or out.tolist() == [100, 400, 600], out
