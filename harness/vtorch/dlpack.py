"""DLPack of device tensors: capsules that say CUDA, and the way back into torch."""

from __future__ import annotations

import ctypes
from typing import Any
from unittest import mock

import torch

from sidestream.harness.vtorch.world import World, plain

_CUDA, _CPU = 2, 1
"""Device types of DLPack."""


def capsule(tensor: torch.Tensor, *, stream: int | None, world: World) -> object:
    """Return an unversioned capsule over a device tensor.

    Args:
        tensor: The tensor.
        stream: Raw handle that the consumer works on; it waits for the current
            stream. None or -1 asks for no waiting; 1 is the default stream.
        world: The device.
    """
    index = world.storages.index(tensor)
    if stream is not None and stream != -1:
        consumer = world.runtime.stream(int(stream), device=index)
        if consumer is not world.current(index):
            world.runtime.wait_stream(consumer, world.current(index))
    base: Any = torch._C.TensorBase
    with plain(), mock.patch.object(torch.Tensor, "device", base.device):
        made = torch._C._to_dlpack(tensor)
    return claim(made, _CUDA, index)


def import_capsule(made: Any) -> torch.Tensor:
    """Return the tensor over a capsule: `from_dlpack`, for device memory as well."""
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    name = get_name(made)
    if name == b"dltensor" and _device(made, name)[0] == _CUDA:
        # This torch knows no CUDA; where the memory lies says what it is.
        claim(made, _CPU)
    tensor: torch.Tensor = _IMPORT(made)
    return tensor


_IMPORT: Any = torch._C._from_dlpack


def _device(made: Any, name: bytes) -> Any:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # DLTensor: void *data, then {int32 device_type, int32 device_id}.
    return (ctypes.c_int32 * 2).from_address(get(made, name) + 8)


def claim(made: Any, kind: int, index: int = 0) -> Any:
    """Rewrite the device of an unversioned capsule."""
    _device(made, b"dltensor")[:] = [kind, index]
    return made
