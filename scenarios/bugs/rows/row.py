"""A public bug of a kernel as data: what shows it in ours, and how to put it in."""

from __future__ import annotations

from dataclasses import dataclass

from sidestream.scenarios.bugs.bug import Edit

CLASSES = ("numerics-edge", "layout", "oob", "overflow")


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """Our kernel with the public bug in it, and where that must show.

    Attributes:
        arch: PTX target that it is compiled for.
        shape: Head dims, as `catalogue_each.SHAPES` names them.
        scenario: Which of the row's scenarios is run.
        edits: Changes that put the bug in.
        check: The check that must fail.
        kinds: Kinds of which one must be among the findings.
        spared: A scenario of the row that does not show it, or "".
    """

    arch: str
    shape: str
    scenario: str
    edits: tuple[Edit, ...]
    check: str
    kinds: frozenset[str]
    spared: str = ""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One public bug.

    Attributes:
        issue: Its public id.
        bug_class: One of `CLASSES`.
        wrong: What was wrong.
        scenarios: Names, without the shape, of the scenarios that would show it, run
            at every shape of every target.
        mutants: At least one, each caught by a scenario of the row.
        counterpart: What stands for it where our kernels have no such part, or "".
    """

    issue: str
    bug_class: str
    wrong: str
    scenarios: tuple[str, ...]
    mutants: tuple[Mutant, ...]
    counterpart: str = ""
