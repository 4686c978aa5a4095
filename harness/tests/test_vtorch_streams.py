"""Streams on the virtual device: what is a race between operators and what is not."""

import threading
import warnings

import pytest
import torch
from vtorch_case import device, kinds

from sidestream.harness.runtime import CudaError

HALVES = {
    "index-put": lambda t, rows: t.index_put_((rows,), torch.ones((), device="cuda")),
    "index-add": lambda t, rows: t.index_add_(0, rows, torch.ones(2, 3, device="cuda")),
    "index-copy": lambda t, rows: t.index_copy_(
        0, rows, torch.ones(2, 3, device="cuda")
    ),
    "index-fill": lambda t, rows: t.index_fill_(0, rows, 1.0),
    "scatter": lambda t, rows: t.scatter_(0, rows[:, None].expand(2, 3), 1.0),
    "masked-fill": lambda t, rows: t.masked_fill_(
        torch.isin(torch.arange(4, device="cuda"), rows)[:, None], 1.0
    ),
}
READS = {
    "index": lambda t, rows: t[rows],
    "index-select": lambda t, rows: t.index_select(0, rows),
    "gather": lambda t, rows: t.gather(0, rows[:, None].expand(2, 3)),
    "embedding": lambda t, rows: torch.nn.functional.embedding(rows, t),
}


@pytest.mark.parametrize("meet", [False, True])
@pytest.mark.parametrize("name", [*HALVES, *READS])
def test_indices_race_where_they_name_the_same_rows(name, meet):
    with device("round-robin") as gpu:
        table = torch.zeros(4, 3, device="cuda")
        low = torch.tensor([0, 1], device="cuda")
        high = torch.tensor([1, 2] if meet else [2, 3], device="cuda")
        one, two = torch.cuda.Stream(), torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(one):
            HALVES["index-fill"](table, low)
        with torch.cuda.stream(two):
            kept = (HALVES | READS)[name](table, high)
        torch.cuda.synchronize()
        assert kept is not None
        assert (kinds(gpu) != []) == meet


def test_backward_runs_on_the_stream_of_the_forward():
    with device("laziest") as gpu:
        value = torch.ones(3, device="cuda", requires_grad=True)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            result = (value * 2).sum()
        seen = []
        result.register_hook(lambda grad: None)
        value.register_hook(
            lambda grad: seen.append(torch.cuda.current_stream().cuda_stream)
        )
        result.backward()
        assert seen == [side.cuda_stream]
        assert torch.cuda.current_stream().cuda_stream == 0
        assert value.grad.tolist() == [2, 2, 2]
        assert kinds(gpu) == []


def test_threads_have_current_streams_of_their_own():
    with device("laziest") as gpu:
        side = torch.cuda.Stream()
        torch.cuda.set_stream(side)
        seen = []

        def work():
            seen.append(torch.cuda.current_stream().cuda_stream)
            seen.append(torch.ones(2, device="cuda").sum().item())

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert seen == [0, 2.0]
        assert torch.cuda.current_stream() == side
        assert kinds(gpu) == []


def test_a_capture_refuses_what_cuda_refuses():
    with device("laziest"):
        there = torch.ones(4, device="cuda")
        for call in (
            there.sum().item,
            lambda: torch.cuda.synchronize(),
            lambda: there.nonzero(),
            lambda: there.cpu(),
            lambda: torch.ones(4).to("cuda"),
        ):
            graph = torch.cuda.CUDAGraph()
            with pytest.raises(RuntimeError) as told:
                capture(graph, call)
            assert "aptur" in str(told.value)
        assert there.sum().item() == 4


def capture(graph, call):
    with torch.cuda.graph(graph):
        call()


def test_an_empty_graph_warns_and_a_stale_replay_is_refused():
    with device("laziest"):
        graph = torch.cuda.CUDAGraph()
        with pytest.raises(RuntimeError, match="without a preceding"):
            graph.replay()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            capture(graph, lambda: None)
        assert any("empty" in str(warning.message) for warning in told)
        with pytest.raises(CudaError, match="legacy default stream"):
            graph.capture_begin()


def test_graphed_callables_replay_forward_and_backward():
    with device("laziest") as gpu:
        torch.manual_seed(0)
        host = torch.nn.Linear(4, 2)
        layer = torch.nn.Linear(4, 2, device="cuda")
        layer.load_state_dict(host.state_dict())
        sample = torch.randn(3, 4, device="cuda")
        graphed = torch.cuda.make_graphed_callables(layer, (sample,))
        data = torch.randn(3, 4)
        graphed(data.cuda()).square().sum().backward()
        host(data).square().sum().backward()
        assert torch.allclose(layer.weight.grad.cpu(), host.weight.grad, atol=1e-5)
        assert kinds(gpu) == []


EXAMPLES = {
    "ones": torch.ones_like,
    "full": lambda t: torch.full_like(t, 2.0),
    "random": torch.rand_like,
    "new": lambda t: t.new_zeros(3),
    "empty": torch.empty_like,
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_not_read(name):
    with device("laziest") as gpu:
        there = torch.zeros(4, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            there.add_(1)
        assert EXAMPLES[name](there).is_cuda
        assert kinds(gpu) == []
