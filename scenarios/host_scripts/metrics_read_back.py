"""Read metrics back a step late through two pinned buffers; `planted` does not wait."""

import sys

import torch

planted = sys.argv[1:] == ["planted"]
torch.manual_seed(0)
steps = torch.randn(6, 100)
buffers = [torch.empty(()).pin_memory() for _ in range(2)]
events = [torch.cuda.Event() for _ in range(2)]
seen = []
for number, values in enumerate(steps):
    if number >= 2:
        if not planted:
            events[number % 2].synchronize()
        seen.append(float(buffers[number % 2].clone()))
    mean = values.to("cuda", non_blocking=True).mean()
    buffers[number % 2].copy_(mean, non_blocking=True)
    events[number % 2].record()
torch.cuda.synchronize()
expected = [float(values.mean()) for values in steps[:4]]
close = torch.allclose(torch.tensor(seen), torch.tensor(expected), atol=1e-5)
assert planted or close
