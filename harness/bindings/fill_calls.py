"""Fills under their names in `cuda.bindings`: runs of elements, and rows of them.

CUDA Runtime API and CUDA Driver API, "Memory Management". None of them waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sidestream.harness.bindings.calls import Calls

WIDTHS = (1, 2, 4)
"""Bytes of an element that the driver's fills have a name for."""

Fill = Callable[..., None]


def runtime_fills(calls: Calls) -> dict[str, Fill]:
    """Return the fills of the runtime by name: of bytes."""

    def flat(call: str) -> Fill:
        def fill(target: Any, value: int, count: int, stream: Any = 0) -> None:
            place, byte = int(target), bytes([int(value) & 255])
            calls.fill(place, byte, int(count), int(stream), call=call)

        return fill

    def rows(call: str) -> Fill:
        def fill(
            target: Any, pitch: int, value: int, width: int, height: int, to: Any = 0
        ) -> None:
            byte = bytes([int(value) & 255])
            calls.fill_rows(
                *(int(target), int(pitch), byte, int(width), int(height), int(to)),
                call=call,
            )

        return fill

    return {
        f"{name}{suffix}": made(f"{name}{suffix}")
        for name, made in (("cudaMemset", flat), ("cudaMemset2D", rows))
        for suffix in ("", "Async")
    }


def driver_fills(calls: Calls) -> dict[str, Fill]:
    """Return the fills of the driver by name: of 1, 2 or 4 bytes."""

    def flat(call: str, bytes_each: int) -> Fill:
        def fill(target: Any, value: int, count: int, stream: Any = 0) -> None:
            item = int(value).to_bytes(bytes_each, "little")
            calls.fill(int(target), item, int(count), int(stream), call=call)

        return fill

    def rows(call: str, bytes_each: int) -> Fill:
        def fill(
            target: Any, pitch: int, value: int, width: int, height: int, to: Any = 0
        ) -> None:
            item = int(value).to_bytes(bytes_each, "little")
            calls.fill_rows(
                *(int(target), int(pitch), item, int(width), int(height), int(to)),
                call=call,
            )

        return fill

    made: dict[str, Fill] = {}
    for each in WIDTHS:
        for suffix in ("", "Async"):
            for name, maker in (("cuMemsetD", flat), ("cuMemsetD2D", rows)):
                call = f"{name}{8 * each}{suffix}"
                made[call] = maker(call, each)
    return made
