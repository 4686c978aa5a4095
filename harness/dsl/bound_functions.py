"""Which compiled functions call the replaced runtime: those compiled since it is there.

A host function is linked to its CUDA runtime when it is compiled. One that was compiled
before would ask the driver of this machine: there is none, or worse, there is one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from sidestream.harness.errors import UsageError

_MARK = "_sidestream_bound"


def mark_made(kind: type) -> None:
    """Let all objects that a class makes from now on be known as bound."""
    make: Callable[..., None] = kind.__init__  # type: ignore[misc]

    @functools.wraps(make)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        setattr(self, _MARK, True)
        make(self, *args, **kwargs)

    setattr(kind, "__init__", made)  # noqa: B010 -- a method, to type checkers


def require_bound(function: Any) -> None:
    """Refuse a compiled function, or an executor of one, made before.

    Raises:
        UsageError: for one that would not launch on the virtual device.
    """
    if getattr(function, _MARK, False):
        return
    module = function if hasattr(function, "function_name") else function.jit_module
    arguments = getattr(module, "execution_args", None)
    name = getattr(module, "function_name", "") or getattr(
        arguments, "function_name", ""
    )
    kernels = ", ".join(getattr(module, "kernel_info", None) or ())
    raise UsageError(
        f"{name or 'a function'}{f' (kernel {kernels})' if kernels else ''} was "
        "compiled by CuTe DSL before the virtual device was active: it is linked to "
        "this machine's CUDA driver. Compile it afterwards: start the program with "
        "`sidestream run`, or in a test import and compile it after the device was "
        "asked for, not when the module is collected"
    )
