"""Python calls of torch that name a device or hand data to the host.

Operators cannot tell `device="cuda"` on a torch that has none, so that the calls that
take a device are seen here, one level above autograd.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from sidestream.harness.runtime import here
from sidestream.harness.vtorch import packed_sequences
from sidestream.harness.vtorch.device_names import (
    LegacyType,
    default_device,
    with_named,
)
from sidestream.harness.vtorch.operands import MixedDevicesError
from sidestream.harness.vtorch.operator_schema import tensors
from sidestream.harness.vtorch.shown import note
from sidestream.harness.vtorch.storages import PINNED
from sidestream.harness.vtorch.tensor_spans import spans
from sidestream.harness.vtorch.world import HOST, World, is_cuda, plain

_Tensor = torch.Tensor
_VF: Any = torch._C._VariableFunctions
_CPU = torch.device("cpu")


class Move(torch.autograd.Function):
    """A move between host and devices; the gradient goes the way back."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, calls: Calls, there: int, options: Any) -> torch.Tensor:  # noqa: E501  # fmt: skip
        """Move, and remember whence."""
        ctx.calls, ctx.dtype = calls, value.dtype
        ctx.back = calls.place(value)
        return calls.convert(value, there, **options)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Move the gradient back."""
        grad = ctx.calls.convert(grads[0], ctx.back, dtype=ctx.dtype)
        return grad, None, None, None


class Calls:
    """Carries out the calls.

    Args:
        world: The device.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.rules: dict[Any, Callable[..., Any]] = {
            _Tensor.to: self._to,
            _Tensor.cuda: self._cuda,
            _Tensor.cpu: self._cpu,
            _Tensor.pin_memory: self._pin,
            _Tensor.is_pinned: self._is_pinned,
            _Tensor.copy_: self._copy,
            _Tensor.numpy: self._numpy,
            _Tensor.__array__: self._numpy,
            _Tensor.tolist: self._tolist,
            _Tensor.__repr__: self._shown,
            _Tensor.__format__: self._shown,
            _Tensor.__reduce_ex__: self._shown,
            _Tensor.__deepcopy__: self._deepcopy,
            _Tensor.new_tensor: self._new_tensor,
            _Tensor.type: self._type,
            torch.tensor: self._from_data,
            torch.as_tensor: self._from_data,
            torch.asarray: self._from_data,
            torch.frombuffer: self._from_data,
            torch.complex: self._plainly,
            torch.device: self._device,
            torch.lstm: self._lstm,
            _VF._pack_padded_sequence: self._on_device(packed_sequences.pack),
            _VF._pad_packed_sequence: self._on_device(packed_sequences.pad),
        }

    def call(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Carry out one call."""
        rule = self.rules.get(func)
        if rule is not None:
            return rule(func, args, kwargs)
        if "device" in kwargs:
            return self._made(func, args, kwargs)
        if kwargs.get("pin_memory"):
            return self._made(func, args, kwargs)
        try:
            return func(*args, **kwargs)
        except MixedDevicesError:
            there = self._only_device(func, args, kwargs)
            if there == HOST:
                raise
        with self.world.want(there):
            return func(*args, **kwargs)

    def _only_device(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> int:
        """Return the device of all tensors of a call, if it may be made again.

        A function in C++ that is made of operators asks a tensor of ours where to put
        what it makes itself, and gets the host for an answer.
        """
        name = getattr(func, "__name__", "_")
        if inspect.isfunction(func) or name.endswith("_") or "out" in kwargs:
            return HOST
        with torch._C.DisableTorchFunction():
            places = {
                self.place(tensor)
                for _, tensor in tensors(args, kwargs)
                if tensor.dim()
            }
        return places.pop() if len(places) == 1 else HOST

    def convert(
        self, value: torch.Tensor, there: int, *, dtype: Any = None, **options: Any
    ) -> torch.Tensor:
        """Return a copy of a tensor on a device or `HOST`; autograd sees one device."""
        with self.world.want(there):
            made: torch.Tensor = torch.ops.aten._to_copy.default(
                value, dtype=dtype or value.dtype, **options
            )
        return made

    def place(self, value: torch.Tensor) -> int:
        """Return the index of the device that a tensor lies on, or `HOST`."""
        if not self.world.storages.holds(value):
            return HOST
        with torch._C.DisableTorchFunction():
            return self.world.where(value)

    def _plainly(self, func: Any, args: Any, kwargs: Any) -> Any:
        return func(*args, **kwargs)

    def _device(self, func: Any, args: Any, kwargs: dict[str, Any]) -> torch.device:
        made: torch.device = with_named(func)(*args, **kwargs)
        return made

    def _on_device(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Return a call that follows a rule where its first tensor is of the device."""

        def call(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if self.place(args[0]) == HOST:
                return func(*args, **kwargs)
            with CallMode(self):
                return rule(*args, **kwargs)

        return call

    def _lstm(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Compute it from matrix products, as a GPU without cuDNN does.

        The kernel that a CPU has for it keeps scratch whose size nothing else tells.
        """
        before = torch._C._get_mkldnn_enabled()
        torch._C._set_mkldnn_enabled(before and not self.world.storages.holds(args[0]))
        try:
            return func(*args, **kwargs)
        finally:
            torch._C._set_mkldnn_enabled(before)

    def _made(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Carry out a factory, or another call that names a device."""
        kwargs = dict(kwargs)
        device, pin = kwargs.get("device"), kwargs.pop("pin_memory", False)
        if is_cuda(device):
            kwargs["device"] = _CPU
            with self.world.want(self.world.device_index(device)):
                return func(*args, **kwargs)
        if device is None or str(device).split(":")[0] != "cpu":
            made = func(*args, **kwargs)
        else:
            with self.world.want(HOST):
                made = func(*args, **kwargs)
        return self._pin(func, (made,), {}) if pin else made

    def _from_data(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Make a tensor on the host and bring it to where it is wanted."""
        kwargs = dict(kwargs)
        device, pin = kwargs.pop("device", None), kwargs.pop("pin_memory", False)
        if device is None and func is not torch.frombuffer:
            device = default_device()
        if device is not None:
            # Said for the host as well, else a default device would come in.
            kwargs["device"] = _CPU if is_cuda(device) else device
        data = args[0] if args else None
        if isinstance(data, torch.Tensor) and func is not torch.tensor:
            if kwargs.get("dtype") is not None:
                data = data.to(kwargs["dtype"])
            return data if device is None else self._move(data, device)
        if isinstance(data, torch.Tensor) and self.world.storages.holds(data):
            device = device if device is not None else data.device
            made = data.detach().clone().to(kwargs.get("dtype") or data.dtype)
            made = self._move(made, device)
            return made.requires_grad_(bool(kwargs.get("requires_grad")))
        grad = kwargs.pop("requires_grad", False) if is_cuda(device) else None
        made = func(*args, **kwargs)
        if is_cuda(device):
            made = self.convert(made, self.world.device_index(device))
        elif pin:
            made = self._pin(func, (made,), {})
        return made.requires_grad_() if grad else made

    def _new_tensor(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        kwargs = dict(kwargs)
        if kwargs.get("device") is None:
            kwargs["device"] = args[0].device
        kwargs.setdefault("dtype", args[0].dtype)
        data = args[1] if len(args) > 1 else kwargs.pop("data")
        return self._from_data(torch.tensor, (data,), kwargs)

    def _to(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        value, rest, kwargs = args[0], list(args[1:]), dict(kwargs)
        other = rest[0] if rest else kwargs.get("other")
        copy = kwargs.pop("copy", False)
        if isinstance(other, torch.Tensor):
            device: object = other.device
            dtype = other.dtype
            asynchronous = kwargs.get(
                "non_blocking", rest[1] if len(rest) > 1 else False
            )
            layout = kwargs.get("memory_format")
        else:
            if len(rest) == 4 or (len(rest) == 3 and isinstance(rest[0], torch.dtype)):
                copy = rest.pop()
            if rest and rest[0] is None:
                kwargs.setdefault("dtype", rest[1] if len(rest) > 1 else None)
                rest = []
            parsed = torch._C._nn._parse_to(*rest, **kwargs)
            device, dtype, asynchronous, layout = parsed
        return self._move(
            value, device, dtype=dtype, copy=copy, waits=not asynchronous, layout=layout
        )

    def _cuda(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        device = args[1] if len(args) > 1 else kwargs.get("device")
        there = torch.device("cuda", self.world.device_index(device))
        asynchronous = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
        layout = kwargs.get("memory_format")
        return self._move(args[0], there, waits=not asynchronous, layout=layout)

    def _cpu(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._move(args[0], "cpu", layout=kwargs.get("memory_format"))

    def _move(
        self,
        value: torch.Tensor,
        device: object,
        *,
        dtype: torch.dtype | None = None,
        copy: bool = False,
        waits: bool = True,
        layout: torch.memory_format | None = None,
    ) -> torch.Tensor:
        """`Tensor.to`: the tensor itself where nothing changes."""
        here = self.place(value)
        if is_cuda(device):
            # Without an index it is the current device, for tensors of others as well.
            there = self.world.device_index(device)
        elif device is None:
            there = here
        elif torch.device(str(device)).type == "cpu":
            there = HOST
        else:
            return _Tensor.to(value, device, dtype)  # type: ignore[call-overload, no-any-return]
        options: dict[str, Any] = {}
        if layout is not None:
            options["memory_format"] = layout
        if here == there:
            options["dtype"] = dtype or value.dtype
            return _Tensor.to(value, copy=copy, non_blocking=not waits, **options)
        options["non_blocking"] = not waits
        options["dtype"] = dtype
        if value.requires_grad and torch.is_grad_enabled():
            moved: torch.Tensor = Move.apply(value, self, there, options)  # type: ignore[no-untyped-call]
            return moved
        return self.convert(value, there, **options)

    def _copy(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        target, source = args[0], args[1] if len(args) > 1 else kwargs["src"]
        if (
            isinstance(source, torch.Tensor)
            and source.requires_grad
            and self.place(target) != self.place(source)
        ):
            moved = self._move(source, target.device)
            return func(target, moved, *args[2:], **kwargs)
        return func(*args, **kwargs)

    def _pin(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        value = args[0]
        if self.world.storages.holds(value):
            raise RuntimeError(
                f"cannot pin '{value.type()}' only dense CPU tensors can be pinned"
            )
        with torch._C.DisableTorchFunction():
            if self.world.storages.home(value) == PINNED:
                return value
            if value.layout != torch.strided:
                return value.pin_memory()
            meta = torch.empty_like(value.detach(), device="meta")
            made = self.world.storages.pinned(value.dtype, meta.shape, meta.stride())
            with plain():
                made.copy_(value.detach())
            for span in spans(made):
                self.world.runtime.host_access(span, write=True, label="pin_memory")
            return made

    def _is_pinned(self, func: Any, args: Any, kwargs: Any) -> bool:
        with torch._C.DisableTorchFunction():
            return self.world.storages.home(args[0]) == PINNED

    def record_stream(self, value: torch.Tensor, stream: Any) -> None:
        """Keep a tensor's memory until what a stream holds now is through.

        Stands in for the method itself, whose C side refuses a stream that is not its
        own before any mode sees the call.
        """
        if not self.world.storages.holds(value):
            raise RuntimeError("record_stream is for tensors of the device")
        with torch._C.DisableTorchFunction():
            block = self.world.storages.block(value)
        if block is not None:
            self.world.runtime.record_stream(block, stream.stream)

    def _numpy(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.world.storages.holds(args[0]):
            raise TypeError(
                f"can't convert {args[0].device} device type tensor to numpy. Use "
                "Tensor.cpu() to copy the tensor to host memory first."
            )
        self._host_reads(args[0], func)
        return func(*args, **kwargs)

    def _tolist(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.world.storages.holds(args[0]):
            return self._cpu(func, (args[0].detach(),), {}).tolist()
        self._host_reads(args[0], func)
        return func(*args, **kwargs)

    def _shown(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Wait, then let torch look at the bytes itself: printing and pickling."""
        if self.world.storages.holds(args[0]):
            name = f"torch.Tensor.{getattr(func, '__name__', 'read')}"
            with torch._C.DisableTorchFunction():
                touched = spans(args[0])
            stream, site = self.world.current(self.place(args[0])), here()
            self.world.runtime.enqueue(
                kind="copy", label=name, stream=stream, reads=touched, site=site
            )
            self.world.wait(name, stream, site=site)
            note(self.world, self.world.storages.raw(args[0]), args[0])
            with plain():
                return func(*args, **kwargs)
        self._host_reads(args[0], func)
        return func(*args, **kwargs)

    def _host_reads(self, value: torch.Tensor, func: Any) -> None:
        """Tell the runtime that the host reads a pinned tensor."""
        with torch._C.DisableTorchFunction():
            if self.world.storages.home(value) == PINNED:
                label = f"torch.Tensor.{getattr(func, '__name__', 'read')}"
                for span in spans(value):
                    self.world.runtime.host_access(span, write=False, label=label)

    def _deepcopy(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        value, memo = args[0], args[1]
        if not self.world.storages.holds(value):
            return func(*args, **kwargs)
        if id(value) in memo:
            return memo[id(value)]
        if not value.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support "
                "the deepcopy protocol at the moment."
            )
        made = value.detach().clone()
        if isinstance(value, torch.nn.Parameter):
            made = type(value)(made, requires_grad=value.requires_grad)
        else:
            made.requires_grad_(value.requires_grad)
        if value.grad is not None:
            made.grad = value.grad.clone()
        memo[id(value)] = made
        return made

    def _type(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) == 1 and not kwargs:
            name: str = func(args[0])
            if self.world.storages.holds(args[0]):
                return name.replace("torch.", "torch.cuda.", 1)
            return name
        kind = args[1] if len(args) > 1 else kwargs.get("dtype")
        kind = repr(kind) if isinstance(kind, LegacyType) else kind
        if isinstance(kind, str) and kind.startswith("torch.cuda."):
            moved = self._move(args[0], "cuda")
            return func(moved, kind.replace("torch.cuda.", "torch.", 1))
        return func(*args, **kwargs)


class CallMode(TorchFunctionMode):
    """Sends torch's Python calls to `Calls`."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self._calls = calls

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return self._calls.call(func, args, kwargs or {})
