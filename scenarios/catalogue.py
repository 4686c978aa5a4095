"""The named scenarios, and how to find one.

Each is small enough for a virtual GPU (at most `LARGEST_FLOPS`), stands alone, and says
what it is for; a public bug that it would have shown is named by its id.
"""

from __future__ import annotations

import difflib
import fnmatch

from sidestream.harness.errors import UsageError
from sidestream.scenarios.case import Scenario
from sidestream.scenarios.catalogue_each import EACH
from sidestream.scenarios.catalogue_host import HOST
from sidestream.scenarios.catalogue_layout import LAYOUT
from sidestream.scenarios.catalogue_lengths import LENGTHS
from sidestream.scenarios.catalogue_masks import MASKS
from sidestream.scenarios.catalogue_mutation import MUTATION
from sidestream.scenarios.catalogue_narrow import NARROW
from sidestream.scenarios.catalogue_numerics import NUMERICS
from sidestream.scenarios.catalogue_public import PUBLIC
from sidestream.scenarios.catalogue_scaled import SCALED
from sidestream.scenarios.catalogue_wide import WIDE

CATALOGUE: tuple[Scenario, ...] = (*LENGTHS, *MASKS, *LAYOUT, *NUMERICS, *HOST)
"""The named scenarios of our kernels' interface, in the order they are run."""

EVERY: tuple[Scenario, ...] = (
    *CATALOGUE,
    *WIDE,
    *NARROW,
    *SCALED,
    *EACH,
    *PUBLIC,
)
"""With those of head dims, of one-byte inputs and of block scales that some targets
take, of every shape that our kernels are written for, and of public packages."""

LARGEST_FLOPS = 60_000_000
"""No scenario of the catalogue has more work than this; those of `PUBLIC` may."""


class UnknownScenarioError(UsageError, KeyError):
    """No scenario has this name; the message offers the nearest ones."""

    def __str__(self) -> str:
        return str(self.args[0])


def by_name(name: str) -> Scenario:
    """Return the scenario called `name`.

    Raises:
        UnknownScenarioError: there is none; also a KeyError.
    """
    for scenario in (*EVERY, *MUTATION):
        if scenario.name == name:
            return scenario
    names = [scenario.name for scenario in EVERY]
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"; did you mean {', '.join(close)}?" if close else ""
    raise UnknownScenarioError(f"no scenario is called {name!r}{hint}")


def matching(pattern: str) -> tuple[Scenario, ...]:
    """Return the scenarios whose names match a shell pattern, or the one of that name.

    Raises:
        UnknownScenarioError: there is none; also a KeyError.
    """
    if not any(sign in pattern for sign in "*?["):
        return (by_name(pattern),)
    found = tuple(
        scenario
        for scenario in (*EVERY, *MUTATION)
        if fnmatch.fnmatchcase(scenario.name, pattern)
    )
    if not found:
        raise UnknownScenarioError(f"no scenario's name matches {pattern!r}")
    return found


def with_tags(*tags: str) -> tuple[Scenario, ...]:
    """Return the scenarios that carry every one of `tags`."""
    return tuple(s for s in EVERY if set(tags) <= set(s.tags))
