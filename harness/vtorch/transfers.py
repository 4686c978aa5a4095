"""Copies between host and device: when the source is read and who waits.

Rules: CUDA Runtime API, "API synchronization behavior"; torch.Tensor.to. A copy from
pinned memory reads it when it lands, unless torch has to bring the source into another
form first, which it does on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from sidestream.harness.runtime import CallSite, Span, Stream, here
from sidestream.harness.vtorch.shown import note
from sidestream.harness.vtorch.storages import DEVICE, PINNED
from sidestream.harness.vtorch.tensor_spans import spans
from sidestream.harness.vtorch.world import World, plain


class Transfers:
    """Copies across the link.

    Args:
        world: The device.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    def copy(
        self, target: torch.Tensor, source: torch.Tensor, *, waits: bool, label: str
    ) -> None:
        """Copy a tensor of the same extents from host to device or back.

        Args:
            target: Where to.
            source: Where from.
            waits: Whether the call returns only when the copy has landed.
            label: What reports call it.

        Raises:
            CudaError: what a capture forbids.
            RuntimeError: for pageable memory in a capture, as torch has it.
        """
        if not source.numel():
            return
        storages = self._world.storages
        up = storages.home(target) == DEVICE
        device = self._world.where(target if up else source)
        stream, site = self._world.current(device), here()
        host = storages.home(source if up else target)
        if up and host == PINNED and not _alike(target, source):
            # Brought into the target's form by the host, within the call.
            for span in spans(source):
                self._world.runtime.host_access(span, write=False, label=label)
            source, host = source.to(target.dtype).clone(), 0
        into, out = storages.raw(target) if up else target, source
        if not up:
            out = storages.raw(source)
        if host == PINNED and up:
            out = storages.raw(source)
        elif host == PINNED:
            into = storages.raw(target)
        pageable = host != PINNED
        if pageable and self._world.runtime.capturing(stream) != "none":
            self._world.runtime.refuse(
                "cudaErrorStreamCaptureUnsupported",
                f"{label} of pageable memory, which torch does not capture",
            )
            raise RuntimeError(
                "Cannot copy between CPU and CUDA tensors during CUDA graph capture "
                "unless the CPU tensor is pinned. Please use tensor.pin_memory() or "
                "allocate the tensor with pin_memory=True."
            )
        if pageable and not up:
            # The runtime waits within the copy; torch tells of it first.
            waits = False
            self._announce(label)
        self._world.runtime.copy(
            direction="h2d" if up else "d2h",
            reads=spans(source),
            writes=spans(target),
            stream=stream,
            take=_taker(into, out, stage=up and pageable),
            label=label,
            site=site,
        )
        if waits:
            self._world.wait(label, stream, site=site)
        if not up and (waits or pageable):
            note(self._world, target, source)

    def across(self, target: torch.Tensor, source: torch.Tensor, *, label: str) -> None:
        """Copy a tensor to another device.

        The copy goes to the current stream of the source's device, between two events:
        it waits for the current stream of the target's device, which then waits for
        it. The host waits for neither (CUDA Runtime API, "Peer Device Memory Access";
        ATen, `copy_kernel_cuda`). Other streams of both devices know nothing of it.
        """
        if not target.numel():
            return
        world = self._world
        runtime, storages = world.runtime, world.storages
        stream, site = world.current(world.where(source)), here()
        there = world.current(world.where(target))
        into, out = storages.raw(target), storages.raw(source)
        out = out.expand(into.shape)

        def run() -> None:
            with plain():
                into.copy_(out)

        runtime.wait_stream(stream, there, site=site)
        runtime.enqueue(
            kind="copy",
            label=label,
            stream=stream,
            reads=spans(source),
            writes=spans(target),
            run=run,
            site=site,
        )
        runtime.wait_stream(there, stream, site=site)

    def place(
        self,
        value: torch.Tensor,
        stream: Stream,
        label: str,
        site: CallSite,
        reads: Sequence[Span] = (),
    ) -> torch.Tensor:
        """Return a device tensor that an operation on a stream fills with a value.

        `reads` are the bytes it computes the value from again.
        """
        storages = self._world.storages
        made = storages.device(
            value.dtype, tuple(value.shape), value.stride(), stream=stream, label=label
        )
        raw = storages.raw(made)

        def run() -> None:
            with plain():
                raw.copy_(value)

        if made.numel():
            self._world.runtime.enqueue(
                kind="torch",
                label=label,
                stream=stream,
                reads=reads,
                writes=spans(made),
                run=run,
                site=site,
            )
        return made

    def _announce(self, label: str) -> None:
        self._world.may_wait(label)


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether a copy is one of bytes, in order."""
    return a.dtype == b.dtype and a.stride() == b.stride() and _dense(a)


def _dense(tensor: torch.Tensor) -> bool:
    return bool(torch.ops.aten.is_non_overlapping_and_dense.default(tensor))


def _taker(
    into: torch.Tensor, out: torch.Tensor, *, stage: bool
) -> Callable[[], Callable[[], None]]:
    def take() -> Callable[[], None]:
        with plain():
            value = out.clone() if stage else out

        def run() -> None:
            with plain():
                into.copy_(value)

        return run

    return take
