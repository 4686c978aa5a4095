"""What the host does behind an execute call: reads, waits, allocations, launches.

An execute call that is asynchronous and capturable in a CUDA graph reads no device
data on the host, waits for nothing, allocates nothing, and launches only the
kernels it is made for. This log watches torch at its two levels: Python calls
(`item`, `tolist`, `cpu`) and operators, so that what a library hides is seen too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode

from sidestream.harness.bindings.signatures import by_position
from sidestream.harness.cuda.driver_calls import MEMSETS, MEMSETS_2D
from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.finding import Finding, Rule, Site

RULES: Mapping[str, Rule] = {
    "host-sync": Rule(
        id="host.sync",
        title="Execute reads no device data on the host and waits for nothing",
    ),
    "host-alloc": Rule(
        id="host.alloc", title="Execute allocates nothing: scratch is the caller's"
    ),
    "hidden-launch": Rule(
        id="host.launch",
        title="Execute launches its own kernels only: no fill, copy or conversion",
    ),
}
"""The host rules, by kind of finding."""

NEEDS: Mapping[str, str] = {
    "host-sync": "keep the value on the device, or make it known when planning",
    "host-alloc": "carve it from the caller's workspace, or allocate when planning",
    "hidden-launch": "fold the work into the kernel, or leave it to the caller",
}

_READS = {
    torch.Tensor.item,
    torch.Tensor.tolist,
    torch.Tensor.cpu,
    torch.Tensor.numpy,
    torch.Tensor.__array__,
    torch.Tensor.__bool__,
    torch.Tensor.__int__,
    torch.Tensor.__float__,
    torch.Tensor.__complex__,
    torch.Tensor.__index__,
    torch.Tensor.__contains__,
    torch.Tensor.__repr__,
    torch.Tensor.__format__,
    torch.Tensor.__reduce_ex__,
    torch.Tensor.__deepcopy__,
}
"""Python calls that hand a tensor's data to the host."""

_WAITS = (
    ("torch.cuda", "synchronize"),
    ("torch.cuda.Stream", "synchronize"),
    ("torch.cuda.Event", "synchronize"),
    ("torch.accelerator", "synchronize"),
)
_DRIVER_WAITS = (
    *("cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize"),
    *("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize"),
)
_DRIVER_ALLOCATIONS = (
    *("cuMemAlloc", "cuMemAllocAsync", "cuMemAllocHost", "cuMemFree"),
    *("cudaMalloc", "cudaMallocAsync", "cudaMallocHost", "cudaFree"),
)
_DRIVER_FILLS = tuple(
    name + suffix for name in (*MEMSETS, *MEMSETS_2D) for suffix in ("", "Async")
)
_DRIVER_COPIES = ("cuMemcpyDtoH", "cuMemcpy", "cudaMemcpy")
_METADATA = {
    "aten::is_pinned",
    "aten::is_same_size",
    "aten::is_set_to",
    "aten::_has_compatible_shallow_copy_type",
}
_MOST_FRAMES = 24
_PASSED = ("torch", "contextlib")
_OURS = (
    *(__name__, "sidestream.harness.cuda.virtual_cuda"),
    *("sidestream.harness.cuda.card_log", "sidestream.harness.cuda.driver_audit"),
    *("sidestream.harness.vtorch", "sidestream.harness.runtime"),
)
"""Modules and packages whose frames lie between a user's call and this log."""


@dataclass(frozen=True, kw_only=True)
class HostEvent:
    """One thing the host did that an execute call must not do.

    Attributes:
        kind: `host-sync`, `host-alloc` or `hidden-launch`.
        operation: E.g. `Tensor.tolist`, `aten.fill_.Scalar`, `torch.cuda.synchronize`.
        detail: The tensors it touched, by allocation name.
        stack: Python frames as `file:line in function`, the innermost user frame
            first.
        stream: Handle that a fill of the driver was put on; None for everything else,
            and for a fill that the host waits for.
    """

    kind: str
    operation: str
    detail: str
    stack: tuple[str, ...]
    stream: int | None = None

    @property
    def site(self) -> Site:
        """The event as one side of a finding."""
        source = self.stack[0].split(" in ")[0] if self.stack else None
        return Site(
            agent="host", operation=self.operation, source=source, detail=self.detail
        )

    def finding(self, *, kernel: str = "", scenario: str = "") -> Finding:
        """Return the finding that reports this event."""
        return Finding(
            kind=self.kind,
            rule=RULES[self.kind],
            message=f"{self.operation} during execute ({self.detail})",
            kernel=kernel,
            scenario=scenario,
            sites=(self.site,),
            need=NEEDS[self.kind],
            witness=self.stack,
        )


