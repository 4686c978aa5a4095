"""Operators on the virtual device: where results lie, when they land, who waits."""

import copy
import io

import numpy as np
import pytest
import torch
from vtorch_case import device, kinds

from sidestream.harness.runtime import CudaError


@pytest.fixture(params=["eager", "laziest", "random:5"])
def gpu(request):
    with device(request.param) as made:
        yield made
        assert kinds(made) == []


FACTORIES = {
    "empty": lambda: torch.empty(3, 4, device="cuda"),
    "empty-strided": lambda: torch.empty_strided((2, 3), (1, 2), device="cuda:0"),
    "nothing": lambda: torch.empty(0, device="cuda"),
    "zeros": lambda: torch.zeros(5, device=torch.device("cuda")),
    "arange": lambda: torch.arange(4, device=0),
    "randn": lambda: torch.randn(4, device="cuda"),
    "window": lambda: torch.hann_window(4, device="cuda"),
    "tensor": lambda: torch.tensor([1, 2, 3], device="cuda"),
    "as-tensor": lambda: torch.as_tensor(np.ones(3), device="cuda"),
    "full": lambda: torch.full((2, 2), 7.0, device="cuda"),
    "like": lambda: torch.zeros_like(torch.ones(3), device="cuda"),
    "to": lambda: torch.ones(3).to("cuda"),
    "to-dtype": lambda: torch.ones(3).to("cuda", torch.float16),
    "to-keyword": lambda: torch.ones(3).to(device="cuda", dtype=torch.int32),
    "to-other": lambda: torch.ones(3).to(torch.empty(1, device="cuda")),
    "cuda": lambda: torch.ones(3).cuda(),
    "type": lambda: torch.ones(3).type("torch.cuda.HalfTensor"),
    "new": lambda: torch.ones(3, device="cuda").new_zeros(2),
    "new-tensor": lambda: torch.ones(3, device="cuda").new_tensor([1, 2]),
    "parameter": lambda: torch.nn.Parameter(torch.ones(3, device="cuda")),
    "module": lambda: torch.nn.Linear(2, 3, device="cuda").weight,
}


@pytest.mark.parametrize("name", FACTORIES)
def test_what_is_made_for_the_device_is_on_it(gpu, name):
    made = FACTORIES[name]()
    assert made.is_cuda
    assert not made.is_cpu
    assert made.device == torch.device("cuda:0")
    assert made.get_device() == 0
    assert made.untyped_storage().device == made.device
    host = made.cpu()
    assert host.device.type == "cpu"
    assert not host.is_cuda
    assert host.dtype == made.dtype


def test_a_default_device_is_honoured(gpu):
    with torch.device("cuda"):
        assert torch.ones(2).is_cuda
        assert torch.nn.Linear(2, 2).weight.is_cuda
        assert not torch.ones(2, device="cpu").is_cuda
    assert not torch.ones(2).is_cuda


def test_results_stay_where_their_arguments_are(gpu):
    there = torch.arange(8.0, device="cuda")
    for result in (
        there + 1,
        there.half(),
        there[2:5],
        there.new_zeros(3),
        torch.empty_like(there),
        there.cumsum(0),
        there.sum(),
        *there.split(3),
        torch.cat([there, there]),
        *torch.sort(there),
    ):
        assert result.is_cuda
    assert not torch.zeros_like(there, device="cpu").is_cuda
    assert not there.to("cpu", torch.float64).is_cuda


def test_views_and_in_place_calls_share_memory(gpu):
    base = torch.zeros(4, 6, device="cuda")
    row, column = base[1], base[:, 2]
    row.add_(1)
    column.mul_(5).add_(2)
    base.t()[5, 3] = 9
    base.view(-1)[:2].fill_(7)
    base[base == 1] = 4
    assert base.tolist() == [
        [7, 7, 2, 0, 0, 0],
        [4, 4, 7, 4, 4, 4],
        [0, 0, 2, 0, 0, 0],
        [0, 0, 2, 0, 0, 9],
    ]
    assert row._base is base
    assert base.untyped_storage().data_ptr() == row.untyped_storage().data_ptr()


