"""Change views of one tensor on two streams; `planted` lets two of them meet."""

import sys

import torch

planted = sys.argv[1:] == ["planted"]
torch.manual_seed(0)
start = torch.randn(8, 6)
left, right = torch.cuda.Stream(), torch.cuda.Stream()


def work(base, enter):
    """Halves side by side, then a row across both."""
    with enter(left):
        base[:, :3].mul_(2).add_(1)
        base[::2, 0].zero_()
    with enter(right):
        base[:, 3:].t().clamp_(min=0)
        base[:, 5].copy_(base[:, 4])
    if base.is_cuda and not planted:
        left.wait_stream(right)
    with enter(left):
        base[3].neg_()
        base.view(-1)[::7] = 5
        base.diagonal().sub_(1)


class Nowhere:
    """Stands in for a stream on the host."""

    def __init__(self, stream):
        pass

    def __enter__(self):
        pass

    def __exit__(self, *error):
        pass


expected = start.clone()
work(expected, Nowhere)
there = start.to("cuda")
for stream in (left, right):
    stream.wait_stream(torch.cuda.current_stream())
work(there, torch.cuda.stream)
for stream in (left, right):
    torch.cuda.current_stream().wait_stream(stream)
assert planted or torch.equal(there.cpu(), expected)
