"""How large what a call of the program's own code was given is.

A call that is given more may need more memory. One that is given what an earlier call
was given needs what that call needed.
"""

from __future__ import annotations

import inspect
import itertools
import sys
import weakref
from collections.abc import Mapping
from dataclasses import is_dataclass
from types import CodeType, FrameType, SimpleNamespace
from typing import Any

from sidestream.harness.runtime.program_calls import own_call

Extents = tuple[Any, ...]
"""What a call was given: numbers and texts as they are, shapes of arrays, records and
containers by what they hold, all else by its type. Integers in an array may be lengths,
so such an array equals itself alone, as long as nothing is written to it. Compared,
never looked into."""

_DEEPEST = 4
_numbers = itertools.count()
_known: dict[int, tuple[weakref.ref[Any], int]] = {}
"""A number for each tensor of integers that was seen and still exists, by its id."""
_SHOWS_LOCALS = frozenset({"locals", "vars", "eval", "exec", "dir"})


def given() -> Extents:
    """Return the extents of what the program's innermost own call passes.

    Empty outside of such a call, and where its arguments cannot be seen.
    """
    number, own = own_call(sys._getframe(1))
    if not number:
        return ()
    called = sys._getframe(1)
    while called.f_back is not own:
        assert called.f_back is not None, "own_call found it further out"
        called = called.f_back
    return tuple(_extent(value, 0) for value in _arguments(called))


def _arguments(frame: FrameType) -> list[Any]:
    """Return what a function's parameters hold, without the first one if a method.

    A frame's locals are a copy that it keeps: it is emptied again, since it would hold
    tensors, unless the function may be using it.
    """
    code = frame.f_code
    if not code.co_flags & inspect.CO_OPTIMIZED or _SHOWS_LOCALS & {*code.co_names}:
        return []
    seen = frame.f_locals
    values = [seen[name] for name in _parameters(code) if name in seen]
    if isinstance(seen, dict):
        seen.clear()
    return values


def _parameters(code: CodeType) -> tuple[str, ...]:
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS)
    count += bool(code.co_flags & inspect.CO_VARKEYWORDS)
    names = code.co_varnames[:count]
    return names[1:] if names[:1] == ("self",) else names


def _extent(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    kind = type(value).__qualname__
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return kind, *shape, *_lengths(value)
    if depth == _DEEPEST:
        return kind
    if isinstance(value, list | tuple):
        return kind, *(_extent(item, depth + 1) for item in value)
    if isinstance(value, Mapping):
        items = ((str(k), _extent(v, depth + 1)) for k, v in value.items())
        return kind, *items
    if is_dataclass(value) or isinstance(value, SimpleNamespace):
        fields = getattr(value, "__dict__", {}).values()
        return kind, *(_extent(field, depth + 1) for field in fields)
    return kind


def _lengths(array: Any) -> tuple[int, ...]:
    """Tell an array of integers from all others, and from itself before a write."""
    version = getattr(array, "_version", None)
    if version is not None and hasattr(array, "is_floating_point"):
        if array.is_floating_point() or array.is_complex():
            return ()
        return _number(array), version
    # What writes to other arrays leaves no trace.
    integers = getattr(getattr(array, "dtype", None), "kind", "") in "iu"
    return (next(_numbers),) if integers else ()


def _number(tensor: Any) -> int:
    place = id(tensor)
    known = _known.get(place)
    if known is not None and known[0]() is tensor:
        return known[1]
    number = next(_numbers)
    gone = weakref.ref(tensor, lambda ref: _forget(place, ref))
    _known[place] = gone, number
    return number


def _forget(place: int, gone: weakref.ref[Any]) -> None:
    """Drop what no longer exists, unless another tensor took its place meanwhile."""
    if place in _known and _known[place][0] is gone:
        del _known[place]
