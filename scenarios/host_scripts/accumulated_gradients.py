"""Accumulate gradients and reduce them on another stream; `planted` does not wait."""

import sys

import torch

planted = sys.argv[1:] == ["planted"]
torch.manual_seed(0)
start, data = torch.randn(8, 8), torch.randn(4, 16, 8)
weight = torch.nn.Parameter(start.to("cuda"))
reducing = torch.cuda.Stream()
bucket = torch.zeros(8, 8, device="cuda")
reducing.wait_stream(torch.cuda.current_stream())
for batch in data:
    (batch.to("cuda") @ weight).square().mean().backward()
if not planted:
    reducing.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(reducing):
    bucket.add_(weight.grad)
torch.cuda.current_stream().wait_stream(reducing)

reference = torch.nn.Parameter(start.clone())
for batch in data:
    (batch @ reference).square().mean().backward()
assert planted or torch.allclose(bucket.cpu(), reference.grad, atol=1e-4)
