"""A pinned result of an asynchronous copy is read without a wait for it.

vllm-project/vllm#36013. `buggy` leaves out the wait.
"""

import sys

import torch

buggy = sys.argv[1:] == ["buggy"]
counts = torch.arange(8, device="cuda") * 3
result = torch.empty(8, dtype=torch.int64).pin_memory()
result.copy_(counts, non_blocking=True)
copied = torch.cuda.Event()
copied.record()
if not buggy:
    copied.synchronize()
total = result.sum()
assert buggy or int(total) == 84, total
