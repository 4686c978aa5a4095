"""Hand memory on through DLPack and numpy; `planted` lets numpy look too early."""

import sys

import numpy as np
import torch

planted = sys.argv[1:] == ["planted"]
array = np.arange(24, dtype=np.float32).reshape(4, 6)
there = torch.from_numpy(array).to("cuda")
shared = torch.from_dlpack(there[1:])
assert shared.is_cuda
assert shared.data_ptr() == there[1].data_ptr()
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
result = torch.empty(3, 6, pin_memory=True)
with torch.cuda.stream(side):
    shared.mul_(3)
    result.copy_(there[1:] + 1, non_blocking=True)
if not planted:
    side.synchronize()
seen = result.numpy().copy()
torch.cuda.synchronize()
assert planted or np.array_equal(seen, array[1:] * 3 + 1)
assert planted or np.array_equal(there.cpu().numpy()[0], array[0])
