"""Vector clocks: which operations of every agent are known to have happened.

An agent is a host thread, a stream or a branch of a graph. A clock maps an agent to
the number of its operations that happened before; absent means none.
"""

from __future__ import annotations

from sidestream.harness.runtime.op import Clock


def join(into: dict[int, int], other: Clock) -> None:
    """Make `into` know everything that `other` knows."""
    for agent, tick in other.items():
        if into.get(agent, 0) < tick:
            into[agent] = tick
