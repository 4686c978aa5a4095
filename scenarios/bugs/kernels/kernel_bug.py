"""A public bug of a kernel as data, and the PTX of its two small kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from sidestream.scenarios.litmus.kernel import text_of
from sidestream.scenarios.litmus.twin import PROFILES, Found, Twin

IN_TURN = "round-robin"
FEW = (IN_TURN, *(f"random:{seed}" for seed in (1, 2, 3)))
"""Enough for a race, which any run shows."""
MANY = FEW + tuple(f"pct:{seed}:3" for seed in range(1, 13))
"""For what only some orders show: warps fall behind the others."""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """Roles of a small kernel, one warp each, in words of the litmus builder.

    Attributes:
        warps: Statements of each warp of every CTA, or of CTA 0 if `peers` is given.
        peers: Statements of each warp of CTA 1.
        bars: Arrival counts of the mbarriers.
        ctas: CTAs of the grid.
        cluster: CTAs of a cluster.
        tensor: Columns of tensor memory allocated.
        memory: First 32-bit words of the 4096 bytes at `%g`; the rest is zero.
    """

    warps: tuple[str, ...]
    peers: tuple[str, ...] = ()
    bars: tuple[int, ...] = ()
    ctas: int = 1
    cluster: int = 1
    tensor: int = 0
    memory: tuple[int, ...] = ()

    def threads(self) -> int:
        """Threads of a CTA."""
        return 32 * max(len(self.warps), len(self.peers))

    def text(self) -> str:
        """PTX of the kernel; its entry is `litmus`."""
        twin = Twin(
            name="",
            rule="",
            title="",
            warps=self.warps,
            peers=self.peers,
            op="",
            found=(),
            bars=self.bars,
            ctas=self.ctas,
            cluster=self.cluster,
            tensor=self.tensor,
        )
        return text_of(twin, sound=True)


class Build(Protocol):
    """Makes the kernel of a bug."""

    def __call__(self, *, fixed: bool) -> Kernel:
        """Return the kernel with the fix, or without."""


@dataclass(frozen=True, kw_only=True)
class KernelBug:
    """A public bug rebuilt, with its fixed twin.

    Attributes:
        name: Of the mechanism.
        issue: Public id of the bug.
        bug_class: `smem-race`, `async-proxy`, `mbarrier/deadlock`, `tmem` or
            `scheduler`.
        wrong: What was wrong, and what came of it.
        fix: What put it right.
        kernel: Makes the kernel, with the fix or without.
        found: Findings on the kernel without it, at least one of them in each
            schedule that shows the bug.
        also: Further findings that the same mistake may lead to.
        schedules: Under which it is run, spelt as `harness/exec/schedule.py` has it.
        spared: Words of global memory with which the bug does not show, by any
            schedule; empty if it does not depend on them.
        always: Whether every one of these schedules shows it, or only some.
        profiles: That find it.
        relaxed: Relaxation that is counted instead under the other ones, or "".
    """

    name: str
    issue: str
    bug_class: str
    wrong: str
    fix: str
    kernel: Build
    found: tuple[Found, ...]
    also: tuple[Found, ...] = ()
    schedules: tuple[str, ...] = field(default=FEW)
    spared: tuple[int, ...] = ()
    always: bool = True
    profiles: tuple[str, ...] = PROFILES
    relaxed: str = ""
