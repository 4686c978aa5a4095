"""Who holds a tensor when a script has ended: the script, or a package."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Collection, Mapping
from types import CellType, FrameType, FunctionType, ModuleType
from typing import Any

import torch

_CONTAINERS = (dict, list, tuple, set, frozenset, CellType)
_FURTHEST = 8


def held_by_packages(
    starts: Collection[int],
    own: Mapping[str, Any],
    of_package: Callable[[str], bool],
) -> frozenset[int]:
    """Return the blocks whose tensors objects of packages hold, and the script not.

    What holds a tensor is the first object with a class of someone's, function or
    module that refers to it, through containers.

    Args:
        starts: Addresses of blocks.
        own: The script's global variables.
        of_package: Whether a file is a package's.
    """
    found: dict[int, set[bool]] = {}
    with torch._C.DisableTorchFunction():
        for value in gc.get_objects():
            if not issubclass(type(value), torch.Tensor):
                continue
            try:
                start = value.untyped_storage().data_ptr()
            except (RuntimeError, NotImplementedError):
                continue  # no memory: meta, sparse
            if start in starts:
                holders = _holders(value, own, of_package)
                found.setdefault(start, set()).update(holders)
    return frozenset(start for start, kinds in found.items() if kinds == {True})


def _holders(
    value: object, own: Mapping[str, Any], of_package: Callable[[str], bool]
) -> set[bool]:
    """Return whether packages hold a value, for each of its holders."""
    holders: set[bool] = set()
    todo, seen = [value], {id(value)}
    for _ in range(_FURTHEST):
        near = gc.get_referrers(*todo) if todo else []
        skipped = {id(todo), id(near)}
        todo = []
        for one in near:
            if id(one) in seen or id(one) in skipped or isinstance(one, FrameType):
                continue
            seen.add(id(one))
            file = "" if one is own else _file(one)
            if file is None:
                todo.append(one)
            else:
                holders.add(bool(file) and of_package(file))
    return holders


def _file(one: object) -> str | None:
    """Return the file that an object belongs to; None to look further."""
    if isinstance(one, dict) and "__name__" in one and "__builtins__" in one:
        return str(one.get("__file__", "<module>"))
    if isinstance(one, ModuleType):
        return getattr(one, "__file__", None) or "<module>"
    if isinstance(one, FunctionType):
        return one.__code__.co_filename
    if isinstance(one, _CONTAINERS):
        return None
    name = type(one).__module__
    if name.partition(".")[0] in ("torch", "builtins", "collections"):
        return None
    module = sys.modules.get(name)
    return getattr(module, "__file__", None)
