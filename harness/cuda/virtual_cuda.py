"""torch's virtual device over a table of host allocations, for calls judged alone.

`harness.vtorch` with two differences. Operations run when they are called: a check
looks at one call of a package and executes its launches in host order. And memory comes
from an `AllocationTable`, where every tensor lies between redzones of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from sidestream.harness.cuda.driver_calls import driver_answers, fill_answers
from sidestream.harness.cuda.memory import Allocation, AllocationTable
from sidestream.harness.cuda.table_storages import POISON, TableStorages
from sidestream.harness.errors import UnsupportedError
from sidestream.harness.runtime import Landing
from sidestream.harness.vtorch.attributes import Change
from sidestream.harness.vtorch.streams import Stream
from sidestream.harness.vtorch.virtual_torch import VirtualTorch
from sidestream.harness.vtorch.world import plain

if TYPE_CHECKING:
    from sidestream.harness.dsl.activation import Activation
    from sidestream.harness.dsl.chip import Chip

DEVICE = torch.device("cuda:0")

__all__ = ["DEVICE", "POISON", "VirtualCuda"]


class VirtualCuda(VirtualTorch):
    """Makes torch see `table` as the memory of one CUDA device while entered.

    Args:
        activation: The virtual device of this process, from `activate`.
        table: Global memory; tensors made for the device are added to it.
        stream: Handle of the current stream.
    """

    def __init__(
        self, activation: Activation, table: AllocationTable, stream: int = 0
    ) -> None:
        super().__init__(
            activation.chip,
            landing=Landing.parse("eager"),
            activation=activation,
            storages=lambda runtime, segments: TableStorages(
                runtime, segments, table=table, changed=self.publish
            ),
        )
        self._activation: Activation = activation
        self.table = table
        self.stream = self.choose(stream)
        """The current stream, as torch shows it."""

    @property
    def chip(self) -> Chip:
        """The chip that host code sees."""
        return self._activation.chip

    @property
    def fill(self) -> bytes:
        """Pattern that memory made by host code starts with."""
        return self._storages.fill

    @fill.setter
    def fill(self, pattern: bytes) -> None:
        self._storages.fill = pattern

    def choose(self, handle: int) -> Stream:
        """Make the stream of a handle, whoever made it, the current one."""
        stream = self.runtime.adopt_stream(handle)
        self.world.choose(stream, handle=handle)
        self.stream = Stream.over(stream, handle)
        return self.stream

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor's storage is device memory."""
        return self.world.storages.holds(tensor)

    def allocation(self, tensor: torch.Tensor) -> Allocation | None:
        """Return the live allocation of a tensor's storage, or None."""
        with torch._C.DisableTorchFunction():
            return self._storages.allocation(tensor)

    def upload(self, value: torch.Tensor, name: str) -> torch.Tensor:
        """Copy a host tensor into a new allocation and return it as a device tensor."""
        with plain():
            like = torch.empty_like(value, device="meta")
            made = self._storages.device(
                value.dtype,
                tuple(value.shape),
                like.stride(),
                stream=self.world.default(0),
                label=name,
            )
            made.copy_(value)
        return made

    def ranges(self) -> list[tuple[int, int, int]]:
        """Return (start, end, index of the device) of all device memory."""
        return [(a.va, a.end, 0) for a in self.table if not a.freed and a.size]

    def changes(self) -> Iterator[Change]:
        """Yield what is replaced: torch's side, and the driver's answers."""
        yield from super().changes()
        for owner in (torch.cuda, torch.cuda.graphs):
            yield owner, "CUDAGraph", _no_graph
        yield from driver_answers(lambda: self.chip, self.runtime.not_modelled)
        yield from fill_answers(self.table, self._node)

    def _node(self, handle: int, call: str, work: Callable[[], object]) -> bool:
        """Make a node of a driver's call on a captured stream; False if it is not."""
        stream = self.runtime.adopt_stream(handle)
        if stream.capture is None:
            return False

        def run() -> None:
            work()

        self.runtime.enqueue(kind="fill", label=call, stream=stream, run=run)
        return True

    @property
    def _storages(self) -> TableStorages:
        storages = self.world.storages
        assert isinstance(storages, TableStorages)
        return storages


def _no_graph(*args: Any, **kwargs: Any) -> Any:
    raise UnsupportedError(
        "CUDA graphs have no model where launches are executed at once; "
        "`sidestream run` captures and replays them"
    )
