"""Reductions, indices and masks over two streams; `planted` counts too early."""

import sys

import torch

planted = sys.argv[1:] == ["planted"]
torch.manual_seed(0)
scores = torch.randn(64, 10)
labels = torch.randint(10, (64,))


def work(scores, labels, wait):
    """Return how many of each label are right, their scores, and the best rows."""
    best = scores.argmax(1)
    wait()
    with torch.cuda.stream(side if scores.is_cuda else None):
        right = best == labels
        counts = torch.zeros(10, dtype=torch.long, device=scores.device)
        counts.index_add_(0, labels, right.long())
        chosen = scores[right]
        rows = torch.where(scores > 0, scores, 0).sum(1).topk(5).indices
        scores[rows, 0] = -1
        scores[scores < -1] = 0
        scores.scatter_(1, best[:, None], 9)
        result = [counts, chosen, rows, scores.cumsum(0), scores.std(1)]
        return [value.cpu() for value in result]


side = torch.cuda.Stream()
there, kinds = scores.to("cuda"), labels.to("cuda")
seen = work(
    there,
    kinds,
    lambda: planted or side.wait_stream(torch.cuda.current_stream()),
)
torch.cuda.synchronize()
expected = work(scores, labels, lambda: None)
close = [
    a.shape == b.shape and torch.allclose(a, b, atol=1e-4)
    for a, b in zip(seen, expected, strict=True)
]
assert planted or all(close)
