"""Who watches a launch, and where on the machine it happens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """The places a launch takes on the machine.

    Attributes:
        slots: CTAs alive at once, whole clusters.
        cluster: CTAs of a cluster.
        warps: Warps of a CTA.
        smem: Bytes of shared memory of a CTA.
    """

    slots: int
    cluster: int
    warps: int
    smem: int


class Observer(Protocol):
    """Watches a launch through the table of functions of `core/observer.h`."""

    def attach(self, geometry: Geometry) -> int:
        """Return the address of the `Observer`, alive as long as the object."""
