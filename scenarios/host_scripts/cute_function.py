"""An autograd function whose ways are CuTe DSL kernels; `planted` forgets a wait."""

import sys

import cutlass.cute as cute
import torch
from cuda.bindings.driver import CUstream
from cutlass.cute.runtime import from_dlpack

planted = sys.argv[1:] == ["planted"]
COUNT = 96


@cute.kernel
def multiply(a: cute.Tensor, b: cute.Tensor, into: cute.Tensor):
    """Write the products of two rows, one element a thread."""
    i = cute.arch.thread_idx()[0]
    into[i] = a[i] * b[i]


@cute.jit
def launch(a: cute.Tensor, b: cute.Tensor, into: cute.Tensor, stream: CUstream):
    """Launch it."""
    multiply(a, b, into).launch(grid=(1, 1, 1), block=(COUNT, 1, 1), stream=stream)


compiled = {}


def product(a, b):
    """Return a * b, by the kernel, on the current stream."""
    into = torch.empty_like(a)
    rows = [from_dlpack(t.detach()) for t in (a, b, into)]
    stream = CUstream(torch.cuda.current_stream().cuda_stream)
    if not compiled:
        compiled["multiply"] = cute.compile(launch, *rows, stream)
    compiled["multiply"](*rows, stream)
    return into


class Square(torch.autograd.Function):
    """x squared."""

    @staticmethod
    def forward(ctx, x):
        """Keep x for the way back."""
        ctx.save_for_backward(x)
        return product(x, x)

    @staticmethod
    def backward(ctx, grad):
        """Runs on the stream of the forward."""
        (x,) = ctx.saved_tensors
        # The gradient of a sum is one number that is shown many times.
        return product(product(grad.contiguous(), x), torch.full_like(x, 2.0))


values = torch.arange(COUNT) / COUNT
side = torch.cuda.Stream()
x = values.to("cuda").requires_grad_()
tripled = x * 3
if not planted:
    side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    squared = Square.apply(tripled)
tripled.record_stream(side)
torch.cuda.current_stream().wait_stream(side)
squared.record_stream(torch.cuda.current_stream())
squared.sum().backward()
if not planted:
    torch.testing.assert_close(squared.cpu(), 9 * values**2)
    torch.testing.assert_close(x.grad.cpu(), 18 * values)
