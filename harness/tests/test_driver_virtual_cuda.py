"""torch.cuda over host memory."""

import threading

import pytest
import torch

from sidestream.harness.cuda.host_sync import HostLog
from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.dsl.activation import activate
from sidestream.harness.errors import UnsupportedError


@pytest.fixture
def world():
    device = activate(arch="sm_120a")
    with VirtualCuda(device, AllocationTable(), stream=0x40) as world:
        yield world


FACTORIES = {
    "empty": lambda: torch.empty(3, 4, device="cuda"),
    "empty-strided": lambda: torch.empty_strided((2, 3), (1, 2), device="cuda:0"),
    "zeros": lambda: torch.zeros(5, device=torch.device("cuda")),
    "arange": lambda: torch.arange(4, device=0),
    "tensor": lambda: torch.tensor([1, 2, 3], device="cuda"),
    "full": lambda: torch.full((2, 2), 7.0, device="cuda"),
    "to": lambda: torch.ones(3).to("cuda"),
    "to-dtype": lambda: torch.ones(3).to("cuda", torch.float16),
    "to-keyword": lambda: torch.ones(3).to(device="cuda"),
    "cuda": lambda: torch.ones(3).cuda(),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_tensors_made_for_the_device_land_in_the_table(world, name):
    made = FACTORIES[name]()
    assert made.is_cuda
    assert made.device == torch.device("cuda:0")
    assert made.get_device() == 0
    allocation = world.table.at(made.data_ptr())
    assert allocation is not None
    assert allocation.va % 256 == 0
    host = made.cpu()
    assert not host.is_cuda
    assert host.device.type == "cpu"
    assert host.data_ptr() != made.data_ptr()


def test_values_survive_the_move(world):
    values = torch.arange(12.0).reshape(3, 4).t()
    there = values.to("cuda")
    assert torch.equal(there.cpu(), values)
    assert torch.tensor([1, 2, 3], device="cuda").tolist() == [1, 2, 3]
    assert torch.zeros(4, device="cuda").cpu().sum() == 0
    half = torch.ones(2).to("cuda", torch.float16)
    assert half.dtype == torch.float16
    assert half.to(torch.float32).is_cuda


def test_host_tensors_stay_on_the_host(world):
    host = torch.zeros(4)
    assert not host.is_cuda
    assert host.device.type == "cpu"
    assert world.table.at(host.data_ptr()) is None
    assert not (host + 1).is_cuda


def test_results_of_device_tensors_are_on_the_device(world):
    there = torch.ones(8, device="cuda")
    for result in (
        there + 1,
        there.contiguous(),
        there.to(torch.int32),
        torch.empty_like(there),
        there.new_zeros(3),
        torch.cumsum(there, 0),
        there[2:5],
    ):
        assert result.is_cuda
        assert world.table.at(result.data_ptr()) is not None


def test_the_chip_answers(world):
    assert torch.cuda.is_available()
    assert torch.cuda.get_device_capability() == (12, 0)
    assert torch.cuda.get_device_properties(0).multi_processor_count == 4
    assert torch.cuda.current_stream().cuda_stream == 0x40
    assert torch._C._cuda_getCurrentRawStream(0) == 0x40
    driver = pytest.importorskip("cuda.bindings.driver")
    status, current = driver.cuCtxGetCurrent()
    assert int(status) == 0
    assert int(current) != 0
    smem = (
        driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    )
    assert driver.cuDeviceGetAttribute(smem, 0)[1] == 101376


def test_the_driver_fills_device_memory(world):
    driver = pytest.importorskip("cuda.bindings.driver")
    there = torch.zeros(24, dtype=torch.int32, device="cuda")
    start, home = there.data_ptr(), world.table.at(there.data_ptr())
    home.forget_writes()
    log = HostLog(table=world.table)
    with log:
        calls = [
            driver.cuMemsetD32Async(start + 8, 0x01020304, 3, 0x40),
            driver.cuMemsetD2D32Async(start + 40, 8, 9, 1, 2, 0x40),
            driver.cuMemsetD8(start, 0xAB, 2),
            driver.cuMemsetD32Async(start + 92, 1, 2, 0),  # a word too far
            driver.cuMemsetD16Async(64, 1, 2, 0),  # nobody's memory
        ]
    assert [int(status) for (status,) in calls] == [0, 0, 0, 1, 1]
    words = home.data[:96].view("i4").tolist()
    assert words[2:5] == [0x01020304] * 3
    assert words[10:13] == [9, 0, 9]
    assert words[0] == 0xABAB
    assert words[23] == 0
    assert home.init[:96].reshape(24, 4).any(axis=1).nonzero()[0].tolist() == [
        *(0, 2, 3, 4, 10, 12)
    ]
    assert [(e.kind, e.operation, e.stream) for e in log.events] == [
        ("hidden-launch", "cuMemsetD32Async", 0x40),
        ("hidden-launch", "cuMemsetD2D32Async", 0x40),
        ("hidden-launch", "cuMemsetD8", None),
        ("hidden-launch", "cuMemsetD32Async", 0),
        ("hidden-launch", "cuMemsetD16Async", 0),
    ]
    assert [e.detail for e in log.events] == [home.name] * 4 + ["unknown memory"]


def test_dlpack_says_cuda_inside_and_cpu_outside():
    tvm_ffi = pytest.importorskip("tvm_ffi")
    device = activate(arch="sm_120a")
    with VirtualCuda(device, AllocationTable()) as world:
        there = torch.ones(4, device="cuda")
        assert tvm_ffi.from_dlpack(there).device.type == "cuda"
        assert tvm_ffi.from_dlpack(there[1:]).device.type == "cuda"
        assert tvm_ffi.from_dlpack(torch.ones(4)).device.type == "cpu"
        assert there.__dlpack_device__() == (2, 0)
        assert tvm_ffi.from_dlpack(there[:0]).device.type == "cuda"
        assert world.holds(there)
    assert tvm_ffi.from_dlpack(there).device.type == "cpu"


def test_everything_is_as_before_outside():
    device = activate(arch="sm_120a")
    before = (torch.cuda.is_available(), torch.Tensor.device, torch.cuda.Stream)
    with VirtualCuda(device, AllocationTable()):
        there = torch.ones(4, device="cuda")
    assert before == (torch.cuda.is_available(), torch.Tensor.device, torch.cuda.Stream)
    assert there.device.type == "cpu"
    assert not there.is_cuda


def test_worlds_nest_and_streams_follow():
    device = activate(arch="sm_120a")
    with VirtualCuda(device, AllocationTable(), stream=1):
        kept = torch._C._cuda_getCurrentRawStream
        assert kept(0) == 1
    with VirtualCuda(device, AllocationTable(), stream=2):
        assert kept(0) == 2
        assert torch.cuda.current_stream().cuda_stream == 2


def test_streams_are_torchs_and_a_handle_is_shown_as_it_was_given():
    device = activate(arch="sm_120a")
    with VirtualCuda(device, AllocationTable(), stream=1) as world:
        assert torch.cuda.current_stream() == torch.cuda.default_stream()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            assert torch._C._cuda_getCurrentRawStream(0) == side.cuda_stream != 1
            event = torch.cuda.current_stream().record_event()
        event.synchronize()
        assert torch._C._cuda_getCurrentRawStream(0) == 1
        world.choose(0x99)
        assert torch.cuda.current_stream().cuda_stream == 0x99
        assert world.stream == torch.cuda.current_stream()


def test_threads_see_the_device(world):
    seen = []
    thread = threading.Thread(
        target=lambda: seen.append(torch.ones(2, device="cuda").is_cuda)
    )
    thread.start()
    thread.join()
    assert seen == [True]


def test_autograd_optimizers_and_pinned_memory_work(world):
    layer = torch.nn.Linear(4, 2, device="cuda")
    host = torch.ones(3, 4).pin_memory()
    assert host.is_pinned()
    assert not host.is_cuda
    layer(host.to("cuda", non_blocking=True)).sum().backward()
    torch.optim.SGD(layer.parameters(), lr=0.5).step()
    assert layer.bias.grad.is_cuda
    assert layer.bias.grad.tolist() == [3.0, 3.0]


def test_what_the_table_holds_is_counted(world):
    before = torch.cuda.memory_allocated()
    kept = torch.empty(1000, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() - before == kept.numel()


def test_host_and_device_tensors_do_not_mix(world):
    with pytest.raises(RuntimeError, match="on the same device"):
        torch.ones(3, device="cuda") + torch.ones(3)


def test_graphs_are_refused_by_name(world):
    with pytest.raises(UnsupportedError, match="sidestream run"):
        torch.cuda.CUDAGraph()
