"""What the virtual device does not have, refused by its name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NoReturn

import torch

from sidestream.harness.vtorch.attributes import Change
from sidestream.harness.vtorch.compiled import refused_at_call
from sidestream.harness.vtorch.world import World

Refuse = Callable[[str], NoReturn]
"""`Runtime.not_modelled`."""

_MEMORY = (
    *("use_mem_pool", "MemPool", "memory_snapshot", "memory_summary"),
    *("change_current_allocator", "CUDAPluggableAllocator", "caching_allocator_alloc"),
)
_MEMORY_INSIDE = ("_snapshot", "_dump_snapshot", "_record_memory_history")
_LINK = (
    *("broadcast", "broadcast_coalesced", "reduce_add", "reduce_add_coalesced"),
    *("scatter", "gather"),
)
_NCCL = (
    *("version", "unique_id", "init_rank", "all_reduce", "reduce", "broadcast"),
    *("all_gather", "reduce_scatter"),
)
_SENSORS = ("temperature", "power_draw", "clock_rate", "utilization", "memory_usage")


def changes(world: World) -> Iterator[Change]:
    """Yield what is replaced by a refusal, which leaves the run incomplete."""
    cuda, refuse = torch.cuda, world.runtime.not_modelled
    for name in ("cudart", "current_blas_handle", *_MEMORY, *_SENSORS):
        yield cuda, name, _refusal(refuse, f"torch.cuda.{name}")
    for name in _MEMORY:
        yield cuda.memory, name, _refusal(refuse, f"torch.cuda.{name}")
    for name in _MEMORY_INSIDE:
        yield cuda.memory, name, _refusal(refuse, f"torch.cuda.memory.{name}")
    for name in _LINK:
        yield torch.nn.parallel.comm, name, _refusal(refuse, f"torch.cuda.comm.{name}")
    for name in ("_create_jit_fn", "_create_multi_output_jit_fn"):
        made = _refusal(refuse, "a kernel of torch.cuda.jiterator")
        yield cuda.jiterator, name, lambda *args, made=made, **kwargs: made
    yield from _all_of(refuse, cuda.tunable, "torch.cuda.tunable")
    yield from _all_of(refuse, cuda.gds, "torch.cuda.gds")
    for name in _NCCL:
        yield cuda.nccl, name, _refusal(refuse, f"torch.cuda.nccl.{name}")
    yield (
        cuda.green_contexts.GreenContext,
        "create",
        staticmethod(_refusal(refuse, "torch.cuda.green_contexts.GreenContext")),
    )
    yield cuda, "_compile_kernel", _refusal(refuse, "torch.cuda._compile_kernel")
    yield from _tracing(refuse)
    yield from _profiling(refuse)
    yield from _distributed(refuse)
    yield torch.UntypedStorage, "_share_cuda_", _between_processes(world)
    autocast: Any = torch.amp.autocast_mode.autocast
    enter = autocast.__enter__

    def cast(mode: Any) -> Any:
        if mode.device == "cuda" and mode._enabled:
            refuse("torch.autocast('cuda')")
        return enter(mode)

    yield autocast, "__enter__", cast
    yield torch, "compile", refused_at_call(refuse, torch.compile)


def _refusal(refuse: Refuse, name: str) -> Callable[..., object]:
    def refused(*args: object, **kwargs: object) -> object:
        refuse(name)

    return refused


def _all_of(refuse: Refuse, module: ModuleType, name: str) -> Iterator[Change]:
    for member in module.__all__:
        yield module, member, _refusal(refuse, f"{name}.{member}")


def _tracing(refuse: Refuse) -> Iterator[Change]:
    """Yield what looks at a program by tensors that have no data, or by a tracer."""
    fake: Any = torch._subclasses.FakeTensorMode
    name = "a fake tensor (torch.export, torch.compile)"
    yield fake, "__enter__", _refusal(refuse, name)
    for traced in ("trace", "trace_module"):
        yield torch.jit, traced, _refusal(refuse, f"torch.jit.{traced}")


def _profiling(refuse: Refuse) -> Iterator[Change]:
    """Yield what measures the device; marks for a profiler from outside are none."""
    profile: Any = torch.profiler.profiler._KinetoProfile
    make = profile.__init__
    cuda = torch.profiler.ProfilerActivity.CUDA

    @functools.wraps(make)
    def made(self: Any, *, activities: Any = None, **options: Any) -> None:
        chosen = None if activities is None else tuple(activities)
        if chosen is not None and any(
            cuda in one if isinstance(one, dict) else one == cuda for one in chosen
        ):
            refuse(
                "torch.profiler of ProfilerActivity.CUDA "
                "(activities=[ProfilerActivity.CPU] runs)"
            )
        only = (torch.profiler.ProfilerActivity.CPU,)
        make(self, activities=only if chosen is None else chosen, **options)

    yield profile, "__init__", made
    old: Any = torch.autograd.profiler.profile
    begin = old.__init__

    @functools.wraps(begin)
    def began(self: Any, *args: Any, **options: Any) -> None:
        given = inspect.signature(begin).bind(self, *args, **options).arguments
        if given.get("use_cuda") or given.get("use_device") == "cuda":
            refuse("torch.autograd.profiler of the device (use_device=None runs)")
        begin(self, *args, **options)

    yield old, "__init__", began
    nvtx: Any = torch.autograd.profiler.emit_nvtx
    yield nvtx, "__enter__", _refusal(refuse, "torch.autograd.profiler.emit_nvtx")
    for name in ("start", "stop"):
        yield torch.cuda.profiler, name, lambda: None


def _distributed(refuse: Refuse) -> Iterator[Change]:
    """Yield the makers of process groups; NCCL would need the devices of others."""
    for name in ("init_process_group", "new_group"):
        make = getattr(torch.distributed, name, None)
        if make is None:  # torch without distributed
            continue
        yield torch.distributed, name, _without_nccl(refuse, name, make)


def _without_nccl(
    refuse: Refuse, name: str, make: Callable[..., Any]
) -> Callable[..., Any]:
    @functools.wraps(make)
    def made(*args: Any, **options: Any) -> Any:
        given = inspect.signature(make).bind(*args, **options).arguments
        if "nccl" in str(given.get("backend")).lower():
            refuse(
                f"torch.distributed.{name} with nccl (a script of one process without "
                "a process group runs)"
            )
        return make(*args, **options)

    return made


def _between_processes(world: World) -> Callable[..., object]:
    share: Any = torch.UntypedStorage._share_cuda_

    def shared(storage: torch.UntypedStorage, *args: object) -> object:
        if world.storages.holds_storage(storage):
            world.runtime.not_modelled("memory of the device for other processes")
        return share(storage, *args)

    return shared
