"""Launch attributes (`cudaLaunchAttribute`) in the terms of a `Launch`."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from sidestream.harness.errors import UnsupportedError

SIZE = 72
"""Bytes of one attribute: a 4-byte id, 4 of padding, a 64-byte value."""

# cudaLaunchAttributeID; those in HINTS change speed, never results.
COOPERATIVE, CLUSTER, PDL = 2, 4, 6
HINTS = {0: "ignore", 1: "accessPolicyWindow", 3: "synchronizationPolicy",
         5: "clusterSchedulingPolicyPreference", 8: "priority",
         9: "memSyncDomainMap", 10: "memSyncDomain",
         14: "preferredSharedMemoryCarveout"}  # fmt: skip
UNMODELLED = {7: "programmaticEvent", 11: "preferredClusterDimension",
              12: "launchCompletionEvent",
              13: "deviceUpdatableKernelNode"}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LaunchAttributes:
    """What the attributes of a launch ask for."""

    cluster: tuple[int, int, int] = (1, 1, 1)
    pdl: bool = False
    cooperative: bool = False


def decode_attributes(data: bytes) -> LaunchAttributes:
    """Decode consecutive 72-byte attributes.

    Raises:
        UnsupportedError: for an attribute in use that has no model.
    """
    cluster, pdl, cooperative = (1, 1, 1), False, False
    for start in range(0, len(data), SIZE):
        (kind,) = struct.unpack_from("<I", data, start)
        value = data[start + 8 : start + SIZE]
        if kind == CLUSTER:
            x, y, z = struct.unpack_from("<3I", value)
            cluster = (x, y, z)
        elif kind == PDL:
            pdl = struct.unpack_from("<i", value)[0] != 0
        elif kind == COOPERATIVE:
            cooperative = struct.unpack_from("<i", value)[0] != 0
        elif kind in UNMODELLED and not any(value[:12]):
            continue  # present but unused: the host function passes zeros
        elif kind not in HINTS:
            name = UNMODELLED.get(kind, "unknown")
            raise UnsupportedError(f"launch attribute {kind} ({name}) has no model")
    return LaunchAttributes(cluster=cluster, pdl=pdl, cooperative=cooperative)
