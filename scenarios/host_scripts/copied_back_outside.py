"""The output is copied back into the caller's layout outside of the launch's stream.

NVIDIA/cudnn-frontend#614. `buggy` copies on the current stream.
"""

import sys
from contextlib import nullcontext

import torch

buggy = sys.argv[1:] == ["buggy"]
launch = torch.cuda.Stream()
padded = torch.zeros(16, 64, device="cuda")[:, :48]
q = torch.ones(16, 48, device="cuda")
launch.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(launch):
    compact = q * 4
with nullcontext() if buggy else torch.cuda.stream(launch):
    padded.copy_(compact)
launch.synchronize()
torch.cuda.synchronize()
assert buggy or float(padded.sum()) == 16 * 48 * 4, padded