@dataclass(kw_only=True)
class HostLog:
    """Watches the host while entered; `events` holds what it did.

    Args:
        table: Tensors whose storage lies in it count as device tensors, as do those
            on a device other than the CPU.
        virtual: True if there is no CUDA behind `torch.cuda`: waits are then logged
            and not carried out.
    """

    table: AllocationTable
    virtual: bool = True
    events: list[HostEvent] = field(default_factory=list)
    _paused: int = 0
    _stack: ExitStack | None = None

    def __enter__(self) -> HostLog:
        stack = ExitStack()
        stack.enter_context(_waits_watched(self))
        stack.enter_context(_CallWatch(self))
        stack.enter_context(_OperatorWatch(self))
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

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Log nothing inside: for the harness's own work within an execute."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    def block(self, call: str, stream: int) -> None:
        """Log a wait of a compiled host function: the capture's `on_block`."""
        self._add("host-sync", call, f"stream {stream:#x}")

    def of_kind(self, kind: str) -> tuple[HostEvent, ...]:
        """Return the events of one kind, in order."""
        return tuple(event for event in self.events if event.kind == kind)

    def _add(
        self, kind: str, operation: str, detail: str, stream: int | None = None
    ) -> None:
        if not self._paused:
            self.events.append(
                HostEvent(
                    kind=kind,
                    operation=operation,
                    detail=detail,
                    stack=user_stack(),
                    stream=stream,
                )
            )

    def _fill(self, call: str, args: Sequence[Any]) -> None:
        """Log a fill of the driver, by the memory it goes to."""
        home = self.table.at(int(args[0]))
        given = MEMSETS if call.removesuffix("Async") in MEMSETS else MEMSETS_2D
        rest = args[3 if given is MEMSETS else 5 :]
        stream = int(rest[0]) if rest else 0
        self._add(
            "hidden-launch",
            call,
            home.name if home is not None else "unknown memory",
            stream if call.endswith("Async") else None,
        )

    def _is_device(self, value: object) -> bool:
        return isinstance(value, torch.Tensor) and self._name(value) is not None

    def _name(self, tensor: torch.Tensor) -> str | None:
        with torch._C.DisableTorchFunction():
            # The type's own property: `VirtualCuda` answers for the visible one.
            device: torch.device = torch._C.TensorBase.device.__get__(tensor)
            if device.type not in ("cpu", "meta"):
                return str(device)
            try:
                address = tensor.untyped_storage().data_ptr()
            except (RuntimeError, NotImplementedError):
                return None  # no storage: fake and functional tensors
        found = self.table.at(address)
        return found.name if found is not None else None

    def _detail(self, tensors: Sequence[torch.Tensor]) -> str:
        names = [self._name(t) for t in tensors]
        return ", ".join(dict.fromkeys(name for name in names if name)) or "host memory"


def user_stack() -> tuple[str, ...]:
    """Return the frames of the caller outside torch and this module, innermost first.

    Frames of a library stay: the first one is where the deed was done.
    """
    frames: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(frames) < _MOST_FRAMES:
        module = frame.f_globals.get("__name__", "")
        if module.split(".")[0] not in _PASSED and not module.startswith(_OURS):
            code = frame.f_code
            frames.append(f"{code.co_filename}:{frame.f_lineno} in {code.co_name}")
        frame = frame.f_back
    return tuple(frames)


def _tensors(values: object) -> list[torch.Tensor]:
    """Every tensor among arguments, nested sequences and mappings included."""
    if isinstance(values, torch.Tensor):
        return [values]
    if isinstance(values, (list, tuple)):
        return [t for value in values for t in _tensors(value)]
    if isinstance(values, dict):
        return [t for value in values.values() for t in _tensors(value)]
    return []


class _CallWatch(TorchFunctionMode):
    """Sees Python calls whose reads never reach an operator."""

    def __init__(self, log: HostLog) -> None:
        super().__init__()
        self._log = log

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        reads = func in _READS or (
            func is torch.Tensor.to and _asks_for_cpu(args[1:], kwargs)
        )
        if reads and args and self._log._is_device(args[0]):
            name = resolve_name(func) or getattr(func, "__name__", str(func))
            name = name.removeprefix("torch.")
            self._log._add("host-sync", name, self._log._detail([args[0]]))
            with self._log.paused():
                return func(*args, **kwargs)
        if func is torch.tensor:  # builds its result without an operator
            self._log._add("host-alloc", "torch.tensor", "from host data")
        return func(*args, **kwargs)


