"""`torch.cuda` for host code that insists on it, over a table of host allocations.

Inside `VirtualCuda` a tensor whose storage lies in the table says that it is on
`cuda:0`, tensors made for that device land in the table, and `torch.cuda` answers
from the chip description. Packages that check `is_cuda`, ask for the current stream
or allocate their outputs run unmodified up to their launches.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from sidestream.harness.cuda.driver_calls import driver_answers
from sidestream.harness.cuda.memory import Allocation, AllocationTable

if TYPE_CHECKING:
    from sidestream.harness.dsl.activation import Activation
    from sidestream.harness.dsl.chip import Chip

DEVICE = "cuda:0"
POISON = b"\xff\xff\xff\xff"
"""Fresh memory reads as NaN in every float format, and as -1."""

_BASE_DEVICE: Any = torch._C.TensorBase.device
_EMPTY = {"empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided"}


class Stream:
    """A stream handle with what `torch.cuda.Stream` shows of it."""

    def __init__(self, handle: int) -> None:
        self.cuda_stream = handle
        self.stream_id = handle
        self.device = torch.device(DEVICE)
        self.device_index = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.cuda_stream == self.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def synchronize(self) -> None:
        """Wait: launches run at once, so there is nothing to wait for."""

    def wait_stream(self, other: object) -> None:
        """Order after another stream: launches run in host order."""

    def query(self) -> bool:
        """Whether all work is done."""
        return True


class VirtualCuda:
    """Makes torch see `table` as the memory of one CUDA device while entered.

    Args:
        activation: The virtual device of this process, from `activate`.
        table: Global memory; tensors made for the device are added to it.
        stream: Handle of the current stream.
    """

    def __init__(
        self, activation: Activation, table: AllocationTable, stream: int = 0
    ) -> None:
        self.table = table
        self.stream = Stream(stream)
        self.fill = POISON
        """Pattern that memory made by host code starts with."""
        self._activation = activation
        self._stack: ExitStack | None = None

    @property
    def chip(self) -> Chip:
        """The chip that host code sees."""
        return self._activation.chip

    def __enter__(self) -> VirtualCuda:
        activation = self._activation
        stack = ExitStack()
        _worlds.append(self)
        stack.callback(_worlds.remove, self)
        stack.callback(activation.runtime.device_ranges, [])
        stack.callback(activation.runtime.current_stream, 0)
        activation.runtime.current_stream(self.stream.cuda_stream)
        self.publish()
        for owner, name, value in _fakes(self, activation):
            stack.enter_context(mock.patch.object(owner, name, value, create=True))
        stack.enter_context(_Results(self))
        stack.enter_context(_Factories(self))
        self._stack = stack
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._stack is not None:
            self._stack.__exit__(kind, error, trace)
            self._stack = None

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor's storage is device memory."""
        return self.allocation(tensor) is not None

    def allocation(self, tensor: torch.Tensor) -> Allocation | None:
        """Return the live allocation of a tensor's storage, or None."""
        with torch._C.DisableTorchFunction():
            if _BASE_DEVICE.__get__(tensor).type != "cpu":
                return None
            try:
                address = tensor.untyped_storage().data_ptr()
            except (RuntimeError, NotImplementedError):
                return None
        found = self.table.at(address)
        return found if found is not None and not found.freed else None

    def upload(self, value: torch.Tensor, name: str) -> torch.Tensor:
        """Copy a host tensor into a new allocation and return it as a device tensor."""
        made = self._blank(tuple(value.shape), None, value.dtype, name)
        with _plain():
            made.copy_(value)
        return made

    def publish(self) -> None:
        """Tell the DLPack table which addresses are device memory now."""
        self._activation.runtime.device_ranges(
            [(a.va, a.end) for a in self.table if not a.freed and a.size]
        )

    def _blank(
        self,
        shape: Sequence[int],
        stride: Sequence[int] | None,
        dtype: torch.dtype,
        name: str,
    ) -> torch.Tensor:
        with _plain():
            like = (
                torch.empty_strided(shape, stride, dtype=dtype, device="meta")
                if stride is not None
                else torch.empty(shape, dtype=dtype, device="meta")
            )
            size = like.untyped_storage().nbytes()
            made = self.table.allocate(size, name, fill=self.fill).tensor(
                dtype, tuple(like.shape), tuple(like.stride())
            )
        self.publish()
        return made

    def take(self, result: torch.Tensor, name: str) -> None:
        """Make the storage of a fresh result device memory where it lies."""
        if not self.holds(result) and result.untyped_storage().nbytes():
            self.table.adopt(result, name)
            self.publish()


