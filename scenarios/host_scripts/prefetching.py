"""Fetch batches ahead through pinned memory; `planted` uses them without a wait."""

import sys

import torch

planted = sys.argv[1:] == ["planted"]
torch.manual_seed(0)
batches = [torch.randn(64, 16).pin_memory() for _ in range(6)]
weight = torch.randn(16, 4)
there = weight.to("cuda")
copying = torch.cuda.Stream()


def fetch(batch):
    """Start to copy a batch."""
    with torch.cuda.stream(copying):
        return batch.to("cuda", non_blocking=True)


total, ahead = torch.zeros(4, device="cuda"), fetch(batches[0])
for number in range(len(batches)):
    if not planted:
        torch.cuda.current_stream().wait_stream(copying)
    batch = ahead
    batch.record_stream(torch.cuda.current_stream())
    if number + 1 < len(batches):
        ahead = fetch(batches[number + 1])
    total += (batch @ there).sum(0)
expected = sum((batch @ weight).sum(0) for batch in batches)
assert planted or torch.allclose(total.cpu(), expected, atol=1e-3)