def _asks_for_cpu(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    asked = kwargs.get("device", args[0] if args else None)
    if isinstance(asked, (str, torch.device)):
        return torch.device(asked).type == "cpu"
    return False


class _Operators:
    """Sees every operator that runs, whoever called it.

    Apart from the mode, so that torch does not import torch._dynamo for it.
    """

    _log: HostLog

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if not self._log._paused:
            self._judge(func, args, kwargs)
        return func(*args, **kwargs)

    def _judge(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = _tensors((args, kwargs))
        device = [t for t in given if self._log._is_device(t)]
        name = str(func)
        if not given:
            if any(str(r.type) == "Tensor" for r in func._schema.returns):
                size = next((a for a in args if isinstance(a, (list, tuple))), "")
                self._log._add("host-alloc", name, f"size {size}" if size else "scalar")
            return
        if not device or func._schema.name in _METADATA or _is_view(func):
            return
        detail = self._log._detail(device)
        if _hands_out_data(func, args):
            self._log._add("host-sync", name, detail)
        elif func._schema.name in ("aten::copy_", "aten::_to_copy"):
            target = args[0] if func._schema.name == "aten::copy_" else None
            if target is not None and not self._log._is_device(target):
                self._log._add("host-sync", name, f"{detail} to host memory")
            else:
                self._log._add("hidden-launch", name, detail)
        else:
            self._log._add("hidden-launch", name, detail)


class _OperatorWatch(_Operators, TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, log: HostLog) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._log = log


def _is_view(func: Any) -> bool:
    """Whether an operator only makes another view of its input."""
    returns = func._schema.returns
    return bool(returns) and all(
        r.alias_info is not None and not r.alias_info.is_write for r in returns
    )


def _hands_out_data(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether an operator's result is a host value, or sized by device data."""
    if any(
        str(r.type) in ("number", "Scalar", "bool", "int", "float")
        for r in func._schema.returns
    ):
        return True
    if func._schema.name in ("aten::index", "aten::index_put_", "aten::index_put"):
        indices = [i for i in args[1] if i is not None]
        return any(i.dtype in (torch.bool, torch.uint8) for i in indices)
    tags = set(func.tags)
    return torch.Tag.dynamic_output_shape in tags or (
        torch.Tag.data_dependent_output in tags
    )


@contextmanager
def _waits_watched(log: HostLog) -> Iterator[None]:
    """Log calls of the CUDA interfaces that block or allocate."""
    with ExitStack() as stack:

        def watch(
            owner: Any, name: str, kind: str, spelling: str, success: object = None
        ) -> None:
            original = getattr(owner, name, None)
            if original is None:
                return

            def call(*args: Any, **kwargs: Any) -> Any:
                if kind == "hidden-launch":
                    log._fill(spelling, by_position(original, args, kwargs))
                    return original(*args, **kwargs)
                log._add(
                    "host-sync" if kind == "host-copy" else kind, spelling, "CUDA call"
                )
                if kind == "host-sync" and log.virtual:
                    return (success,) if success is not None else None
                return original(*args, **kwargs)

            stack.enter_context(mock.patch.object(owner, name, call))

        for path, name in _WAITS:
            owner: Any = torch
            for part in path.split(".")[1:]:
                owner = getattr(owner, part, None)
            if owner is not None:
                watch(owner, name, "host-sync", f"{path}.{name}")
        for module in ("cuda.bindings.driver", "cuda.bindings.runtime"):
            if (loaded := sys.modules.get(module)) is None:
                continue
            if module.endswith("driver"):
                fine = loaded.CUresult.CUDA_SUCCESS
            else:
                fine = loaded.cudaError_t.cudaSuccess
            for name in _DRIVER_WAITS:
                watch(loaded, name, "host-sync", name, fine)
            for name in _DRIVER_ALLOCATIONS:
                watch(loaded, name, "host-alloc", name)
            for name in _DRIVER_FILLS:
                watch(loaded, name, "hidden-launch", name)
            for name in _DRIVER_COPIES:
                watch(loaded, name, "host-copy", name)
        yield
