"""Features of torch's CUDA that programs lean on."""

import copy
import io
import threading

import numpy as np
import pytest
import torch
from vtorch_case import device, kinds

from sidestream.harness.errors import UnsupportedError
from sidestream.harness.runtime import CudaError
from sidestream.harness.vtorch.results import out_overload


@pytest.fixture(params=["eager", "laziest", "latest"])
def gpu(request):
    with device(request.param) as made:
        yield made


class Scaled(torch.autograd.Function):
    """Twice x; the gradient goes through tensors that backward makes."""

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        made = torch.empty(ctx.shape, device="cuda")
        made.copy_(grad)
        made += torch.zeros(ctx.shape, device=grad.device)
        made *= torch.tensor(2.0, device="cuda")
        made += torch.as_tensor(np.zeros(ctx.shape, np.float32)).to("cuda")
        return made


@pytest.mark.parametrize("how", ["method", "function", "grad"])
def test_backward_may_make_tensors_on_the_device(gpu, how):
    x = torch.ones(3, device="cuda", requires_grad=True)
    loss = Scaled.apply(x).sum()
    if how == "method":
        loss.backward()
    elif how == "function":
        torch.autograd.backward(loss)
    grad = torch.autograd.grad(loss, x)[0] if how == "grad" else x.grad
    assert grad.is_cuda
    assert grad.tolist() == [2.0] * 3
    assert kinds(gpu) == []


def test_dlpack_goes_both_ways(gpu):
    made = torch.arange(6, device="cuda").reshape(2, 3).t()
    again = torch.from_dlpack(made)
    assert again.is_cuda
    assert again.data_ptr() == made.data_ptr()
    assert again.stride() == made.stride()
    again.add_(1)
    assert made.tolist() == [[1, 4], [2, 5], [3, 6]]
    host = torch.from_dlpack(np.arange(3.0))
    assert not host.is_cuda
    assert np.from_dlpack(made.cpu()).sum() == 21
    with pytest.raises((RuntimeError, BufferError, TypeError)):
        np.from_dlpack(made)
    assert kinds(gpu) == []


@pytest.mark.parametrize("ordered", [True, False])
def test_a_consumer_of_dlpack_waits_if_it_names_its_stream(ordered):
    with device() as gpu:
        side = torch.cuda.Stream()
        made = torch.zeros(4, device="cuda")
        capsule = made.__dlpack__(stream=side.cuda_stream if ordered else -1)
        with torch.cuda.stream(side):
            torch.utils.dlpack.from_dlpack(capsule).add_(1)
        assert set(kinds(gpu)) == (set() if ordered else {"stream-race"})


