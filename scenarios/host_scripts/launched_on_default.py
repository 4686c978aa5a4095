"""A call without a stream goes to the default one while torch is on a side stream.

NVIDIA/cudnn-frontend#483. `buggy` launches there.
"""

import sys

import torch

buggy = sys.argv[1:] == ["buggy"]
side = torch.cuda.Stream()


def wrapper(q, stream):
    """Stand for the package: launches on the stream it is given, or on the default."""
    with torch.cuda.stream(stream or torch.cuda.default_stream()):
        return q * 2


with torch.cuda.stream(side):
    for _ in range(2):
        q = torch.full((1000,), 3.0, device="cuda")
        out = wrapper(q, None if buggy else side)
        q.record_stream(torch.cuda.default_stream())
torch.cuda.synchronize()
assert buggy or float(out.sum()) == 6000, out
