"""A pinned staging buffer is filled again before its copy is done.

sgl-project/mini-sglang#103. `buggy` leaves out the wait for the copy's event.
"""

import sys

import torch

buggy = sys.argv[1:] == ["buggy"]
staging = torch.empty(4, dtype=torch.int32).pin_memory()
copied = torch.cuda.Event()
plans = []
for step in range(3):
    if step and not buggy:
        copied.synchronize()
    staging.copy_(torch.arange(4, dtype=torch.int32) + 10 * step)
    plans.append(staging.to("cuda", non_blocking=True))
    copied.record()
torch.cuda.synchronize()
firsts = [int(plan[0]) for plan in plans]
assert buggy or firsts == [0, 10, 20], firsts
