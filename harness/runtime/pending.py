"""Pending operations: what waits for what, and what may land next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from sidestream.harness.runtime.landing import Decisions
from sidestream.harness.runtime.op import Op, Run


@dataclass(eq=False, kw_only=True, slots=True)
class Pending:
    """An operation that was called and has not landed.

    Attributes:
        op: The operation.
        run: Does its work.
        after: Pending operations it waits for, by id.
        next: Pending operations that wait for it, by id.
    """

    op: Op
    run: Run | None
    after: set[int]
    next: list[int] = field(default_factory=list)


class Queue:
    """The pending operations of all streams: a graph of what waits for what.

    Args:
        decisions: Says which of the ready operations lands next.
        land: Runs an operation, at the moment it lands.
    """

    def __init__(
        self, decisions: Decisions, land: Callable[[Op, Run | None], None]
    ) -> None:
        self._decisions = decisions
        self._land = land
        self._pending: dict[int, Pending] = {}
        self._ready: dict[int, Op] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def holds(self, id: int) -> bool:
        """Whether an operation is still pending."""
        return id in self._pending

    def oldest(self) -> Op | None:
        """Return the pending operation that was called first."""
        return next((p.op for p in self._pending.values()), None)

    def add(self, op: Op, run: Run | None, after: Iterable[int]) -> None:
        """Add an operation that waits for others; landed ones count as done."""
        waits = {id for id in after if id in self._pending}
        for id in waits:
            self._pending[id].next.append(op.id)
        self._pending[op.id] = Pending(op=op, run=run, after=waits)
        if not waits:
            self._ready[op.id] = op

    def needed(self, targets: Collection[int]) -> set[int]:
        """Return the pending operations that must land for `targets` to have landed."""
        todo = [id for id in targets if id in self._pending]
        found: set[int] = set()
        while todo:
            id = todo.pop()
            if id not in found:
                found.add(id)
                todo += self._pending[id].after
        return found

    def finish(self, targets: Collection[int]) -> list[Op]:
        """Land operations until all of `targets` have landed; return them in order.

        Any ready operation may land on the way, as the policy decides.
        """
        needed = self.needed(targets)
        landed: list[Op] = []
        while needed:
            op = self.step(needed)
            landed.append(op)
            needed.discard(op.id)
        return landed

    def step(self, needed: Collection[int]) -> Op:
        """Land one ready operation and return it."""
        ready = sorted(self._ready)
        wanted = [self._ready[id] for id in ready if id in needed]
        others = [self._ready[id] for id in ready if id not in needed]
        op = self._decisions.choose(wanted + others, needed=len(wanted))
        pending = self._pending.pop(op.id)
        del self._ready[op.id]
        for id in pending.next:
            waiting = self._pending[id]
            waiting.after.discard(op.id)
            if not waiting.after:
                self._ready[id] = waiting.op
        self._land(op, pending.run)
        return op

    def all(self) -> list[int]:
        """Return every pending operation, by id, oldest first."""
        return list(self._pending)
