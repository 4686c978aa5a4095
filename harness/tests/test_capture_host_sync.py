"""Everything a host may not do on execute is seen, once, with its source line."""

import contextlib

import numpy as np
import pytest
import torch

from sidestream.harness.cuda.host_sync import HostLog
from sidestream.harness.cuda.memory import AllocationTable


class World:
    """Two device tensors and a host tensor."""

    def __init__(self):
        self.table = AllocationTable()
        lens = self.table.allocate(5 * 4, "lens", fill=b"\x03\x00\x00\x00")
        out = self.table.allocate(64 * 4, "out", fill=b"\0")
        self.lens = lens.tensor(torch.int32, (5,))
        self.out = out.tensor(torch.float32, (8, 8))
        self.host = torch.zeros(5, dtype=torch.int32)


@pytest.fixture
def world():
    return World()


READS = {
    "item": lambda w: w.lens[0].item(),
    "tolist": lambda w: w.lens.tolist(),
    "cpu": lambda w: w.lens.cpu(),
    "to-cpu": lambda w: w.lens.to("cpu"),
    "to-cpu-keyword": lambda w: w.lens.to(device=torch.device("cpu")),
    "numpy": lambda w: w.lens.numpy(),
    "asarray": lambda w: np.asarray(w.lens),
    "bool": lambda w: bool(w.lens[0]),
    "int": lambda w: int(w.lens[0]),
    "float": lambda w: float(w.out[0, 0]),
    "index": lambda w: range(10)[w.lens[0]],
    "if": lambda w: 1 if w.lens[0] else 0,
    "repr": lambda w: repr(w.lens),
    "format": lambda w: f"{w.lens[0]}",
    "nonzero": lambda w: w.lens.nonzero(),
    "torch-nonzero": lambda w: torch.nonzero(w.lens),
    "where": lambda w: torch.where(w.lens),
    "masked-select": lambda w: w.out[0, :5].masked_select(w.host == 0),
    "equal": lambda w: torch.equal(w.lens, w.host),
    "allclose": lambda w: torch.allclose(w.out, w.out),
    "unique": lambda w: torch.unique(w.lens),
    "copy-to-host": lambda w: w.host.copy_(w.lens),
    "in": lambda w: 3 in w.lens,
    "list": lambda w: [int(v) for v in w.lens[:1]],
    "device-sync": lambda w: torch.cuda.synchronize(),
    "stream-sync": lambda w: torch.cuda.Stream.synchronize(object()),
    "event-sync": lambda w: torch.cuda.Event.synchronize(object()),
    "repeat-interleave": lambda w: torch.repeat_interleave(w.lens),
}


@pytest.mark.parametrize("name", READS)
def test_a_read_or_wait_is_seen_once_with_its_source(world, name):
    with HostLog(table=world.table) as log:
        READS[name](world)
    events = log.of_kind("host-sync")
    assert len(events) == 1, [e.operation for e in log.events]
    assert log.of_kind("hidden-launch") == ()
    assert "test_capture_host_sync.py:" in events[0].site.source
    finding = events[0].finding(kernel="fwd")
    assert finding.kind == "host-sync"
    assert finding.sites[0].operation == events[0].operation
    assert finding.witness == events[0].stack


def test_boolean_masks_read_and_integer_indices_launch(world):
    mask = world.table.adopt(torch.ones(5, dtype=torch.bool), "mask")
    mask_tensor = mask.tensor(torch.bool, (5,))
    with HostLog(table=world.table) as log:
        world.lens[mask_tensor]
    assert [e.kind for e in log.events] == ["host-sync"]
    with HostLog(table=world.table) as log:
        world.lens[world.lens.view(5)[:2].long()]
    assert {e.kind for e in log.events} == {"hidden-launch"}


LAUNCHES = {
    "fill": lambda w: w.out.fill_(0),
    "zero": lambda w: w.out.zero_(),
    "assign": lambda w: w.out.__setitem__(0, 1.0),
    "copy-in": lambda w: w.lens.copy_(w.host),
    "convert": lambda w: w.lens.to(torch.int64),
    "contiguous": lambda w: w.out.t().contiguous(),
    "clone": lambda w: w.out.clone(),
    "arithmetic": lambda w: w.lens + 1,
    "cumsum": lambda w: torch.cumsum(w.lens, 0),
    "zeros-like": lambda w: torch.zeros_like(w.out),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_hidden_launch_is_seen(world, name):
    with HostLog(table=world.table) as log:
        LAUNCHES[name](world)
    assert log.of_kind("host-sync") == ()
    assert log.of_kind("hidden-launch"), log.events
    assert "test_capture_host_sync.py:" in log.events[0].site.source


ALLOCATIONS = {
    "empty": lambda: torch.empty(3),
    "zeros": lambda: torch.zeros(3, 4),
    "full": lambda: torch.full((2,), 1.0),
    "arange": lambda: torch.arange(4),
    "tensor": lambda: torch.tensor([1, 2]),
    "strided": lambda: torch.empty_strided((2, 2), (2, 1)),
}


@pytest.mark.parametrize("name", ALLOCATIONS)
def test_an_allocation_is_seen(world, name):
    with HostLog(table=world.table) as log:
        ALLOCATIONS[name]()
    assert log.of_kind("host-alloc")
    assert log.of_kind("host-sync") == ()


def test_views_metadata_and_host_work_are_no_events(world):
    with HostLog(table=world.table) as log:
        view = world.out[1:3].transpose(0, 1).unsqueeze(0).view(1, 8, 2).expand(1, 8, 2)
        assert view.shape == (1, 8, 2)
        assert view.stride(2) == 8
        assert view.data_ptr() == world.out.data_ptr() + 32
        assert view.dtype.is_floating_point
        assert not view.is_contiguous()
        world.out.view(torch.int32).detach()
        int(world.host[0])
        world.host.tolist()
        world.host.add_(1)
    assert log.events == []


def test_pausing_and_leaving_stop_the_log(world):
    with HostLog(table=world.table) as log, log.paused():
        world.lens.tolist()
        world.out.fill_(1)
        torch.cuda.synchronize()
    world.lens.tolist()
    assert log.events == []


def test_driver_calls_are_watched(world):
    driver = pytest.importorskip("cuda.bindings.driver")
    with HostLog(table=world.table) as log:
        assert driver.cuStreamSynchronize(0) == (driver.CUresult.CUDA_SUCCESS,)
        with contextlib.suppress(RuntimeError):  # there may be no driver
            driver.cuMemAlloc(16)
    assert [(e.kind, e.operation) for e in log.events] == [
        ("host-sync", "cuStreamSynchronize"),
        ("host-alloc", "cuMemAlloc"),
    ]


def test_a_fill_is_known_by_the_names_of_its_arguments(world):
    driver = pytest.importorskip("cuda.bindings.driver")
    place = world.out.data_ptr()
    with HostLog(table=world.table) as log, contextlib.suppress(RuntimeError):
        driver.cuMemsetD8Async(hStream=7, N=4, uc=0, dstDevice=place)
    (event,) = log.of_kind("hidden-launch")
    assert (event.detail, event.stream) == ("out", 7)


def test_waits_of_compiled_host_functions_join_the_log(world):
    log = HostLog(table=world.table)
    log.block("cudaStreamSynchronize", 0x70)
    assert log.events[0].detail == "stream 0x70"
