"""Arguments of replaced calls of `cuda.bindings`, bound as the calls do it.

The replacements name their parameters as they like. Callers may name them as
`cuda.bindings` does, so its own signatures say which argument is which. They also say
how many there are: what the real call would turn down with a `TypeError` gets one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any


def bound(
    changes: Iterable[tuple[object, str, Any]],
) -> Iterator[tuple[object, str, Any]]:
    """Let replacements take what the calls in whose place they stand take.

    Args:
        changes: (module, name, replacement); replacements take arguments by position.

    Yields:
        The same with replacements that take arguments by name too.
    """
    for owner, name, replacement in changes:
        yield owner, name, _bound(vars(owner).get(name), replacement)


def by_position(
    real: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """Return the arguments of a call as if all had been given by position.

    Raises:
        TypeError: the call does not take them.
    """
    return inspect.signature(real).bind(*args, **kwargs).args if kwargs else args


def _bound(real: Any, replacement: Callable[..., Any]) -> Callable[..., Any]:
    try:
        signature = inspect.signature(real)
    except (TypeError, ValueError):  # no such call here, or one that hides its names
        return replacement

    @functools.wraps(real)  # what replaces this one finds the same signature
    def call(*args: Any, **kwargs: Any) -> Any:
        return replacement(*signature.bind(*args, **kwargs).args)

    return call
