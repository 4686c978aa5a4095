"""Random numbers of a device: generators that say `cuda`, drawn from in call order.

On a GPU a call takes its place in the sequence when it is made, not when it runs. So
numbers are drawn at the call and land with the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

_DEFAULT_SEED = 67280421310721
"""Seed of torch's generators until a program seeds them."""


class DeviceGenerator(torch._C.Generator):
    """A generator that says it is on a device."""

    index: int = 0

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The device it belongs to."""
        return torch.device("cuda", self.index)


class _GeneratorType(type(torch._C.Generator)):  # type: ignore[misc]
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch._C.Generator)


class AnyGenerator(torch._C.Generator, metaclass=_GeneratorType):
    """`torch.Generator`: on the device if that is asked for, else on the host."""

    def __new__(cls, device: torch.device | str | int = "cpu") -> Any:
        """Make a generator for a device."""
        if torch.device(device).type == "cuda":
            made = DeviceGenerator()
            made.index = torch.device(device).index or 0
            return made
        return torch._C.Generator(torch.device(device))


class Generators:
    """The default generators of the devices.

    Args:
        devices: How many devices there are.
        current: Returns the index of the current one.
    """

    def __init__(self, devices: int, current: Callable[[], int]) -> None:
        self._current = current
        self.defaults = tuple(DeviceGenerator() for _ in range(devices))
        for index, made in enumerate(self.defaults):
            made.index = index
            made.manual_seed(_DEFAULT_SEED)

    def default(self, device: int | None = None) -> DeviceGenerator:
        """Return the generator of a device, the current one if absent."""
        return self.defaults[self._current() if device is None else device]

    @contextmanager
    def drawing(self, device: int) -> Iterator[None]:
        """Let operators inside draw from a device's generator, and advance it."""
        host, own = torch.default_generator, self.defaults[device]
        kept = host.get_state()
        host.set_state(own.get_state())
        try:
            yield
        finally:
            own.set_state(host.get_state())
            host.set_state(kept)

    def branch(self, device: int) -> torch.Tensor:
        """Return the present state and let later calls draw other numbers."""
        own = self.defaults[device]
        state = own.get_state()
        torch.empty(1).uniform_(generator=own)
        return state

    @contextmanager
    def drawing_from(self, state: torch.Tensor) -> Iterator[None]:
        """Let operators inside draw from a state that `branch` gave."""
        host = torch.default_generator
        kept = host.get_state()
        host.set_state(state)
        try:
            yield
        finally:
            host.set_state(kept)