def test_indices_masks_and_reductions_give_the_values_of_the_host(gpu):
    host = torch.randn(6, 5)
    there = host.cuda()
    index = torch.tensor([4, 0, 2])
    for call in (
        lambda t, i: t[i],
        lambda t, i: t[t > 0],
        lambda t, i: t[i, 1],
        lambda t, i: t.index_select(0, i),
        lambda t, i: t.nonzero(),
        lambda t, i: torch.where(t > 0, t, -t),
        lambda t, i: t.masked_select(t < 0),
        lambda t, i: t.gather(0, i[None].expand(1, 3)),
        lambda t, i: t.scatter_add(0, i[None].expand(2, 3), t[:2, :3]),
        lambda t, i: t.unique(),
        lambda t, i: torch.topk(t, 2).values,
        lambda t, i: t.var(1),
        lambda t, i: t.logsumexp(0),
        lambda t, i: torch.linalg.inv(t[:5] @ t[:5].t() + 5 * torch.eye(5).to(t)),
        lambda t, i: torch.nn.functional.layer_norm(t, (5,)),
        lambda t, i: torch.bincount(i),
        lambda t, i: torch.einsum("ij,kj->ik", t, t),
        lambda t, i: torch.view_as_real(torch.fft.fft(t).conj().resolve_conj()),
    ):
        expected, seen = call(host, index), call(there, index.cuda())
        assert seen.is_cuda
        assert torch.equal(seen.cpu(), expected)


def test_nothing_lands_before_the_host_waits():
    with device("laziest") as gpu:
        there = torch.zeros(4, device="cuda")
        torch.cuda.synchronize()
        raw = gpu.world.storages.raw(there)
        there.add_(3)
        assert raw.tolist() == [0, 0, 0, 0]
        torch.cuda.current_stream().synchronize()
        assert raw.tolist() == [3, 3, 3, 3]


def test_reads_of_the_host_are_waits_with_a_place_and_a_value(gpu):
    there = torch.arange(3, device="cuda")
    count = len(gpu.runtime.host_waits)
    there.sum().item()
    there.tolist()
    bool((there > 0).any())
    there[there > 1]
    there.cpu()
    repr(there)
    torch.equal(there, there)
    waits = gpu.runtime.host_waits[count:]
    assert [w.call for w in waits] == [
        "aten._local_scalar_dense.default",
        "aten._to_copy.default",
        "aten._local_scalar_dense.default",
        "aten.index.Tensor",
        "aten._to_copy.default",
        "torch.Tensor.__repr__",
        "aten.equal.default",
    ]
    assert [w.detail.split(", written by")[0] for w in waits] == [
        "3",
        "int64 (3,) [0, 1, 2]",
        "True",
        "int64 (1,) [2]",
        "int64 (3,) [0, 1, 2]",
        "int64 (3,) [0, 1, 2]",
        "True",
    ]
    assert "written by aten.sum.default at" in waits[0].detail
    assert "written by aten.arange" in waits[1].detail
    assert all("test_vtorch_operators.py" in str(w.site) for w in waits)


READS = {
    "nonzero": (lambda x: x.nonzero(), "int64 (2, 1) [1, 2]"),
    "masked_select": (lambda x: x.masked_select(x > 1), "int64 (1,) [2]"),
    "mask of the host": (lambda x: x[torch.tensor([True, False, True])], "[0, 2]"),
    "where": (lambda x: torch.where(x == 1), "int64 (1, 1) [1]"),
    "unique": (lambda x: torch.unique(x), "int64 (3,) [0, 1, 2]"),
    "blocking copy": (
        lambda x: torch.empty(3, dtype=torch.int64, pin_memory=True).copy_(x),
        "int64 (3,) [0, 1, 2]",
    ),
    "copy of another type": (lambda x: x.to("cpu", torch.float64), "float64 (3,)"),
    "copy that does not wait": (lambda x: x.to("cpu", non_blocking=True), None),
    "condition": (lambda x: 1 if (x == 1).all() else 0, "False"),
    "many": (lambda x: x.repeat(1000).cpu(), "int64 (3000,) [0, 1, 2, 0, ...]"),
}


