"""Capture a training step of a small network and replay it; `planted` elsewhere."""

import copy
import sys

import torch
from torch.nn.functional import mse_loss

planted = sys.argv[1:] == ["planted"]
torch.manual_seed(0)
layers = torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
reference = torch.nn.Sequential(*layers)
model = copy.deepcopy(reference).to("cuda")
inputs, targets = torch.randn(5, 32, 8), torch.randn(5, 32, 1)
x, y = inputs[0].to("cuda"), targets[0].to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    mse_loss(model(x), y).backward()
    optimizer.step()
torch.cuda.current_stream().wait_stream(side)

optimizer.zero_grad(set_to_none=True)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    mse_loss(model(x), y).backward()
    optimizer.step()
for batch, wanted in zip(inputs[1:], targets[1:], strict=True):
    x.copy_(batch)
    y.copy_(wanted)
    with torch.cuda.stream(side if planted else torch.cuda.current_stream()):
        graph.replay()
torch.cuda.synchronize()

expected = torch.optim.SGD(reference.parameters(), lr=0.1)
for batch, wanted in zip(inputs, targets, strict=True):
    expected.zero_grad()
    mse_loss(reference(batch), wanted).backward()
    expected.step()
for mine, theirs in zip(model.parameters(), reference.parameters(), strict=True):
    assert planted or torch.allclose(mine.cpu(), theirs, atol=1e-4)
