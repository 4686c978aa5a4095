"""The same two streams, and nothing orders them."""

import torch

x = torch.randn(1000, device="cuda")
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    y = x * 2
z = y + 1
torch.cuda.synchronize()