@pytest.mark.parametrize("name", READS)
def test_a_wait_tells_what_it_read(gpu, name):
    call, expected = READS[name]
    there = torch.arange(3, device="cuda")
    count = len(gpu.runtime.host_waits)
    call(there)
    waits = gpu.runtime.host_waits[count:]
    assert len(waits) == (expected is not None)
    if expected is not None:
        assert expected in waits[0].detail
        assert waits[0].seconds > 0


def test_sync_debug_mode_warns_and_refuses(gpu):
    there = torch.ones(3, device="cuda")
    torch.cuda.set_sync_debug_mode("warn")
    assert torch.cuda.get_sync_debug_mode() == 1
    with pytest.warns(UserWarning, match="synchronizing CUDA operation"):
        there.sum().item()
    torch.cuda.set_sync_debug_mode("error")
    for read in (there.sum().item, there.cpu, there.nonzero, there.tolist):
        with pytest.raises(RuntimeError, match="synchronizing CUDA operation"):
            read()
    there.add_(1)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("default")
    assert there.tolist() == [2, 2, 2]


def test_host_and_device_tensors_do_not_mix(gpu):
    there, host = torch.ones(3, device="cuda"), torch.ones(3)
    for call in (
        lambda: there + host,
        lambda: host.add_(there),
        lambda: torch.cat([there, host]),
    ):
        with pytest.raises(RuntimeError, match="same device"):
            call()
    assert (there + torch.tensor(2.0)).tolist() == [3, 3, 3]
    assert there[torch.tensor([0, 1])].tolist() == [1, 1]
    with pytest.raises(TypeError, match=r"Use Tensor.cpu\(\)"):
        there.numpy()
    with pytest.raises(CudaError, match="invalid device ordinal"):
        torch.ones(3, device="cuda:1")


def test_modules_move_train_copy_and_save(gpu):
    torch.manual_seed(0)
    host = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    there = copy.deepcopy(host).to("cuda")
    other = copy.deepcopy(there)
    assert all(p.is_cuda for p in (*there.parameters(), *other.buffers()))
    assert other[0].weight.data_ptr() != there[0].weight.data_ptr()
    data = torch.randn(5, 3)
    for model, given in ((host, data), (there, data.cuda())):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            model(given).pow(2).mean().backward()
            optimizer.step()
    for a, b in zip(
        host.state_dict().values(), there.state_dict().values(), strict=True
    ):
        assert b.is_cuda
        assert torch.equal(a, b.cpu())
    file = io.BytesIO()
    torch.save(there.state_dict(), file)
    file.seek(0)
    loaded = torch.load(file)
    assert all(t.is_cuda for t in loaded.values())
    file.seek(0)
    at_host = torch.load(file, map_location="cpu")
    assert not any(t.is_cuda for t in at_host.values())
    for name, value in host.state_dict().items():
        assert torch.equal(value, loaded[name].cpu())
        assert torch.equal(value, at_host[name])


def test_gradients_cross_between_host_and_device(gpu):
    host = torch.ones(3, requires_grad=True)
    there = torch.full((3,), 2.0, device="cuda", requires_grad=True)
    ((host.to("cuda") * there).cpu() * 3).sum().backward()
    assert host.grad.device.type == "cpu"
    assert host.grad.tolist() == [6, 6, 6]
    assert there.grad.is_cuda
    assert there.grad.tolist() == [3, 3, 3]


def test_random_numbers_follow_the_calls_not_the_landing(gpu):
    torch.manual_seed(7)
    first = torch.rand(4, device="cuda")
    second = torch.empty(4, device="cuda").normal_()
    dropped = torch.nn.functional.dropout(torch.ones(32, device="cuda"))
    torch.manual_seed(7)
    assert torch.equal(first.cpu(), torch.rand(4))
    assert torch.equal(second.cpu(), torch.empty(4).normal_())
    assert torch.equal(dropped.cpu(), torch.nn.functional.dropout(torch.ones(32)))
    state = torch.cuda.get_rng_state()
    again = torch.randperm(9, device="cuda").tolist()
    torch.cuda.set_rng_state(state)
    assert torch.randperm(9, device="cuda").tolist() == again
    mine = torch.Generator(device="cuda").manual_seed(3)
    assert mine.device.type == "cuda"
    assert torch.rand(2, device="cuda", generator=mine).tolist() == (
        torch.rand(2, generator=torch.Generator().manual_seed(3)).tolist()
    )


