"""Two devices under torch: where tensors lie, what orders copies between them."""

import pytest
import torch
from vtorch_case import device, kinds

from sidestream.harness.errors import UnsupportedError
from sidestream.harness.runtime import CudaError
from sidestream.harness.vtorch.dlpack import _device

POLICIES = ("eager", "laziest", "latest")


@pytest.fixture(params=POLICIES)
def gpus(request):
    with device(request.param, devices=2) as made:
        yield made


def on(index, size=4, value=1.0):
    return torch.full((size,), value, device=f"cuda:{index}")


def test_tensors_say_where_they_lie(gpus):
    assert torch.cuda.device_count() == 2
    assert torch.accelerator.device_count() == 2
    second = on(1)
    empty = torch.empty(0, device="cuda:1")
    for made in (second, second * 2, second[1:], torch.zeros_like(second), empty):
        assert str(made.device) == "cuda:1"
        assert made.get_device() == 1
        assert made.is_cuda
    assert torch.zeros_like(second, device="cuda:0").get_device() == 0
    assert second.new_zeros(2).get_device() == 1
    assert second.untyped_storage().device.index == 1
    assert second.__dlpack_device__() == (2, 1)
    assert list(_device(second.__dlpack__(), b"dltensor")) == [2, 1]
    assert torch.from_dlpack(second).get_device() == 1
    assert "cuda:1" in repr(second)
    assert second.tolist() == [1.0] * 4
    assert kinds(gpus) == []


def test_the_current_device_is_where_cuda_without_an_index_goes(gpus):
    assert torch.cuda.current_device() == 0
    with torch.cuda.device(1):
        made = torch.ones(2, device="cuda")
        assert torch.cuda.current_stream().device.index == 1
    assert made.get_device() == 1
    assert torch.cuda.current_device() == 0
    # A tensor of another device moves; only its own operators stay where it is.
    assert made.cuda().get_device() == 0
    assert made.to("cuda").get_device() == 0
    assert made.to(1) is made
    with torch.cuda.device_of(made):
        assert torch.cuda.current_device() == 1
    with torch.cuda.stream(torch.cuda.Stream(device=1)):
        assert torch.cuda.current_device() == 1
    assert torch.cuda.current_device() == 0
    torch.cuda.set_device(1)
    assert torch.accelerator.current_device_index() == 1
    torch.cuda.set_device(0)
    with pytest.raises(CudaError, match="cudaErrorInvalidDevice"):
        torch.cuda.set_device(2)
    assert kinds(gpus) == []


@pytest.mark.parametrize("call", [torch.add, torch.mm, torch.cat])
def test_tensors_of_two_devices_do_not_mix(gpus, call):
    a, b = (torch.ones(2, 2, device=f"cuda:{index}") for index in (0, 1))
    with pytest.raises(RuntimeError, match=r"cuda:0 and cuda:1"):
        call((a, b)) if call is torch.cat else call(a, b)


def test_an_operator_goes_to_the_stream_of_its_tensors_device(gpus):
    """The current device does not decide (torch notes, "CUDA semantics")."""
    side = torch.cuda.Stream(device=1)
    made = on(1)
    with torch.cuda.stream(side), torch.cuda.device(0):
        made.add_(1)  # on `side`, behind nothing
    assert set(kinds(gpus)) == {"stream-race"}


def test_an_operator_is_ordered_with_others_of_its_tensors_device(gpus):
    with torch.cuda.stream(torch.cuda.Stream(device=1)):
        made = on(1)
        with torch.cuda.device(0):
            made.add_(1)
        made.mul_(2)
    assert kinds(gpus) == []


def test_after_backward_the_streams_of_all_devices_know_of_the_gradients(gpus):
    """torch notes, "Stream semantics of backward passes"."""
    weight = on(1).requires_grad_()
    side = torch.cuda.Stream(device=1)
    side.wait_stream(torch.cuda.current_stream(1))
    with torch.cuda.stream(side):
        loss = (weight * 2).sum().to("cuda:0")
    weight.record_stream(side)
    loss.backward()
    assert weight.grad.add(1).tolist() == [3.0] * 4
    assert kinds(gpus) == []


def crossed(producer=None, consumer=None, after=None):
    """Make x on device 0, bring it to device 1 and use it there.

    Each argument is a stream on which that step takes place; the current one if None.
    """
    with torch.cuda.stream(producer):
        x = on(0, value=3.0)
    y = x.to("cuda:1", non_blocking=True)
    with torch.cuda.stream(after):
        x.zero_()
    with torch.cuda.stream(consumer):
        return y + 1, x, y


