"""A tensor goes from one stream to another by an event, and its owner lets go of it.

NVIDIA/TensorRT-LLM#15265. `buggy` leaves out record_stream.
"""

import sys

import torch

buggy = sys.argv[1:] == ["buggy"]
main, side = torch.cuda.current_stream(), torch.cuda.Stream()
with torch.cuda.stream(side):
    made = torch.full((1000,), 2.0, device="cuda")
    ready = torch.cuda.Event()
    ready.record()
main.wait_event(ready)
total = made.sum()
if not buggy:
    made.record_stream(main)
del made
with torch.cuda.stream(side):
    other = torch.zeros(1000, device="cuda")
main.synchronize()
side.synchronize()
assert buggy or float(total) == 2000, total
