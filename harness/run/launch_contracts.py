"""What data a kernel is launched for, against what it was launched for first.

A compiled kernel has the formats of its operands in it. One that is launched for
bfloat16 and later for float16 was found under a key that leaves the type out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sidestream.harness.launch import Launch
from sidestream.harness.runtime import CallSite

_FORMATS = {
    "torch.float16": re.compile(r"\.f16(x2)?\b"),
    "torch.bfloat16": re.compile(r"\.bf16(x2)?\b"),
    "torch.float8_e4m3fn": re.compile(r"\.e4m3(x2)?\b"),
    "torch.float8_e5m2": re.compile(r"\.e5m2(x2)?\b"),
}
"""Formats that share their width with another, and where PTX works with one."""
_WIDTH = {name: 8 if "float8" in name else 16 for name in _FORMATS}


@dataclass(frozen=True, kw_only=True)
class Shared:
    """A kernel that is launched for data of two formats.

    Attributes:
        kernel: Its name.
        parameter: Index of the kernel's parameter.
        first: Format of the data at the first launch.
        second: At a later one.
        first_site: Where the first was called.
        second_site: Where the later one was.
    """

    kernel: str
    parameter: int
    first: str
    second: str
    first_site: CallSite
    second_site: CallSite


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """A launch on one device for memory of another.

    Attributes:
        kernel: Its name.
        parameter: Index of the kernel's parameter.
        device: Where it is launched.
        memory: Device of the memory.
        site: Where it was called.
    """

    kernel: str
    parameter: int
    device: int
    memory: int
    site: CallSite


class Contracts:
    """Formats and devices of the operands of all kernels so far.

    Args:
        format_of: Returns the element type that the memory at an address was allocated
            for, as torch spells it, or "".
        device_of: Returns the device whose memory holds an address, or None.
    """

    def __init__(
        self,
        format_of: Callable[[int], str],
        device_of: Callable[[int], int | None] = lambda address: None,
    ) -> None:
        self.shared: list[Shared] = []
        self.foreign: list[Foreign] = []
        self._format_of = format_of
        self._device_of = device_of
        self._first: dict[tuple[int, str, int, int], tuple[str, CallSite]] = {}

    def note(self, launch: Launch, site: CallSite, *, device: int = 0) -> None:
        """Take note of a launch. Kernels that only move bytes may serve any format."""
        for parameter, offset, word in _words(launch):
            memory = self._device_of(word)
            if memory not in (None, device):
                self.foreign.append(
                    Foreign(
                        kernel=launch.kernel,
                        parameter=parameter,
                        device=device,
                        memory=memory,
                        site=site,
                    )
                )
            format = self._format_of(word)
            if format not in _FORMATS:
                continue
            key = hash(launch.ptx), launch.kernel, parameter, offset
            first, where = self._first.setdefault(key, (format, site))
            if (
                first != format
                and _WIDTH[first] == _WIDTH[format]
                and _FORMATS[first].search(launch.ptx)
                and not _FORMATS[format].search(launch.ptx)
            ):
                self.shared.append(
                    Shared(
                        kernel=launch.kernel,
                        parameter=parameter,
                        first=first.removeprefix("torch."),
                        second=format.removeprefix("torch."),
                        first_site=where,
                        second_site=site,
                    )
                )


def _words(launch: Launch) -> Iterator[tuple[int, int, int]]:
    """Yield the 8-byte words of the parameters: pointers, alone or in tensor maps."""
    for parameter, data in enumerate(launch.params):
        for offset in range(0, len(data) - 7, 8):
            yield parameter, offset, int.from_bytes(data[offset : offset + 8], "little")
