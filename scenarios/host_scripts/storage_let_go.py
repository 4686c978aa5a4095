"""Storage is given back while a copy on another stream still reads it.

meta-pytorch/torchrec#4218, where it is resized to nothing. `buggy` leaves out
the wait for the copy's stream.
"""

import sys

import torch

buggy = sys.argv[1:] == ["buggy"]
offload = torch.cuda.Stream()
activations = torch.full((1000,), 3.0, device="cuda")
kept = torch.empty(1000).pin_memory()
offload.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(offload):
    kept.copy_(activations, non_blocking=True)
if not buggy:
    torch.cuda.current_stream().wait_stream(offload)
del activations
other = torch.zeros(1000, device="cuda")
torch.cuda.synchronize()
assert buggy or float(kept.sum()) == 3000, kept
