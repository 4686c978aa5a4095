"""The named scenarios, and how to find one.

Each is small enough for a virtual GPU (at most `LARGEST_FLOPS`), stands alone, and says
what it is for; a public bug that it would have shown is named by its id.
"""

from __future__ import annotations

import difflib

from sidestream.harness.errors import UsageError
from sidestream.scenarios.case import Scenario
from sidestream.scenarios.catalogue_host import HOST
from sidestream.scenarios.catalogue_layout import LAYOUT
from sidestream.scenarios.catalogue_lengths import LENGTHS
from sidestream.scenarios.catalogue_masks import MASKS
from sidestream.scenarios.catalogue_numerics import NUMERICS

CATALOGUE: tuple[Scenario, ...] = (*LENGTHS, *MASKS, *LAYOUT, *NUMERICS, *HOST)
"""Every named scenario, in the order they are run."""

LARGEST_FLOPS = 60_000_000
"""No scenario of the catalogue has more work than this."""


class UnknownScenarioError(UsageError, KeyError):
    """No scenario has this name; the message offers the nearest ones."""

    def __str__(self) -> str:
        return str(self.args[0])


def by_name(name: str) -> Scenario:
    """Return the scenario called `name`.

    Raises:
        UnknownScenarioError: there is none; also a KeyError.
    """
    for scenario in CATALOGUE:
        if scenario.name == name:
            return scenario
    names = [scenario.name for scenario in CATALOGUE]
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"; did you mean {', '.join(close)}?" if close else ""
    raise UnknownScenarioError(f"no scenario is called {name!r}{hint}")


def with_tags(*tags: str) -> tuple[Scenario, ...]:
    """Return the scenarios that carry every one of `tags`."""
    return tuple(s for s in CATALOGUE if set(tags) <= set(s.tags))
