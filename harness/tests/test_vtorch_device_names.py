"""All the ways in which a program may name the device."""

import pytest
import torch
from vtorch_case import device

from sidestream.harness.errors import UnsupportedError

DEVICE = torch.device("cuda", 0)


@pytest.fixture
def gpu():
    with device() as made:
        yield made


@pytest.fixture(params=["index", "name", "kind", "device", "device of an index"])
def form(request, gpu):
    """A way to say which device."""
    forms = {"index": 0, "name": "cuda:0", "kind": "cuda", "device": DEVICE}
    return forms.get(request.param, torch.device(0))


def value():
    return torch.arange(3.0)


TENSORS = {
    "to": lambda form: value().to(form),
    "to, by name": lambda form: value().to(device=form),
    "to, with a dtype": lambda form: value().to(form, torch.float16),
    "cuda": lambda form: value().cuda(form),
    "a module": lambda form: torch.nn.Linear(2, 2).to(form).weight,
    "a module's cuda": lambda form: torch.nn.Linear(2, 2).cuda(form).weight,
    "a new module": lambda form: torch.nn.Linear(2, 2, device=form).weight,
    "a packed sequence": lambda form: (
        torch.nn.utils.rnn.pack_sequence([value()] * 2).to(form).data
    ),
    "zeros": lambda form: torch.zeros(3, device=form),
    "randn": lambda form: torch.randn(3, device=form),
    "tensor": lambda form: torch.tensor([1, 2], device=form),
    "as_tensor": lambda form: torch.as_tensor([1, 2], device=form),
    "asarray": lambda form: torch.asarray([1, 2], device=form),
    "zeros_like": lambda form: torch.zeros_like(value(), device=form),
    "new_zeros": lambda form: value().new_zeros(3, device=form),
    "new_tensor": lambda form: value().new_tensor([1.0], device=form),
}


@pytest.mark.parametrize("how", TENSORS)
def test_tensors_are_made_on_it(form, how):
    assert TENSORS[how](form).device == DEVICE


OTHERS = {
    "stream": lambda form: torch.cuda.Stream(form).device,
    "generic stream": lambda form: torch.Stream(device=form).device,
    "current stream": lambda form: torch.cuda.current_stream(form).device,
    "generator": lambda form: torch.Generator(form).device,
    "properties": lambda form: torch.cuda.get_device_properties(form) and DEVICE,
    "memory": lambda form: torch.cuda.memory_allocated(form) == 0 and DEVICE,
    "synchronize": lambda form: torch.cuda.synchronize(form) or DEVICE,
    "set_device": lambda form: torch.cuda.set_device(form) or DEVICE,
}


@pytest.mark.parametrize("how", OTHERS)
def test_all_else_takes_it(form, how):
    assert OTHERS[how](form) == DEVICE


def test_it_may_be_the_current_device(form):
    with torch.cuda.device(form):
        assert torch.zeros(1, device="cuda").device == DEVICE


@pytest.mark.parametrize("lasting", [True, False])
def test_it_may_be_the_default(form, lasting):
    host = value()

    def made():
        tensors = [torch.zeros(1), torch.tensor([1]), torch.as_tensor([1])]
        return [*tensors, torch.as_tensor(host), torch.nn.Linear(2, 2).weight]

    def kept_on_the_host():
        return [torch.zeros(1, device="cpu"), torch.tensor(1, device="cpu"), host + 1,
                host.new_tensor([1.0]), torch.from_numpy(host.numpy())]  # fmt: skip

    if lasting:
        torch.set_default_device(form)
        try:
            assert torch.get_default_device() == DEVICE
            assert all(tensor.device == DEVICE for tensor in made())
            assert not any(tensor.is_cuda for tensor in kept_on_the_host())
        finally:
            torch.set_default_device(None)
    else:
        with torch.device(form):
            assert all(tensor.device == DEVICE for tensor in made())
            assert not any(tensor.is_cuda for tensor in kept_on_the_host())
    assert not torch.tensor([1]).is_cuda


def test_generic_streams_and_events_are_those_of_the_device(gpu):
    stream, event = torch.Stream(), torch.Event("cuda", enable_timing=True)
    assert isinstance(torch.cuda.Stream(), torch.Stream)
    with stream:
        tensor = torch.ones(2, device="cuda")
        event.record()
    torch.cuda.current_stream().wait_event(event)
    assert (tensor + 1).tolist() == [2, 2]
    assert gpu.runtime.findings() == ()


def test_legacy_types_tell_what_a_tensor_is_but_make_none(gpu):
    tensor = torch.ones(2, device="cuda")
    assert isinstance(tensor, torch.cuda.FloatTensor)
    assert not isinstance(tensor, torch.cuda.HalfTensor)
    assert not isinstance(tensor.cpu(), torch.cuda.FloatTensor)
    assert value().type(torch.cuda.FloatTensor).is_cuda
    with pytest.raises(UnsupportedError, match=r"torch\.cuda\.FloatTensor"):
        torch.cuda.FloatTensor(3)
    with pytest.raises(UnsupportedError, match="set_default_tensor_type"):
        torch.set_default_tensor_type("torch.cuda.FloatTensor")
