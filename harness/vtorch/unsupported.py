"""What the virtual device does not have, refused by its name."""

from __future__ import annotations

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
        yield cuda.jiterator, name, _refusal(refuse, "torch.cuda.jiterator")
    yield from _all_of(refuse, cuda.tunable, "torch.cuda.tunable")
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


def _between_processes(world: World) -> Callable[..., object]:
    share: Any = torch.UntypedStorage._share_cuda_

    def shared(storage: torch.UntypedStorage, *args: object) -> object:
        if world.storages.holds_storage(storage):
            world.runtime.not_modelled("memory of the device for other processes")
        return share(storage, *args)

    return shared
