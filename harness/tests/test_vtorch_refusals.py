"""What of torch's CUDA has no model: each is refused by name, or noted."""

import pytest
import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile
from vtorch_case import device

from sidestream.harness.errors import UnsupportedError
from sidestream.harness.vtorch.allocator_settings import of_environment, unmodelled


@pytest.fixture
def gpu():
    with device("eager") as made:
        yield made


def _ones():
    return torch.ones(2, device="cuda")


def _reduced():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        dist.all_reduce(_ones())
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("autocast", lambda: torch.autocast("cuda").__enter__()),
        ("MemPool", lambda: torch.cuda.MemPool()),
        ("an event for other processes", lambda: torch.cuda.Event(interprocess=True)),
        ("an external event", lambda: torch.cuda.Event(external=True)),
        ("debug_dump", lambda: torch.cuda.CUDAGraph().debug_dump("x")),
        ("sparse", lambda: torch.ones(2, device="cuda").to_sparse()),
        ("cudart", lambda: torch.cuda.cudart()),
        (
            "for other processes",
            lambda: torch.ones(2, device="cuda").untyped_storage()._share_cuda_(),
        ),
        ("_record_memory_history", lambda: torch.cuda.memory._record_memory_history()),
        ("jiterator", lambda: torch.cuda.jiterator._create_jit_fn("")(_ones())),
        ("tunable", lambda: torch.cuda.tunable.is_enabled()),
        ("temperature", lambda: torch.cuda.temperature()),
        (r"GreenContext", lambda: torch.cuda.green_contexts.GreenContext.create(4)),
        (r"nccl.version", lambda: torch.cuda.nccl.version()),
        ("init_process_group with nccl", lambda: dist.init_process_group("nccl")),
        ("new_group with nccl", lambda: dist.new_group(backend="cpu:gloo,cuda:nccl")),
        ("c10d.allreduce_", _reduced),
        ("ProfilerActivity.CPU", lambda: profile(activities=[ProfilerActivity.CUDA])),
        (
            "autograd.profiler of the device",
            lambda: torch.autograd.profiler.profile(use_device="cuda"),
        ),
        ("emit_nvtx", lambda: torch.autograd.profiler.emit_nvtx().__enter__()),
        ("fake tensor", lambda: torch.export.export(torch.nn.Identity(), (_ones(),))),
        ("jit.trace", lambda: torch.jit.trace(torch.sin, _ones())),
        ("gds_register_buffer", lambda: torch.cuda.gds.gds_register_buffer(None)),
        ("qint8", lambda: torch.quantize_per_tensor(_ones(), 0.1, 0, torch.qint8)),
        (
            "CUDAPluggableAllocator",
            lambda: torch.cuda.CUDAPluggableAllocator("", "", ""),
        ),
        ("sin, compiled by torch.compile", lambda: torch.compile(torch.sin)(None)),
    ],
)
def test_what_is_not_supported_says_so_by_name(gpu, name, make):
    """A program may catch the error; the run is incomplete all the same."""
    with pytest.raises(UnsupportedError, match=name) as raised:
        make()
    reasons = [entry.reason for entry in gpu.runtime.incomplete()]
    assert str(raised.value) in reasons


def test_what_is_compiled_is_refused_when_it_is_called_and_not_before(gpu):
    @torch.compile(dynamic=True)
    def halved(value):
        return value / 2

    layer = torch.nn.Linear(2, 2, device="cuda")
    model = torch.compile(layer)
    assert halved.__name__ == "halved"
    assert set(model.state_dict()) == {"_orig_mod.weight", "_orig_mod.bias"}
    assert list(model.parameters()) == [layer.weight, layer.bias]
    assert model.in_features == 2
    assert not model.eval().training
    assert not layer.training
    assert gpu.runtime.incomplete() == ()
    for call, name in ((halved, "halved"), (model, "Linear")):
        with pytest.raises(UnsupportedError, match=rf"{name}, compiled by torch"):
            call(torch.ones(2, device="cuda"))
    layer.compile()
    with pytest.raises(UnsupportedError, match="TORCH_COMPILE_DISABLE"):
        layer(torch.ones(2, device="cuda"))
    assert len(gpu.runtime.incomplete()) == 3


def test_a_profiler_of_the_host_runs(gpu):
    with profile() as seen:
        torch.cuda.profiler.start()
        value = (torch.ones(2, device="cuda") + 1).tolist()
        torch.cuda.profiler.stop()
    assert value == [2, 2]
    assert seen.key_averages()
    assert gpu.runtime.incomplete() == ()


def test_the_accelerator_tells_of_memory_as_cuda_does(gpu):
    value = torch.empty(1000, device="cuda")
    assert torch.accelerator.memory_allocated() == 4096
    assert torch.accelerator.max_memory_reserved() == torch.cuda.memory_reserved()
    del value
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_stats()["reserved_bytes.all.current"] == 0
    assert torch.accelerator.get_memory_info() == torch.cuda.mem_get_info()


@pytest.mark.parametrize(
    ("settings", "open_ones"),
    [
        ("", []),
        ("expandable_segments:False, backend:native", []),
        ("pinned_use_cuda_host_register:True,pinned_num_register_threads:8", []),
        ("expandable_segments:True", ["expandable_segments:True"]),
        (
            "roundup_power2_divisions:[256:1,>:8],max_split_size_mb:64",
            ["roundup_power2_divisions:[256:1,>:8]", "max_split_size_mb:64"],
        ),
    ],
)
def test_settings_of_the_allocator_that_have_no_model_are_named(
    gpu, settings, open_ones
):
    before = list(unmodelled("X", settings))
    assert [reason.split(" has no ")[0] for reason in before] == [
        f"X: {one}" for one in open_ones
    ]
    assert of_environment({"PYTORCH_CUDA_ALLOC_CONF": settings}) == unmodelled(
        "PYTORCH_CUDA_ALLOC_CONF", settings
    )
    torch._C._accelerator_setAllocatorSettings(settings)
    assert len(gpu.runtime.incomplete()) == len(open_ones)


def test_compile_is_the_function_itself_where_it_is_switched_off(gpu, monkeypatch):
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    value = torch.ones(2, device="cuda")
    assert torch.compile(lambda x: x * 2, disable=True)(value).tolist() == [2, 2]
