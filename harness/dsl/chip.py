"""What a chip tells a host program that asks: limits, sizes and its SM count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from sidestream.harness.errors import UsageError

DEFAULT_SMS = 4
"""SMs shown to host programs: few, so that persistent loops take several turns."""

SHARED_LIMITS = {
    **dict.fromkeys((1, 2, 3), 1024),  # threads of a block, block x and y
    4: 64,  # block z
    5: 2**31 - 1,  # grid x
    **dict.fromkeys((6, 7), 65535),  # grid y and z
    8: 49152,  # shared memory of a block without opting in
    9: 65536,  # constant memory
    10: 32,  # warp
    **dict.fromkeys((12, 82), 65536),  # registers of a block and of an SM
    **dict.fromkeys((17, 18), 0),  # no run-time limit, not integrated
    **dict.fromkeys((19, 31, 41), 1),  # host mapping, concurrency, unified addresses
    **dict.fromkeys((78, 79, 80, 83, 89, 90, 91, 95), 1),
    111: 1024,  # shared memory that the system keeps of every block
    **dict.fromkeys((115, 120), 1),  # stream-ordered pools, cluster launch
}
"""`cudaDeviceAttr` values that the chips share, read from an H200 (driver 580)."""


@dataclass(frozen=True, kw_only=True)
class Chip:
    """A GPU as host code sees it.

    Attributes:
        name: Marketing name, as `torch.cuda.get_device_name` would give it.
        arch: PTX target, e.g. `sm_120a`.
        sms: Streaming multiprocessors that host code is told of.
        smem_per_block: Largest opt-in shared memory of a CTA, in bytes.
        smem_per_sm: Shared memory of an SM, in bytes.
        l2_bytes: Size of the L2 cache, in bytes.
        memory_bytes: Size of global memory, in bytes.
        threads_per_sm: Most resident threads of an SM.
        blocks_per_sm: Most resident CTAs of an SM.
        max_cluster: Largest cluster, in CTAs, without the non-portable attribute.
        max_cluster_nonportable: Largest cluster with it.
    """

    name: str
    arch: str
    sms: int
    smem_per_block: int
    smem_per_sm: int
    l2_bytes: int
    memory_bytes: int
    threads_per_sm: int
    blocks_per_sm: int
    max_cluster: int = 8
    max_cluster_nonportable: int = 16

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability (major, minor)."""
        number = int(self.arch.removeprefix("sm_").rstrip("af"))
        return number // 10, number % 10

    def with_sms(self, sms: int) -> Chip:
        """Return the same chip with another SM count.

        Raises:
            UsageError: if `sms` is not positive.
        """
        if sms < 1:
            raise UsageError(f"a chip needs at least one SM, not {sms}")
        return replace(self, sms=sms)

    def attributes(self) -> Mapping[int, int]:
        """Values of `cudaDeviceAttr` by number; what is absent is not answered."""
        major, minor = self.capability
        values = dict(SHARED_LIMITS)
        values.update(
            {
                16: self.sms,
                38: self.l2_bytes,
                39: self.threads_per_sm,
                75: major,
                76: minor,
                81: self.smem_per_sm,
                97: self.smem_per_block,
                106: self.blocks_per_sm,
            }
        )
        return MappingProxyType(values)


CHIPS: Mapping[str, Chip] = MappingProxyType(
    {
        "sm_90a": Chip(
            name="NVIDIA H200",
            arch="sm_90a",
            sms=132,
            smem_per_block=232448,
            smem_per_sm=233472,
            l2_bytes=62914560,
            memory_bytes=141 * 10**9,
            threads_per_sm=2048,
            blocks_per_sm=32,
        ),
        "sm_100a": Chip(
            name="NVIDIA B200",
            arch="sm_100a",
            sms=148,
            smem_per_block=232448,
            smem_per_sm=233472,
            l2_bytes=132120576,
            memory_bytes=180 * 10**9,
            threads_per_sm=2048,
            blocks_per_sm=32,
        ),
        "sm_120a": Chip(
            name="NVIDIA RTX PRO 6000 Blackwell",
            arch="sm_120a",
            sms=188,
            smem_per_block=101376,
            smem_per_sm=102400,
            l2_bytes=134217728,
            memory_bytes=96 * 10**9,
            threads_per_sm=1536,
            blocks_per_sm=24,
            max_cluster_nonportable=8,
        ),
    }
)


def chip(arch: str) -> Chip:
    """Return the full chip of a PTX target.

    Raises:
        UsageError: naming the targets there are.
    """
    try:
        return CHIPS[arch]
    except KeyError:
        known = ", ".join(CHIPS)
        raise UsageError(f"unknown target {arch!r}; there are {known}") from None
