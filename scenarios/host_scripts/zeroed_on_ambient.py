"""An accumulator is zeroed on the current stream and added to on the call's stream.

NVIDIA/cudnn-frontend#429. `buggy` leaves the fill outside of the call's stream.
"""

import sys
from contextlib import nullcontext

import torch

buggy = sys.argv[1:] == ["buggy"]
launch = torch.cuda.Stream()
values = torch.ones(1000, device="cuda")
total = torch.empty(1000, device="cuda")
launch.wait_stream(torch.cuda.current_stream())
with nullcontext() if buggy else torch.cuda.stream(launch):
    total.zero_()
with torch.cuda.stream(launch):
    total.add_(values)
launch.synchronize()
torch.cuda.synchronize()
assert buggy or float(total.sum()) == 1000, total
