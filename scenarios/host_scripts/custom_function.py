"""An autograd function of one's own on a side stream; `planted` forgets its input."""

import sys

import torch

planted = sys.argv[1:] == ["planted"]
torch.manual_seed(0)
values = torch.randn(64, 32)


class Swish(torch.autograd.Function):
    """x times its sigmoid, with the derivative written out."""

    @staticmethod
    def forward(ctx, x):
        """Keep the sigmoid for the way back."""
        gate = torch.sigmoid(x)
        ctx.save_for_backward(x, gate)
        return x * gate

    @staticmethod
    def backward(ctx, grad):
        """Runs on the stream that the forward ran on."""
        x, gate = ctx.saved_tensors
        if grad.is_cuda:
            assert torch.cuda.current_stream() == side
        return grad * (gate + x * gate * (1 - gate))


reference = values.clone().requires_grad_()
(Swish.apply(reference * 2) ** 2).sum().backward()

side = torch.cuda.Stream()
there = values.to("cuda").requires_grad_()
doubled = there * 2
if not planted:
    side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    swished = Swish.apply(doubled)
doubled.record_stream(side)
torch.cuda.current_stream().wait_stream(side)
swished.record_stream(torch.cuda.current_stream())
(swished**2).sum().backward()
assert planted or torch.allclose(there.grad.cpu(), reference.grad, atol=1e-5)