@contextmanager
def _plain() -> Iterator[None]:
    """Run torch without the modes of this module."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        yield


def _is_cuda(device: object) -> bool:
    if isinstance(device, int) and not isinstance(device, bool):
        return True
    if isinstance(device, (str, torch.device)):
        return torch.device(device).type == "cuda"
    return False


class _Factories(TorchFunctionMode):
    """Sends calls that name the device to the table, and `cpu` calls back from it."""

    def __init__(self, world: VirtualCuda) -> None:
        super().__init__()
        self._world = world

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.Tensor.to, torch.Tensor.cpu, torch.Tensor.cuda):
            return self._move(func, args, kwargs)
        if not _is_cuda(kwargs.get("device")):
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "tensor")
        kwargs["device"] = "cpu"
        kwargs.pop("pin_memory", None)
        result = func(*args, **kwargs)
        if not isinstance(result, torch.Tensor):
            return result
        if name in _EMPTY:
            stride = tuple(result.stride())
            return self._world._blank(
                tuple(result.shape), stride, result.dtype, f"torch.{name}"
            )
        return self._world.upload(result, f"torch.{name}")

    def _move(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        tensor = args[0]
        here = self._world.holds(tensor)
        asked: object = "cuda" if func is torch.Tensor.cuda else None
        rest = list(args[1:]) if func is torch.Tensor.to else []
        if func is torch.Tensor.cpu:
            asked = "cpu"
        elif "device" in kwargs:
            asked = kwargs.pop("device")
        elif rest and isinstance(rest[0], (str, torch.device, int)):
            asked = rest.pop(0)
        elif rest and isinstance(rest[0], torch.Tensor):
            other = rest.pop(0)
            asked = "cuda" if self._world.holds(other) else "cpu"
            kwargs.setdefault("dtype", other.dtype)
        kwargs.pop("memory_format", None)
        result = tensor
        if func is torch.Tensor.to and (rest or kwargs):
            result = torch.Tensor.to(tensor, *rest, **kwargs)
        if asked is None:
            return result
        if _is_cuda(asked):
            if here or self._world.holds(result):
                return result
            return self._world.upload(result, "torch.to")
        with _plain():
            return result.clone() if self._world.holds(result) else result


class _DeviceResults:
    """Results of operators on device tensors are device tensors.

    Apart from the mode: torch wraps an operator hook that a mode defines itself, and
    the wrapper imports all of torch._dynamo, seconds that no eager call needs.
    """

    _world: VirtualCuda

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        made = result if isinstance(result, (list, tuple)) else [result]
        fresh = [t for t in made if isinstance(t, torch.Tensor)]
        if fresh and any(
            isinstance(a, torch.Tensor) and self._world.holds(a)
            for a in (*args, *kwargs.values())
        ):
            for tensor in fresh:
                self._world.take(tensor, str(func))
        return result


class _Results(_DeviceResults, TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, world: VirtualCuda) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._world = world


def _fakes(
    world: VirtualCuda, activation: Activation
) -> Iterator[tuple[object, str, object]]:
    """Yield (owner, name, replacement) of everything that asks about the device."""
    target = activation.chip
    major, minor = target.capability
    properties = SimpleNamespace(
        name=target.name,
        major=major,
        minor=minor,
        multi_processor_count=target.sms,
        total_memory=target.memory_bytes,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=target.smem_per_block,
        shared_memory_per_multiprocessor=target.smem_per_sm,
        regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=target.threads_per_sm,
        warp_size=32,
        L2_cache_size=target.l2_bytes,
        is_integrated=0,
        is_multi_gpu_board=0,
        gcnArchName="",
    )

    def answer(value: object) -> Callable[..., object]:
        return lambda *args, **kwargs: value

    cuda = torch.cuda
    for name, value in {
        "is_available": True,
        "is_initialized": True,
        "device_count": 1,
        "current_device": 0,
        "init": None,
        "_lazy_init": None,
        "set_device": None,
        "synchronize": None,
        "empty_cache": None,
        "get_device_capability": target.capability,
        "get_device_properties": properties,
        "get_device_name": target.name,
        "is_current_stream_capturing": False,
        "current_stream": world.stream,
        "default_stream": Stream(0),
        "device": nullcontext(),
        "stream": nullcontext(),
    }.items():
        yield cuda, name, answer(value)
    yield cuda, "Stream", Stream
    yield cuda, "ExternalStream", _external_stream
    # Packages keep this function, so it must answer for whatever world comes later.
    yield torch._C, "_cuda_getCurrentRawStream", _raw_stream
    yield from driver_answers(lambda: activation.chip, world.table)

    device_of, is_cuda = torch.device(DEVICE), torch._C.TensorBase.is_cuda

    def device(tensor: torch.Tensor) -> torch.device:
        if world.holds(tensor):
            return device_of
        original: torch.device = _BASE_DEVICE.__get__(tensor)
        return original

    def on_cuda(tensor: torch.Tensor) -> bool:
        return world.holds(tensor) or bool(is_cuda.__get__(tensor))  # type: ignore[attr-defined]

    yield torch.Tensor, "device", property(device)
    yield torch.Tensor, "is_cuda", property(on_cuda)
    yield torch.Tensor, "get_device", lambda t: 0 if world.holds(t) else -1
    to_dlpack = torch.Tensor.__dlpack__

    @functools.wraps(to_dlpack)
    def dlpack(tensor: torch.Tensor, **kwargs: Any) -> object:
        if not world.holds(tensor):
            return to_dlpack(tensor, **kwargs)
        with _plain(), mock.patch.object(torch.Tensor, "device", _BASE_DEVICE):
            capsule = torch._C._to_dlpack(tensor)
        return claim_capsule(capsule)

    yield torch.Tensor, "__dlpack__", dlpack
    yield (
        torch.Tensor,
        "__dlpack_device__",
        lambda t: (2, 0) if world.holds(t) else (1, 0),
    )


_worlds: list[VirtualCuda] = []


def _raw_stream(device: int = 0) -> int:
    return _worlds[-1].stream.cuda_stream if _worlds else 0


def _external_stream(handle: int, device: object = None, **kwargs: object) -> Stream:
    return Stream(handle)


def claim_capsule(capsule: object) -> object:
    """Rewrite the device of an unversioned DLPack capsule to CUDA device 0."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = get(capsule, b"dltensor")
    # DLTensor: void *data, then {int32 device_type, int32 device_id}.
    (ctypes.c_int32 * 2).from_address(address + 8)[:] = [2, 0]
    return capsule
