"""`torch.compile`: what it returns is refused when it is called, and not before.

Packages decorate functions that a program may never call, and a model that is
compiled gives its parameters to an optimizer first.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, NoReturn

import torch

_OFF = ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")


class CompiledModule(torch.nn.Module):
    """A module that has been compiled: all of the module but its call.

    As torch's own, it holds the module as `_orig_mod`, so that names in its
    `state_dict` start with it, and looks up there what it does not have itself.
    """

    def __init__(self, module: torch.nn.Module, refuse: Callable[[], NoReturn]) -> None:
        super().__init__()
        self._orig_mod = module
        self._refuse = refuse
        self.training = module.training

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules[name]
        return getattr(self._orig_mod, name)

    def forward(self, *args: object, **kwargs: object) -> NoReturn:
        """Refuse the call."""
        self._refuse()


def refused_at_call(
    refuse: Callable[[str], NoReturn], compile_: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a `torch.compile` whose results refuse to be called.

    Where it is switched off it is torch's own, which gives the function itself.

    Args:
        refuse: Told what is called; raises.
        compile_: torch's own.
    """

    def compile_or_refuse(model: Any = None, **options: Any) -> Any:
        if options.get("disable") or any(os.environ.get(n) == "1" for n in _OFF):
            return compile_(model, **options)
        if model is None:
            return functools.partial(compile_or_refuse, **options)
        name = getattr(model, "__qualname__", type(model).__qualname__)

        def refused(*args: object, **kwargs: object) -> NoReturn:
            refuse(
                f"a call of {name}, compiled by torch.compile "
                "(TORCH_COMPILE_DISABLE=1 runs the program without it)"
            )

        if isinstance(model, torch.nn.Module):
            return CompiledModule(model, refused)
        return functools.wraps(model)(refused)

    return compile_or_refuse
