"""What host code sees of a case: cases of the same facts need it watched once."""

from __future__ import annotations

from collections.abc import Hashable

from sidestream.scenarios.scenario import Scenario


def host_facts(key: Hashable | None, scenario: Scenario) -> Hashable | None:
    """Return all that host code sees of a case but sizes; None if it is not told.

    Lengths are on the device: what the host does cannot depend on them unseen. Of
    sizes it sees which are 0: a call without tokens launches nothing, and shows nothing
    of one that does.

    Args:
        key: What the code for the scenario depends on, or None if that is not told.
        scenario: The case.
    """
    if key is None:
        return None
    return (
        key,
        *(scenario.stream, scenario.layout, scenario.out_layout, scenario.lse),
        *(scenario.capacity_q == 0, scenario.capacity_kv == 0),
    )
