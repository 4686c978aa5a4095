"""Attributes of modules and classes, replaced for as long as something is entered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

Change = tuple[object, str, object]
"""Owner, name and replacement."""

_ABSENT = object()


@contextmanager
def replaced_attributes(changes: Iterable[Change]) -> Iterator[None]:
    """Put replacements in place and take them out again, in the other direction.

    What an owner has not itself, because it inherits it or nobody does, it has not
    afterwards either. Cheaper than `unittest.mock`, which a process that enters
    hundreds of devices notices.
    """
    before: list[Change] = []
    try:
        for owner, name, value in changes:
            before.append((owner, name, vars(owner).get(name, _ABSENT)))
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
