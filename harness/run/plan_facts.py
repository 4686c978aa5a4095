"""What host code sees of a case: cases of the same facts need it watched once."""

from __future__ import annotations

from collections.abc import Hashable

from sidestream.harness.drivers.protocol import Driver, PlansAhead
from sidestream.harness.run.problem import problem_of
from sidestream.harness.run.settings import Settings
from sidestream.scenarios.scenario import Scenario


def host_facts(
    driver: Driver, scenario: Scenario, settings: Settings
) -> Hashable | None:
    """Return all that host code sees of a case but sizes; None if it is not told.

    Lengths are on the device: what the host does cannot depend on them unseen. Of
    sizes it sees which are 0: a call without tokens launches nothing, and shows nothing
    of one that does.
    """
    if not isinstance(driver, PlansAhead):
        return None
    return (
        driver.compile_key(problem_of(scenario), settings.arch),
        *(scenario.stream, scenario.layout, scenario.out_layout, scenario.lse),
        *(scenario.capacity_q == 0, scenario.capacity_kv == 0),
    )
