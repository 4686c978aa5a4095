"""A kernel launch as data: everything needed to execute it again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One kernel launch, as the host program asked for it.

    Attributes:
        kernel: Name of the `.entry` in `ptx`.
        ptx: The PTX text of the module that holds the entry.
        grid: Grid dimensions in CTAs (x, y, z).
        block: CTA dimensions in threads (x, y, z).
        cluster: Cluster dimensions in CTAs; (1, 1, 1) without one.
        dynamic_smem: Dynamic shared memory in bytes.
        stream: The raw stream handle the launch was enqueued on.
        params: The bytes of every kernel parameter, in order of declaration.
        pdl: True if programmatic dependent launch was asked for.
    """

    kernel: str
    ptx: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    dynamic_smem: int = 0
    stream: int = 0
    params: tuple[bytes, ...] = ()
    pdl: bool = False
