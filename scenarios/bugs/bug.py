"""A seeded bug as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One change of a source file of `kernels/`: `old` occurs in it exactly once."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, kw_only=True)
class Bug:
    """One defect that can be put into our kernels.

    Attributes:
        name: Its name on the command line and in reports.
        description: What is wrong, and what it does to a user.
        issue: A public bug of this class, by its id, or "".
        edits: Changes that put it in.
        scenario: Name of the catalogue's scenario that shows it.
        check: The check that must fail there.
        kinds: Kinds that its findings must have; at least one of them occurs.
    """

    name: str
    description: str
    issue: str
    edits: tuple[Edit, ...]
    scenario: str
    check: str
    kinds: frozenset[str]
