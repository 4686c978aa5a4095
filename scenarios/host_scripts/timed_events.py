"""Time a product between two events; `planted` reads it from another stream."""

import sys

import torch

planted = sys.argv[1:] == ["planted"]
torch.manual_seed(0)
a, b = torch.randn(48, 48), torch.randn(48, 48)
timed, reading = torch.cuda.Stream(priority=-1), torch.cuda.Stream()
there = a.to("cuda"), b.to("cuda")
timed.wait_stream(torch.cuda.current_stream())
start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
with torch.cuda.stream(timed):
    start.record()
    product = there[0] @ there[1]
    end.record()
if not planted:
    end.wait(reading)
with torch.cuda.stream(reading):
    total = product.sum()
product.record_stream(reading)
reading.synchronize()
end.synchronize()
assert start.query()
assert start.elapsed_time(end) > 0
assert planted or torch.allclose(total.cpu(), (a @ b).sum(), atol=1e-2)