def test_graphed_callables_train_as_the_module_does(gpu):
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
    module = copy.deepcopy(plain).to("cuda")
    sample = torch.randn(5, 4).to("cuda").requires_grad_()
    graphed = torch.cuda.graphs.make_graphed_callables(module, (sample,))
    for _ in range(2):
        values = torch.randn(5, 4)
        ours, theirs = values.to("cuda").requires_grad_(), values.requires_grad_()
        graphed(ours).square().sum().backward()
        plain(theirs).square().sum().backward()
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad)
        for a, b in zip(module.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(a.grad.cpu(), b.grad)
            a.grad = b.grad = None  # those of a graph are the same memory every time
    assert kinds(gpu) == []


@pytest.mark.parametrize(("version", "ordered"), [((2, 12), False), ((2, 13), True)])
def test_external_stream_0_is_the_default_stream_since_2_13(version, ordered):
    """NVIDIA/cudnn-frontend#1165: before, nothing orders it after the default one."""
    with device(torch_version=version) as gpu:
        external = torch.cuda.ExternalStream(0)
        assert (external == torch.cuda.default_stream()) is ordered
        assert (external.cuda_stream == 0) is ordered
        made = torch.ones(4, device="cuda")
        with torch.cuda.stream(external):
            made.add_(1)
        assert set(kinds(gpu)) == (set() if ordered else {"stream-race"})


def test_memory_statistics_follow_the_allocator(gpu):
    cuda = torch.cuda
    start = cuda.memory_allocated()
    made = torch.empty(1000, device="cuda")
    assert cuda.memory_allocated() - start == 4096
    assert cuda.memory_reserved() >= 2 << 20
    del made
    assert cuda.memory_allocated() == start
    assert cuda.max_memory_allocated() - start == 4096
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() == start
    stats = cuda.memory_stats()
    assert stats["allocation.all.allocated"] - stats["allocation.all.freed"] == 0
    assert stats["requested_bytes.all.current"] == start
    with pytest.raises(KeyError, match="large_pool"):
        stats["allocated_bytes.large_pool.current"]
    cuda.empty_cache()
    assert cuda.memory_reserved() == 0
    free, total = cuda.mem_get_info()
    assert free == total == torch.cuda.get_device_properties().total_memory
    for name in ("memory_snapshot", "memory_summary"):
        with pytest.raises(UnsupportedError, match=name):
            getattr(cuda, name)()


SECOND = {
    "tensor": lambda: torch.ones(2, device="cuda:1"),
    "move": lambda: torch.ones(2).to("cuda:1"),
    "set": lambda: torch.cuda.set_device(1),
    "with": lambda: torch.cuda.device(1).__enter__(),
    "stream": lambda: torch.cuda.Stream(device=1),
    "properties": lambda: torch.cuda.get_device_properties(1),
}


@pytest.mark.parametrize("how", SECOND)
def test_a_second_device_is_refused_where_there_is_one(gpu, how):
    assert torch.cuda.device_count() == 1
    with pytest.raises(CudaError, match="there are 1 virtual GPUs"):
        SECOND[how]()


def test_threads_have_streams_of_their_own(gpu):
    side = torch.cuda.Stream()
    seen = []

    def work():
        seen.append(torch.cuda.current_stream() == torch.cuda.default_stream())
        made = torch.ones(3, device="cuda", requires_grad=True)
        (made * 2).sum().backward()
        seen.append(made.grad.tolist())

    with torch.cuda.stream(side):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert torch.cuda.current_stream() == side
    assert seen == [True, [2.0] * 3]


def test_backward_runs_on_the_stream_of_its_forward(gpu):
    side, seen = torch.cuda.Stream(), []
    x = torch.ones(3, device="cuda", requires_grad=True)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
        y.register_hook(lambda grad: seen.append(torch.cuda.current_stream()))
        z = y.exp()
    x.record_stream(side)
    torch.cuda.current_stream().wait_stream(side)
    z.sum().backward()
    assert seen == [side]
    assert kinds(gpu) == []


def test_modules_are_copied_saved_and_loaded_with_their_optimizer(gpu):
    layer = torch.nn.Linear(2, 2).to("cuda")
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.ones(1, 2, device="cuda")).sum().backward()
    optimizer.step()
    twin = copy.deepcopy(layer)
    assert twin.weight.is_cuda
    assert twin.weight.data_ptr() != layer.weight.data_ptr()
    file = io.BytesIO()
    torch.save({"layer": layer.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    there = torch.load(file)
    assert there["layer"]["weight"].is_cuda
    file.seek(0)
    here = torch.load(file, map_location="cpu")
    assert not here["layer"]["weight"].is_cuda
    assert torch.equal(here["layer"]["weight"], twin.weight.cpu())
    fresh = torch.nn.Linear(2, 2, device="cuda")
    fresh.load_state_dict(here["layer"])
    assert torch.equal(fresh.bias.cpu(), layer.bias.cpu())
    again = torch.optim.Adam(fresh.parameters())
    again.load_state_dict(here["optimizer"])
    assert again.state[fresh.weight]["exp_avg"].is_cuda
    assert kinds(gpu) == []


@pytest.mark.parametrize("shape", [(3, 4), (4, 3)])
def test_results_are_written_where_they_were_allocated(gpu, shape):
    aten = torch.ops.aten
    assert out_overload(aten.mul.Tensor) is aten.mul.out
    assert out_overload(aten.mean.dim) is aten.mean.out
    assert out_overload(aten.clone.default) is None  # would copy once more
    assert out_overload(aten.add_.Tensor) is None
    host = torch.arange(12.0).reshape(shape)
    there = host.to("cuda").t()
    for work in (
        lambda x: x * 2 + 1,
        lambda x: x.t() @ x,
        lambda x: x.sum(0, dtype=torch.float64),
        lambda x: x.mean(1, keepdim=True),
        lambda x: torch.where(x > 5, x, -x),
        lambda x: x.clone().half(),
    ):
        made = work(there)
        assert torch.equal(made.cpu(), work(host.t()))
        assert made.stride() == work(host.t()).stride()


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("training", [True, False])
def test_recurrent_layers_give_what_the_cpu_gives(gpu, kind, training):
    layer = kind(4, 4, num_layers=2)
    twin = copy.deepcopy(layer).cuda()
    value = torch.linspace(-1, 1, 24).reshape(3, 2, 4)
    with torch.set_grad_enabled(training):
        here, there = layer(value)[0], twin(value.cuda())[0]
        assert torch.allclose(here, there.cpu(), atol=1e-6)
        if training:
            here.sum().backward()
            there.sum().backward()
            for own, other in zip(layer.parameters(), twin.parameters(), strict=True):
                assert torch.allclose(own.grad, other.grad.cpu(), atol=1e-6)
    assert kinds(gpu) == []


def test_a_custom_operator_runs_its_body_where_it_is_called(gpu):
    """Its operators go to the current stream, each by itself, and only once."""
    devices = []

    @torch.library.custom_op("sidestream_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        devices.append(x.device.type)
        return x * torch.full((1,), 2.0, device="cuda").to(x.device)

    @torch.library.custom_op(
        "sidestream_test::fill", mutates_args=("out",), device_types="cuda"
    )
    def fill(x: torch.Tensor, out: torch.Tensor) -> None:
        devices.append(out.device.type)
        out.copy_(x + 1)

    twice.register_autograd(lambda ctx, grad: grad * 2)
    value = torch.ones(4, device="cuda", requires_grad=True)
    made = twice(value)
    made.sum().backward()
    assert value.grad.tolist() == [2, 2, 2, 2]
    out = torch.empty(4, device="cuda")
    fill(made.detach(), out)
    assert out.tolist() == [3, 3, 3, 3]
    assert twice(torch.ones(2)).device.type == "cpu"
    assert devices == ["cuda", "cuda", "cpu"]
    assert kinds(gpu) == []
    with torch.cuda.stream(torch.cuda.Stream()):
        fill(torch.ones(4, device="cuda"), out)
    out.sum()
    assert kinds(gpu) == ["stream-race"]


@pytest.mark.parametrize("batch_first", [True, False])
def test_packed_sequences_give_what_the_cpu_gives(gpu, batch_first):
    """Their lengths stay on the host."""
    layer = torch.nn.GRU(3, 4, batch_first=batch_first)
    twin = copy.deepcopy(layer).cuda()
    value = torch.linspace(-1, 1, 36).reshape((3, 4, 3) if batch_first else (4, 3, 3))
    results = []
    for work, given in ((layer, value), (twin, value.cuda())):
        leaf = given.detach().requires_grad_()
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            leaf, [2, 4, 1], batch_first=batch_first, enforce_sorted=False
        )
        out, lengths = torch.nn.utils.rnn.pad_packed_sequence(
            work(packed)[0], batch_first, padding_value=7.0, total_length=5
        )
        (out * out).sum().backward()
        assert (packed.batch_sizes.device.type, lengths.tolist()) == ("cpu", [2, 4, 1])
        assert out.is_cuda == given.is_cuda
        results.append((out.detach().cpu(), leaf.grad.cpu()))
    for here, there in zip(*results, strict=True):
        assert torch.allclose(here, there, atol=1e-6)
    with pytest.raises(RuntimeError, match="greater than 0"):
        torch.nn.utils.rnn.pack_padded_sequence(value.cuda(), [3, 2, 0], batch_first)
    assert kinds(gpu) == []
