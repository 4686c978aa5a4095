"""Hypothesis strategies over the whole interface, for sweeps and for the user's tests.

    @given(scenarios())
    def test_my_kernel(scenario): ...

`scenarios` covers every declaration; `core_scenarios` keeps the core one, so that any
number of examples needs one compilation. Both shrink to few, short sequences, one
head, no mask, packed strides and no tails.
"""

from sidestream.scenarios.strategies.config import declarations
from sidestream.scenarios.strategies.lengths import length, sequences
from sidestream.scenarios.strategies.scenario import core_scenarios, scenarios

__all__ = ["core_scenarios", "declarations", "length", "scenarios", "sequences"]
