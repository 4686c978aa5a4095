"""Public bugs of numbers, layout, bounds and overflow, each with mutants of ours.

    for row in ROWS:
        for mutant in row.mutants:
            ...                      # `mutant.check` fails on `mutant.scenario`

The scenarios are those of `catalogue_each`, and of `far` for overflow; every shape has
them.
"""

from __future__ import annotations

from sidestream.scenarios.bugs.rows.layout import LAYOUT
from sidestream.scenarios.bugs.rows.numerics import NUMERICS
from sidestream.scenarios.bugs.rows.oob import OOB
from sidestream.scenarios.bugs.rows.overflow import OVERFLOW
from sidestream.scenarios.bugs.rows.row import CLASSES, Mutant, Row

__all__ = ["CLASSES", "ROWS", "Mutant", "Row"]

ROWS: tuple[Row, ...] = (*NUMERICS, *LAYOUT, *OOB, *OVERFLOW)