def test_a_copy_between_devices_is_ordered_with_the_current_streams(gpus):
    first = torch.cuda.Stream(device=0)
    with torch.cuda.stream(torch.cuda.Stream(device=1)), torch.cuda.stream(first):
        z, x, y = crossed()
        torch.cuda.synchronize(1)
        assert z.tolist() == [4.0] * 4
        assert x.tolist() == [0.0] * 4
        assert y.get_device() == 1
    assert kinds(gpus) == []


@pytest.mark.parametrize(
    ("step", "index"), [("producer", 0), ("consumer", 1), ("after", 0)]
)
def test_a_copy_between_devices_knows_nothing_of_other_streams(gpus, step, index):
    side = torch.cuda.Stream(device=index)
    kept = crossed(**{step: side})
    assert set(kinds(gpus)) == {"stream-race"}
    del kept


def test_a_copy_into_another_device_waits_for_who_uses_the_target(gpus):
    """The copy runs on the source's stream, behind the target's."""
    target, source = on(1), on(0, value=2.0)
    seen = target * 1
    target.copy_(source)
    target.copy_(source[0])
    assert seen.tolist() == [1.0] * 4
    assert target.tolist() == [2.0] * 4
    assert target.to("cuda:0", torch.float16).tolist() == [2.0] * 4
    assert kinds(gpus) == []


def test_an_event_belongs_to_the_device_it_is_recorded_on_first(gpus):
    event = torch.cuda.Event()
    assert event.device is None
    event.record(torch.cuda.current_stream(1))
    assert event.device.index == 1
    event.wait(torch.cuda.current_stream(0))
    with pytest.raises(RuntimeError, match="Event device 1 does not match"):
        event.record(torch.cuda.current_stream(0))
    assert [r.name for r in gpus.runtime.refusals] == ["cudaErrorInvalidResourceHandle"]


@pytest.mark.parametrize("waits", [True, False])
def test_an_event_orders_streams_of_two_devices(gpus, waits):
    """One device stages through pinned memory for the other."""
    made, there = on(0, value=5.0), on(1)
    staged = torch.empty(4, pin_memory=True)
    staged.copy_(made, non_blocking=True)
    event = torch.cuda.current_stream(0).record_event()
    if waits:
        torch.cuda.current_stream(1).wait_event(event)
    there.copy_(staged, non_blocking=True)
    if waits:
        assert there.tolist() == [5.0] * 4
    assert kinds(gpus) == ([] if waits else ["stream-race"])


def split(devices):
    """One step of a model whose halves lie on two devices; return its weights."""
    torch.manual_seed(0)
    halves = [torch.nn.Linear(4, 4).to(d) for d in devices]
    weights = [w for half in halves for w in half.parameters()]
    optimizer = torch.optim.AdamW(weights, lr=0.1)
    for _ in range(3):
        hidden = halves[0](torch.ones(2, 4).to(devices[0])).relu()
        loss = halves[1](hidden.to(devices[1])).square().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 0.5)
        optimizer.step()
    return [w.detach().cpu() for w in weights]


@pytest.mark.parametrize("on_sides", [False, True])
def test_a_model_over_two_devices_trains_as_on_the_host(gpus, on_sides):
    wanted = split(["cpu", "cpu"])
    if on_sides:
        for index in (0, 1):
            torch.cuda.set_stream(torch.cuda.Stream(device=index))
        torch.cuda.set_device(0)
    got = split(["cuda:0", "cuda:1"])
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b)
    assert kinds(gpus) == []


def test_each_device_draws_numbers_of_its_own(gpus):
    torch.manual_seed(1)
    first = torch.randn(3, device="cuda:0").tolist()
    assert torch.randn(3, device="cuda:1").tolist() == first
    state = torch.cuda.get_rng_state("cuda:1")
    drawn = torch.rand(3, device="cuda:1").tolist()
    torch.rand(3, device="cuda:0")
    torch.cuda.set_rng_state(state, "cuda:1")
    assert torch.rand(3, device="cuda:1").tolist() == drawn
    assert torch.Generator("cuda:1").device.index == 1


def test_memory_is_counted_for_each_device(gpus):
    before = torch.cuda.memory_allocated(0)
    kept = on(1, size=1000)
    assert torch.cuda.memory_allocated(0) == before
    assert torch.cuda.memory_allocated(1) == 4096
    del kept
    assert torch.cuda.memory_allocated(1) == 0
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved(1) == 0


def test_what_has_no_model_is_refused_by_name(gpus):
    with pytest.raises(UnsupportedError, match=r"comm\.broadcast"):
        torch.nn.parallel.comm.broadcast(on(0), (0, 1))
    replicated = torch.nn.DataParallel(torch.nn.Linear(4, 4).cuda(), [0, 1])
    with pytest.raises(UnsupportedError, match=r"comm\.scatter"):
        replicated(torch.ones(2, 4, device="cuda"))
    with pytest.raises(UnsupportedError, match="_foreach_add"):
        torch._foreach_add([on(0), on(1)], 1.0)