def test_printing_and_names(gpu):
    there = torch.arange(3, device="cuda")
    assert repr(there) == "tensor([0, 1, 2], device='cuda:0')"
    assert f"{there.sum()}" == "3"
    assert there.type() == "torch.cuda.LongTensor"
    assert isinstance(there, torch.Tensor)
    assert torch.cuda.get_device_name() == "NVIDIA B200"
    assert torch.cuda.get_device_capability() == (10, 0)
    assert torch.cuda.device_count() == 1
    with torch.cuda.device(0), torch.cuda.nvtx.range("step"):
        assert torch.cuda.current_device() == 0


def test_memory_is_freed_with_the_last_tensor(gpu):
    before = torch.cuda.memory_allocated()
    there = torch.zeros(1000, device="cuda")
    view = there[10:20]
    assert torch.cuda.memory_allocated() == before + 4096
    address = there.data_ptr()
    del there
    assert torch.cuda.memory_allocated() == before + 4096
    del view
    assert torch.cuda.memory_allocated() == before
    assert torch.empty(1000, device="cuda").data_ptr() == address
    assert torch.cuda.max_memory_allocated() >= before + 4096
    assert torch.cuda.memory_reserved() >= 2 << 20


def test_results_may_be_given_and_resized(gpu):
    a = torch.ones(4, device="cuda")
    out = torch.empty(0, device="cuda")
    torch.add(a, a, out=out)
    assert out.tolist() == [2, 2, 2, 2]
    out.resize_(2, 4)
    assert out.shape == (2, 4)
    assert out[0].tolist() == [2, 2, 2, 2]


def test_a_failing_operator_says_where_it_was_called(gpu):
    there = torch.ones(3, device="cuda")
    index = torch.tensor([7], device="cuda")

    def run():
        there.index_select(0, index)
        torch.cuda.synchronize()

    with pytest.raises(CudaError, match="test_vtorch_operators"):
        run()


def test_everything_is_as_before_outside():
    before = (torch.cuda.is_available(), torch.Tensor.device, torch.cuda.Stream)
    with device():
        there = torch.ones(4, device="cuda")
        torch.cuda.synchronize()
    assert before == (torch.cuda.is_available(), torch.Tensor.device, torch.cuda.Stream)
    assert there.device.type == "cpu"
    assert torch.Generator is torch._C.Generator


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.squeeze_(0),
        lambda x: x.unsqueeze_(1),
        lambda x: x.transpose_(1, 2),
        lambda x: x.squeeze_().t_(),
        lambda x: x.as_strided_((2, 2), (1, 4)),
    ],
)
def test_a_tensor_that_becomes_a_view_in_place_has_its_extents(gpu, change):
    host = torch.arange(12.0).reshape(1, 3, 4)
    there = host.to("cuda")
    here = change(host)
    made = change(there)
    assert made is there
    assert (made.shape, made.stride()) == (here.shape, here.stride())
    assert torch.equal(made.cpu(), here)


@pytest.mark.parametrize(
    "work",
    [
        lambda v, m: v @ m,
        lambda v, m: torch.quantile(v, 0.5),
        lambda v, m: torch.nanquantile(v, 0.5),
        lambda v, m: torch.combinations(v),
    ],
)
def test_functions_in_native_code_give_what_the_cpu_gives(gpu, work):
    """They make some of what they need where a tensor of ours says it lies."""
    vector, matrix = torch.linspace(-1, 1, 5), torch.linspace(0, 1, 15).reshape(5, 3)
    here, there = work(vector, matrix), work(vector.cuda(), matrix.cuda())
    assert there.is_cuda
    assert there.shape == here.shape
    assert torch.allclose(there.cpu(), here)
    with pytest.raises(RuntimeError, match="same device"):
        vector.cuda() + vector
