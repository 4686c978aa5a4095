"""A package wraps the handle of its caller's stream, which is the default one.

NVIDIA/cudnn-frontend#1165. Before torch 2.13 `ExternalStream(0)` is a new stream of the
pool, which nothing orders. `buggy` wraps every handle.
"""

import sys

import torch

buggy = sys.argv[1:] == ["buggy"]


def repacked(padded, handle):
    """Stand for the package: copy the rows in use on the stream of a handle."""
    if handle == 0 and not buggy:
        stream = torch.cuda.default_stream()
    else:
        stream = torch.cuda.ExternalStream(handle)
    with torch.cuda.stream(stream):
        return padded[:, :3].contiguous()


padded = torch.full((4, 8), 2.0, device="cuda")
out = repacked(padded, torch.cuda.current_stream().cuda_stream)
total = out.sum()
torch.cuda.synchronize()
assert buggy or float(total) == 24, total
