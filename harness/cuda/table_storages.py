"""Device tensors in an allocation table: named, between redzones, never given back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from sidestream.harness.cuda.memory import Allocation, AllocationTable
from sidestream.harness.runtime import Block, CallSite, Runtime, Stream
from sidestream.harness.runtime.allocator import Statistics
from sidestream.harness.vtorch.segments import Segments
from sidestream.harness.vtorch.storages import DEVICE, Storages, extent

POISON = b"\xff\xff\xff\xff"
"""Fresh memory reads as NaN in every float format, and as -1."""


class TableStorages(Storages):
    """Storages of which those of the device lie in a table.

    The caching allocator of a card would put tensors where others lay before; here
    every tensor has an allocation of its own, so that a step past its end is seen.

    Args:
        runtime: Gives pinned memory.
        segments: The backing of the runtime.
        table: Where device memory comes from.
        changed: Called after the table got another allocation.
    """

    def __init__(
        self,
        runtime: Runtime,
        segments: Segments,
        *,
        table: AllocationTable,
        changed: Callable[[], None],
    ) -> None:
        super().__init__(runtime, segments)
        self._table = table
        self._changed = changed
        self.fill = POISON
        """Pattern that new memory starts with."""

    def allocation(self, tensor: torch.Tensor) -> Allocation | None:
        """Return the live allocation that holds a tensor's storage, or None."""
        try:
            address = tensor.untyped_storage().data_ptr()
        except (RuntimeError, NotImplementedError):
            return None  # no memory: meta, fake, sparse
        return self._live(address)

    def home(self, tensor: torch.Tensor) -> int:
        """Return where a tensor lies: `HOST`, `DEVICE` or `PINNED`."""
        return DEVICE if self.allocation(tensor) is not None else super().home(tensor)

    def holds_storage(self, storage: torch.UntypedStorage) -> bool:
        """Whether a storage is device memory."""
        return self._live(storage.data_ptr()) is not None

    def block(self, tensor: torch.Tensor) -> Block | None:
        """Return None: nothing here is ever used again for something else."""
        return None

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
        """Make an allocation named `label` and return a tensor over it."""
        needed = extent(size, stride) * dtype.itemsize
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            made = self._table.allocate(needed, label, fill=self.fill)
            tensor = made.tensor(dtype, tuple(size), tuple(stride))
        self._changed()
        return tensor

    def raw(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return another tensor over the same bytes."""
        return tensor.detach()

    def statistics(self, device: int) -> Statistics:
        """Return the bytes of the table, each allocation being a segment."""
        live = [a for a in self._table if not a.freed]
        held = sum(a.size for a in live)
        return Statistics(
            allocated=held,
            allocated_peak=held,
            requested=held,
            reserved=held,
            reserved_peak=held,
            allocations=len(live),
            segments=len(live),
        )

    def _live(self, address: int) -> Allocation | None:
        found = self._table.at(address)
        return found if found is not None and not found.freed else None
