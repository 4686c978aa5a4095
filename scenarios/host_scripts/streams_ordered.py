"""Two streams that wait for each other: a pipeline as it should be."""

import torch

x = torch.randn(1000, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
x.record_stream(side)
with torch.cuda.stream(side):
    y = x * 2
torch.cuda.current_stream().wait_stream(side)
y.record_stream(torch.cuda.current_stream())
z = y + 1
torch.cuda.synchronize()
assert torch.equal(z.cpu(), x.cpu() * 2 + 1)
