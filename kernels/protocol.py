"""The adapter protocol: what an attention implementation offers to be tested.

Implementations are driven through exactly these calls. `plan` and `Plan.compile` see
declarations only; `Compiled.execute` sees device buffers only, and reads none of their
contents on the host.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

SpecT = TypeVar("SpecT", contravariant=True)


class DeviceTensor(Protocol):
    """What execute needs of a tensor: metadata and an address, never its contents."""

    @property
    def shape(self) -> Any:
        """Extents."""

    @property
    def dtype(self) -> Any:
        """Element type; its text form ends in the name, such as "float16"."""

    @property
    def device(self) -> Any:
        """Where the memory lies."""

    def stride(self) -> Any:
        """Strides in elements, one per extent."""

    def element_size(self) -> int:
        """Bytes of one element."""

    def data_ptr(self) -> int:
        """Device address of element 0; may be 0 when there are no elements."""


@dataclass(frozen=True, kw_only=True)
class CacheInfo:
    """Compilations of the process so far: requests served from memory, and built."""

    hits: int
    misses: int


class Compiled(Protocol):
    """A compiled attention forward."""

    def execute(
        self,
        q: DeviceTensor,
        k: DeviceTensor,
        v: DeviceTensor,
        out: DeviceTensor,
        lse: DeviceTensor | None,
        lengths_q: DeviceTensor,
        lengths_kv: DeviceTensor,
        workspace: DeviceTensor,
        stream: int,
        sinks: DeviceTensor | None = None,
        descale_q: DeviceTensor | None = None,
        descale_k: DeviceTensor | None = None,
        descale_v: DeviceTensor | None = None,
        scale_out: DeviceTensor | None = None,
        amax: DeviceTensor | None = None,
        scales_q: DeviceTensor | None = None,
        scales_k: DeviceTensor | None = None,
        scales_v: DeviceTensor | None = None,
    ) -> None:
        """Enqueue one call on `stream`.

        Never reads device memory, blocks, allocates, fills or copies; capturable in a
        CUDA graph. Raises ValueError before any launch when metadata break the plan.
        """


class Plan(Protocol):
    """A declaration that was accepted."""

    @property
    def key(self) -> Hashable:
        """What the compiled code depends on: plan-time facts only."""

    def workspace_bytes(self) -> int:
        """Scratch the caller provides, 128-byte aligned; its contents do not matter."""

    def compile(self) -> Compiled:
        """Compile, or return what an equal key compiled before."""


class Adapter(Protocol[SpecT]):
    """The entry points of an implementation (a module satisfies it)."""

    def plan(self, spec: SpecT) -> Plan:
        """Accept a declaration; raise ValueError with the reason otherwise."""

    def cache_info(self) -> CacheInfo:
        """Hits and misses of the compile cache."""
