"""Happens-before of the host program: which clock every operation gets.

Edges: program order of a host thread, call before operation, stream order, the legacy
default stream with blocking streams, event record before what waits for it, an
operation before what follows a wait of the host for it, hand-over between threads.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from sidestream.harness.runtime.clock import join
from sidestream.harness.runtime.op import Clock


@dataclass(eq=False, kw_only=True)
class HostThread:
    """A host thread, or all of them as one.

    Attributes:
        agent: Its number in clocks.
        clock: What it knows to have happened.
        name: For reports.
        now: Its time in seconds since the run began.
    """

    agent: int
    clock: dict[int, int] = field(default_factory=dict)
    name: str = "host"
    now: float = 0.0

    def advance(self) -> None:
        """Tell what it does from now on apart from what it has done."""
        self.clock[self.agent] = self.clock.get(self.agent, 0) + 1


class Order:
    """Clocks of host threads; hands out the numbers of agents.

    Until `tell_threads_apart` all threads count as one, in the order of their calls:
    an order between them that the program does not show is then taken as given.
    """

    def __init__(self) -> None:
        self.agents = itertools.count(1)
        self._one = HostThread(agent=next(self.agents))
        self._one.advance()
        self._threads: dict[int, HostThread] = {}
        self._apart = False
        self._local = threading.local()

    def host(self) -> HostThread:
        """Return the calling thread."""
        if not self._apart:
            return self._one
        found: HostThread | None = getattr(self._local, "thread", None)
        if found is None:
            found = self.new_thread({})
            self._local.thread = found
        return found

    def tell_threads_apart(self) -> None:
        """From now on order threads only by `release` and `acquire`."""
        if not self._apart:
            self._apart = True
            self._local.thread = self._one
            self._one.name = "host thread 0"

    def new_thread(self, known: Clock) -> HostThread:
        """Make a thread that starts out knowing what `known` says."""
        made = HostThread(agent=next(self.agents), clock=dict(known))
        made.name = f"host thread {len(self._threads) + 1}"
        made.advance()
        self._threads[made.agent] = made
        return made

    def release(self) -> Clock:
        """Return what the calling thread hands to whoever acquires it."""
        host = self.host()
        given = dict(host.clock)
        host.advance()
        return given

    def acquire(self, given: Clock) -> None:
        """Let the calling thread know what another one released."""
        join(self.host().clock, given)


def joined(clocks: Iterable[Clock]) -> dict[int, int]:
    """Return a new clock that knows what each of `clocks` does."""
    out: dict[int, int] = {}
    for clock in clocks:
        join(out, clock)
    return out
