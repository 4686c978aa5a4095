"""`torch.cuda` and whatever else asks about the device, answered from the world."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from sidestream.harness.vtorch import (
    allocator_settings,
    device_names,
    unsupported,
)
from sidestream.harness.vtorch.attributes import Change
from sidestream.harness.vtorch.dlpack import capsule, import_capsule
from sidestream.harness.vtorch.generators import AnyGenerator
from sidestream.harness.vtorch.graphs import CUDAGraph
from sidestream.harness.vtorch.groups import by_device
from sidestream.harness.vtorch.streams import Event, ExternalStream, Stream
from sidestream.harness.vtorch.world import (
    HOST,
    World,
    innermost_handle,
    is_cuda,
)

if TYPE_CHECKING:
    from sidestream.harness.dsl.chip import Chip

_MODES = {"default": 0, "warn": 1, "error": 2}


def properties(chip: Chip) -> SimpleNamespace:
    """Return what `torch.cuda.get_device_properties` tells of a chip."""
    major, minor = chip.capability
    return SimpleNamespace(
        name=chip.name,
        major=major,
        minor=minor,
        multi_processor_count=chip.sms,
        total_memory=chip.memory_bytes,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=chip.smem_per_block,
        shared_memory_per_multiprocessor=chip.smem_per_sm,
        regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=chip.threads_per_sm,
        warp_size=32,
        L2_cache_size=chip.l2_bytes,
        is_integrated=0,
        is_multi_gpu_board=0,
        gcnArchName="",
    )


def changes(world: World) -> Iterator[Change]:
    """Yield everything that is replaced while the device is in place."""
    yield from _device(world)
    yield from _streams(world)
    yield from _memory(world)
    yield from _random(world)
    yield from _tensors(world)
    yield from device_names.changes()
    yield from unsupported.changes(world)
    yield from allocator_settings.changes(world)
    engine = world.backward.engine(torch.autograd.graph._engine_run_backward)
    for module in (torch.autograd, torch.autograd.graph):
        yield module, "_engine_run_backward", engine


def _answer(value: object) -> Callable[..., object]:
    return lambda *args, **kwargs: value


_YES, _NO = _answer(value=True), _answer(value=False)


def _device(world: World) -> Iterator[Change]:
    chip = world.chip
    seen = properties(chip)
    index = world.device_index

    def about(value: object) -> Callable[..., object]:
        def tell(device: object = None) -> object:
            index(device)
            return value

        return tell

    def select(device: object) -> None:
        if not isinstance(device, int) or device >= 0:
            world.set_device(index(device))

    def exchange(device: int) -> int:
        if device < 0:
            return -1
        before = world.device()
        world.set_device(index(device))
        return before

    def peers(device: object, peer: object) -> bool:
        return index(device) != index(peer)

    def grouped(tensors: Any, with_indices: bool = False) -> Any:  # noqa: FBT001, FBT002 -- the signature of torch
        return by_device(group(tensors, with_indices))

    group: Any = torch._C._group_tensors_by_device_and_dtype
    yield torch._C, "_group_tensors_by_device_and_dtype", grouped

    cuda = torch.cuda
    answers: dict[str, object] = {
        "is_available": _YES,
        "is_initialized": _YES,
        "is_bf16_supported": _YES,
        "is_tf32_supported": _YES,
        "device_count": _answer(world.devices),
        "current_device": world.device,
        "init": _answer(None),
        "_lazy_init": _answer(None),
        "_is_compiled": _YES,
        "_is_in_bad_fork": _NO,
        "set_device": select,
        "_exchange_device": exchange,
        "_maybe_exchange_device": exchange,
        "get_device_capability": about(chip.capability),
        "get_device_properties": about(seen),
        "get_device_name": about(chip.name),
        "get_arch_list": _answer([chip.arch.rstrip("a")]),
        "can_device_access_peer": peers,
        "ipc_collect": _answer(None),
        "_sleep": _answer(None),
    }
    for name, value in answers.items():
        yield cuda, name, value
    for name, number in {"range_push": 0, "range_pop": 0, "mark": None,
                         "range_start": 0, "range_end": None}.items():  # fmt: skip
        yield torch.cuda.nvtx, name, _answer(number)
    accelerator = torch.accelerator
    for name, value in {
        "is_available": _YES,
        "device_count": _answer(world.devices),
        "current_accelerator": _answer(torch.device("cuda")),
        "current_device_index": world.device,
        "current_device_idx": world.device,
        "set_device_index": select,
        "set_device_idx": select,
    }.items():
        yield accelerator, name, value
    for name, value in {
        "_accelerator_exchangeDevice": exchange,
        "_accelerator_maybeExchangeDevice": exchange,
    }.items():
        yield torch._C, name, value
    yield torch.backends.cuda, "is_built", _YES


def _streams(world: World) -> Iterator[Change]:
    cuda, runtime = torch.cuda, world.runtime
    stream: type[Stream] = type("Stream", (Stream,), {"world": world})
    external: type[ExternalStream] = type(
        "ExternalStream", (ExternalStream, stream), {"world": world}
    )
    event = type("Event", (Event,), {"world": world})
    graph = type("CUDAGraph", (CUDAGraph,), {"world": world})

    class GenericEvent(event):  # type: ignore[misc, valid-type]
        """`torch.Event`: an event of a device named first."""

        def __init__(
            self,
            device: object = None,
            *,
            enable_timing: bool = False,
            blocking: bool = False,
            interprocess: bool = False,
        ) -> None:
            world.device_index(device)
            super().__init__(enable_timing, blocking, interprocess)

    def current(device: object = None) -> Stream:
        index = world.device_index(device)
        return stream.over(world.current(index), world.handle(index))

    def default(device: object = None) -> Stream:
        return stream.over(world.default(world.device_index(device)))

    def choose(chosen: Stream | None) -> None:
        if chosen is not None:
            world.set_device(chosen.stream.device)
            world.choose(chosen.stream, handle=chosen.cuda_stream)

    def from_external(data_ptr: int, device: object = None) -> Stream:
        return external(data_ptr, device)

    def synchronize(device: object = None) -> None:
        runtime.synchronize_device(
            world.device_index(device), call="torch.cuda.synchronize"
        )

    def capturing() -> bool:
        return runtime.capturing(world.current()) != "none"

    def debug(mode: int | str) -> None:
        if isinstance(mode, str):
            if mode not in _MODES:
                raise RuntimeError(
                    "invalid value of debug_mode, expected one of `default`, `warn`, "
                    "`error`"
                )
            mode = _MODES[mode]
        world.sync_debug = mode

    for owner in (cuda, cuda.streams):
        yield owner, "Stream", stream
        yield owner, "ExternalStream", external
        yield owner, "Event", event
    yield torch, "Stream", stream
    yield torch, "Event", GenericEvent
    for owner in (cuda, cuda.graphs):
        yield owner, "CUDAGraph", graph
        yield owner, "is_current_stream_capturing", capturing
        yield owner, "graph_pool_handle", lambda: (0, runtime.graph_pool())
    for name, value in {
        "current_stream": current,
        "default_stream": default,
        "set_stream": choose,
        "get_stream_from_external": from_external,
        "synchronize": synchronize,
        "set_sync_debug_mode": debug,
        "get_sync_debug_mode": lambda: world.sync_debug,
    }.items():
        yield cuda, name, value
    for name, value in {
        "current_stream": current,
        "set_stream": choose,
        "synchronize": synchronize,
    }.items():
        yield torch.accelerator, name, value
    # A class remembers the stream it captures on; that of another world is none here.
    yield cuda.graph, "default_capture_stream", None
    yield torch._C, "_host_emptyCache", runtime.empty_host_cache
    yield torch._C, "_cuda_getCurrentRawStream", innermost_handle


def _memory(world: World) -> Iterator[Change]:
    runtime = world.runtime

    def stats(device: object = None) -> dict[str, Any]:
        seen = world.storages.statistics(world.device_index(device))

        def known(**counts: int) -> dict[str, Any]:
            return {"all": counts}

        # What is not counted is left out: a program that asks for it is told so.
        live = seen.allocations - seen.frees
        return {
            "allocated_bytes": known(current=seen.allocated, peak=seen.allocated_peak),
            "requested_bytes": known(current=seen.requested),
            "reserved_bytes": known(current=seen.reserved, peak=seen.reserved_peak),
            "allocation": known(
                current=live, allocated=seen.allocations, freed=seen.frees
            ),
            "segment": known(current=seen.segments),
            "num_alloc_retries": seen.retries,
            "num_ooms": seen.out_of_memory,
        }

    def empty() -> None:
        for index in range(world.devices):
            runtime.empty_cache(index)

    def reset(device: object = None) -> None:
        seen = world.storages.statistics(world.device_index(device))
        seen.allocated_peak, seen.reserved_peak = seen.allocated, seen.reserved

    def info(device: object = None) -> tuple[int, int]:
        total = world.chip.memory_bytes
        seen = world.storages.statistics(world.device_index(device))
        return total - seen.reserved, total

    changed: dict[str, object] = {
        "memory_stats_as_nested_dict": stats,
        "empty_cache": empty,
        "reset_peak_memory_stats": reset,
        "reset_accumulated_memory_stats": _answer(None),
        "mem_get_info": info,
        "get_allocator_backend": _answer("native"),
        "set_per_process_memory_fraction": _answer(None),
    }
    for name, value in changed.items():
        yield torch.cuda, name, value
        yield torch.cuda.memory, name, value
    for name in _ACCELERATOR_MEMORY:
        yield torch.accelerator, name, _of_cuda(name)
    yield torch.accelerator, "get_memory_info", info


_ACCELERATOR_MEMORY = (
    *("empty_cache", "memory_stats", "memory_allocated", "max_memory_allocated"),
    *("memory_reserved", "max_memory_reserved"),
    *("reset_accumulated_memory_stats", "reset_peak_memory_stats"),
)


def _of_cuda(name: str) -> Callable[..., Any]:
    """Return a call of `torch.accelerator` that is the one of `torch.cuda`."""
    return lambda *device: getattr(torch.cuda, name)(*device)


def _random(world: World) -> Iterator[Change]:
    generators = world.generators

    def seed() -> None:
        generators.default().seed()

    def manual(seed: int) -> None:
        generators.default().manual_seed(int(seed))

    def manual_all(seed: int) -> None:
        for own in generators.defaults:
            own.manual_seed(int(seed))

    def seed_all() -> None:
        manual_all(generators.defaults[0].seed())

    def get_state(device: object = "cuda") -> torch.Tensor:
        return generators.default(world.device_index(device)).get_state()

    def set_state(state: torch.Tensor, device: object = "cuda") -> None:
        generators.default(world.device_index(device)).set_state(state)

    def set_state_all(states: Iterable[torch.Tensor]) -> None:
        for index, state in enumerate(states):
            set_state(state, index)

    yield torch, "Generator", AnyGenerator
    names: dict[str, object] = {
        "manual_seed": manual,
        "manual_seed_all": manual_all,
        "seed": seed,
        "seed_all": seed_all,
        "initial_seed": lambda: generators.default().initial_seed(),
        "get_rng_state": get_state,
        "set_rng_state": set_state,
        "get_rng_state_all": lambda: [own.get_state() for own in generators.defaults],
        "set_rng_state_all": set_state_all,
    }
    for name, value in names.items():
        yield torch.cuda, name, value
        yield torch.cuda.random, name, value
    yield torch.cuda, "default_generators", generators.defaults


def _tensors(world: World) -> Iterator[Change]:
    storages = world.storages
    devices = [torch.device("cuda", index) for index in range(world.devices)]
    base: Any = torch._C.TensorBase
    base_device, base_cuda = base.device, base.is_cuda
    storage_device: Any = torch._C.StorageBase.device  # type: ignore[attr-defined]

    def index(tensor: torch.Tensor) -> int:
        with torch._C.DisableTorchFunction():
            return world.where(tensor)

    def device(tensor: torch.Tensor) -> torch.device:
        if storages.holds(tensor):
            return devices[index(tensor)]
        with torch._C.DisableTorchFunction():
            return base_device.__get__(tensor)  # type: ignore[no-any-return]

    def on_cuda(tensor: torch.Tensor) -> bool:
        if storages.holds(tensor):
            return True
        with torch._C.DisableTorchFunction():
            return bool(base_cuda.__get__(tensor))

    def of_storage(storage: torch.UntypedStorage) -> torch.device:
        if storages.holds_storage(storage):
            return devices[storages.index_at(storage.data_ptr())]
        return storage_device.__get__(storage)  # type: ignore[no-any-return]

    yield torch.Tensor, "device", property(device)
    yield torch.Tensor, "is_cuda", property(on_cuda)
    yield torch.Tensor, "is_cpu", property(lambda t: device(t).type == "cpu")
    yield torch.Tensor, "get_device", lambda t: index(t) if storages.holds(t) else HOST

    def move_storage(storage: torch.UntypedStorage, **options: Any) -> Any:
        device = options.get("device")
        if not is_cuda(device):
            return to_storage(storage, **options)
        there = torch.device("cuda", world.device_index(device))
        if storages.holds_storage(storage) and of_storage(storage) == there:
            return to_storage(storage, **options)
        data = torch.empty(0, dtype=torch.uint8).set_(storage)
        return data.to(there).untyped_storage()

    to_storage = torch.UntypedStorage.to
    yield torch.UntypedStorage, "to", move_storage
    yield torch.UntypedStorage, "device", property(of_storage)
    yield torch.UntypedStorage, "is_cuda", property(storages.holds_storage)
    to_dlpack = torch.Tensor.__dlpack__

    @functools.wraps(to_dlpack)
    def dlpack(tensor: torch.Tensor, **kwargs: Any) -> object:
        if not storages.holds(tensor):
            return to_dlpack(tensor, **kwargs)
        return capsule(tensor, stream=kwargs.get("stream"), world=world)

    yield torch.Tensor, "__dlpack__", dlpack
    yield torch._C, "_from_dlpack", import_capsule
    yield (
        torch.Tensor,
        "__dlpack_device__",
        lambda t: (2, index(t)) if storages.holds(t) else (1, 0),
    )
