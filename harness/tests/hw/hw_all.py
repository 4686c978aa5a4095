"""All instruction cases, in a fixed order."""

from __future__ import annotations

import hw_cases_lane
import hw_cases_mma
import hw_cases_tensor
import hw_cases_warp
from hw_case import Case, names


def all_cases(scale: int = 1) -> list[Case]:
    """Every case; `scale` multiplies the random operands of each."""
    found = [
        case
        for module in (hw_cases_mma, hw_cases_lane, hw_cases_warp, hw_cases_tensor)
        for case in module.cases(scale)
    ]
    names(found)
    return found
