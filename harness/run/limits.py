"""The float64 reference of a scenario and its bounds."""

from __future__ import annotations

from sidestream.reference import tolerance
from sidestream.reference.tolerance import Arithmetic, Bound
from sidestream.scenarios.case import CaseInputs


def limits(inputs: CaseInputs, model: Arithmetic) -> tuple[Bound | None, str]:
    """Return the bounds of a scenario's outputs, or None and why there are none.

    Args:
        inputs: Its tensors, as `build` made them.
        model: How the kernel rounds.
    """
    try:
        return tolerance.bound(inputs.problem(), dtype=model), ""
    except ValueError as error:
        return None, str(error)
