"""Two stages, each on a stream, over chunks; `planted` leaves out one event."""

import sys

import torch

planted = sys.argv[1:] == ["planted"]
torch.manual_seed(0)
chunks, weight = torch.randn(4, 32, 32), torch.randn(32, 32)
first, second = torch.cuda.Stream(), torch.cuda.Stream()
device = chunks.to("cuda")
there = weight.to("cuda")
middle = torch.empty_like(device)
out = torch.empty_like(device)
for stream in (first, second):
    stream.wait_stream(torch.cuda.current_stream())
for number in range(len(chunks)):
    done = torch.cuda.Event()
    with torch.cuda.stream(first):
        torch.mm(device[number], there, out=middle[number])
        done.record()
    with torch.cuda.stream(second):
        if not (planted and number == 2):
            second.wait_event(done)
        torch.relu_(middle[number])
        out[number].copy_(middle[number] + 1)
torch.cuda.current_stream().wait_stream(second)
torch.cuda.current_stream().wait_stream(first)
expected = torch.relu(chunks @ weight) + 1
assert planted or torch.allclose(out.cpu(), expected, atol=1e-4)
