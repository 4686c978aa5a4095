"""The implementations that can be tested, by their name on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sidestream.harness.drivers.cudnn import CudnnFrontend
from sidestream.harness.drivers.fa4 import FlashAttention4
from sidestream.harness.drivers.ours import Sidestream
from sidestream.harness.drivers.protocol import Driver
from sidestream.harness.errors import UsageError

DRIVERS: Mapping[str, Callable[[], Driver]] = MappingProxyType(
    {"sidestream": Sidestream, "fa4": FlashAttention4, "cudnn": CudnnFrontend}
)


def driver(name: str) -> Driver:
    """Return the driver of an implementation.

    Raises:
        UsageError: for an unknown name, with the names there are.
    """
    if name not in DRIVERS:
        known = ", ".join(DRIVERS)
        raise UsageError(f"unknown implementation {name!r}; there are {known}")
    return DRIVERS[name]()
