"""Which storages are device memory and which are pinned, and tensors over them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import numpy as np
import torch

from sidestream.harness.runtime import Block, HostBlock, Runtime, Stream
from sidestream.harness.runtime.allocator import Statistics
from sidestream.harness.runtime.op import CallSite, here
from sidestream.harness.vtorch.segments import Region, Segments, memory

HOST, DEVICE, PINNED = 0, 1, 2
"""Where a tensor's storage lies."""

_BASE_DEVICE = torch._C.TensorBase.device
_EMPTY_BYTES = 512


class Lease(Region):
    """A region that is given back when the last storage over it goes."""

    __slots__ = ("_back",)

    def __init__(self, address: int, size: int, back: Callable[[], None]) -> None:
        super().__init__(address, size)
        self._back = back

    def __del__(self) -> None:
        self._back()


class Storages:
    """Storages that the runtime's allocators gave.

    A block is freed at the moment that its last storage goes, in the middle of any
    Python statement; if that is within a call of the runtime, at the next call.

    Args:
        runtime: Its allocators give the memory.
        segments: The backing of these allocators.
    """

    def __init__(self, runtime: Runtime, segments: Segments) -> None:
        self._runtime = runtime
        self._segments = segments
        self._blocks: dict[int, Block | None] = {}
        self._pinned: dict[int, HostBlock] = {}
        self._nothing = np.zeros(_EMPTY_BYTES * (1 + runtime.devices), np.uint8)
        start = int(self._nothing.ctypes.data)
        # Tensors without elements need a storage to be known by.
        starts = [start + _EMPTY_BYTES * d for d in range(runtime.devices)]
        self._empty = [memory(at, _EMPTY_BYTES) for at in starts]
        self._blocks.update(dict.fromkeys(starts))
        self._empty_at = {at: d for d, at in enumerate(starts)}

    def home(self, tensor: torch.Tensor) -> int:
        """Return where a tensor lies: `HOST`, `DEVICE` or `PINNED`.

        To be called with torch functions disabled.
        """
        try:
            address = tensor.untyped_storage().data_ptr()
        except (RuntimeError, NotImplementedError):
            return HOST  # no memory: meta, fake, sparse
        if address in self._blocks:
            return DEVICE
        if address in self._pinned:
            return PINNED
        # What came in from elsewhere over memory of ours, as through DLPack.
        device = self._segments.device(address)
        return HOST if device is None else DEVICE if device >= 0 else PINNED

    def index(self, tensor: torch.Tensor) -> int:
        """Return the index of the device that a device tensor lies on."""
        return self.index_at(tensor.untyped_storage().data_ptr())

    def index_at(self, address: int) -> int:
        """Return the index of the device that a storage of the device begins on."""
        if address in self._empty_at:
            return self._empty_at[address]
        return self._segments.device(address) or 0

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is device memory."""
        with torch._C.DisableTorchFunction():
            if _BASE_DEVICE.__get__(tensor).type != "cpu":
                return False
            return self.home(tensor) == DEVICE

    def holds_storage(self, storage: torch.UntypedStorage) -> bool:
        """Whether a storage is device memory."""
        address = storage.data_ptr()
        device = self._segments.device(address)
        return address in self._blocks or (device is not None and device >= 0)

    def block(self, tensor: torch.Tensor) -> Block | None:
        """Return the block of a device tensor; None for one without elements."""
        address = tensor.untyped_storage().data_ptr()
        if address in self._blocks:
            return self._blocks[address]
        held = (b for b in self._blocks.values() if b is not None)
        return next((b for b in held if 0 <= address - b.address < b.size), None)

    def device(
        self,
        dtype: torch.dtype,
        size: Sequence[int],
        stride: Sequence[int],
        *,
        stream: Stream,
        label: str,
        site: CallSite | None = None,
    ) -> torch.Tensor:
        """Allocate a device tensor for a stream; it holds what was there before.

        Raises:
            CudaError: cudaErrorMemoryAllocation, or what a capture forbids.
        """
        needed = extent(size, stride) * dtype.itemsize
        if not needed:
            return _over(self._empty[stream.device], dtype, size, stride)
        block = self._runtime.malloc(needed, stream=stream, label=label, site=site)
        block.format = str(dtype)
        lease = Lease(block.address, needed, lambda: self._back(block))
        self._blocks[block.address] = block
        return _over(torch.from_numpy(np.asarray(lease)), dtype, size, stride)

    def pinned(
        self, dtype: torch.dtype, size: Sequence[int], stride: Sequence[int]
    ) -> torch.Tensor:
        """Allocate a host tensor in pinned memory."""
        needed = extent(size, stride) * dtype.itemsize
        block = self._runtime.malloc_host(max(needed, 1))
        lease = Lease(block.address, block.size, lambda: self._back(block))
        self._pinned[block.address] = block
        return _over(torch.from_numpy(np.asarray(lease)), dtype, size, stride)

    def raw(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor over the same bytes that does not keep them allocated."""
        if not tensor.numel():
            return tensor.detach()
        made = self._segments.view(
            tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()
        )
        if tensor.is_conj():
            made = torch._conj(made)
        return torch._neg_view(made) if tensor.is_neg() else made

    def statistics(self, device: int) -> Statistics:
        """Return the allocator's counts, which the caller may reset."""
        return self._runtime.memory_stats(device)

    def _back(self, block: Block | HostBlock) -> None:
        if not sys.is_finalizing():
            self._free(block, here())

    def _free(self, block: Block | HostBlock, site: CallSite) -> None:
        if isinstance(block, HostBlock):
            self._pinned.pop(block.address, None)
            self._runtime.free_host(block, site=site)
        else:
            self._blocks.pop(block.address, None)
            self._runtime.free(block, site=site)


def extent(size: Sequence[int], stride: Sequence[int]) -> int:
    """Return how many elements a strided tensor reaches over."""
    if 0 in size:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))


def _over(
    data: torch.Tensor, dtype: torch.dtype, size: Sequence[int], stride: Sequence[int]
) -> torch.Tensor:
    made = torch.empty(0, dtype=dtype)
    return made.set_(data.untyped_storage(), 0, tuple(size), tuple(stride))
