"""Random numbers of the device: generators that say `cuda:0`, drawn from in call order.

On a GPU a call takes its place in the sequence when it is made, not when it runs. So
numbers are drawn at the call and land with the operation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_DEFAULT_SEED = 67280421310721
"""Seed of torch's generators until a program seeds them."""


class DeviceGenerator(torch._C.Generator):
    """A generator that says it is on the device."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The device it belongs to."""
        return torch.device("cuda:0")


class _GeneratorType(type(torch._C.Generator)):  # type: ignore[misc]
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch._C.Generator)


class AnyGenerator(torch._C.Generator, metaclass=_GeneratorType):
    """`torch.Generator`: on the device if that is asked for, else on the host."""

    def __new__(cls, device: torch.device | str | int = "cpu") -> Any:
        """Make a generator for a device."""
        if torch.device(device).type == "cuda":
            return DeviceGenerator()
        return torch._C.Generator(torch.device(device))


class Generators:
    """The default generator of the device."""

    def __init__(self) -> None:
        self.default = DeviceGenerator()
        self.default.manual_seed(_DEFAULT_SEED)

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Let operators inside draw from the device's generator, and advance it."""
        host = torch.default_generator
        kept = host.get_state()
        host.set_state(self.default.get_state())
        try:
            yield
        finally:
            self.default.set_state(host.get_state())
            host.set_state(kept)

    def branch(self) -> torch.Tensor:
        """Return the present state and let later calls draw other numbers."""
        state = self.default.get_state()
        torch.empty(1).uniform_(generator=self.default)
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
