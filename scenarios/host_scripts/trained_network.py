"""Train a network and average its weights on a side stream; `planted` is early."""

import copy
import sys

import torch

planted = sys.argv[1:] == ["planted"]
torch.manual_seed(0)
data, wanted = torch.randn(5, 32, 8), torch.randn(5, 32, 1)
start = torch.nn.Sequential(
    torch.nn.Linear(8, 16),
    torch.nn.GELU(),
    torch.nn.LayerNorm(16),
    torch.nn.Linear(16, 1),
)


def train(model, device, averaging):
    """Return the running average of the first weight."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    average = torch.zeros(16, 8, device=device)
    if averaging:
        averaging.wait_stream(torch.cuda.current_stream())
    for inputs, targets in zip(data, wanted, strict=True):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(
            model(inputs.to(device)), targets.to(device)
        )
        loss.backward()
        optimizer.step()
        if averaging is None:
            average.lerp_(model[0].weight.detach(), 0.5)
            continue
        if not planted:
            averaging.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(averaging):
            average.lerp_(model[0].weight.detach(), 0.5)
        torch.cuda.current_stream().wait_stream(averaging)
    return average.cpu()


expected = train(copy.deepcopy(start), "cpu", None)
seen = train(copy.deepcopy(start).to("cuda"), "cuda", torch.cuda.Stream())
assert planted or torch.allclose(seen, expected, atol=1e-5)
